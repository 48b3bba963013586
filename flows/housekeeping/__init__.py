"""Keeping a home in order: what lies in it, what may go."""
