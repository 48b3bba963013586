"""The command ``fillwright``."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command; the exit code is documented in ``flows.cli.exit_codes``."""
    from flows.cli.application import application
    from flows.cli.exit_codes import exit_code_of

    raise SystemExit(exit_code_of(application))
