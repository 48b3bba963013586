"""Tracking: the only place that knows MLflow."""
