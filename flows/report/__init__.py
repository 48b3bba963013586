"""The backtest report: one HTML file that a stranger understands, and its tables as parquet."""

from flows.report.write_report import Report, write_report

__all__ = ["Report", "write_report"]
