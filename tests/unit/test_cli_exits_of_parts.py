"""A user's part that ends the process has not done what the command was asked for."""

from __future__ import annotations

import json
import sys

import pytest
import typer

from flows.cli.exit_codes import FAILED, TERMINATED, exit_code_of


def application_that_ends_with(code: int | str | None) -> typer.Typer:
    application = typer.Typer(pretty_exceptions_enable=False)

    @application.command()
    def train(is_json: bool = typer.Option(False, "--json")) -> None:
        sys.exit(code)

    return application


@pytest.mark.parametrize("code", [0, None, 2, 130, "no licence"])
def test_a_part_that_ends_the_process_has_failed_and_is_shown(code: int | str | None, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(application_that_ends_with(code), ["--json"]) == FAILED
    shown = capsys.readouterr()
    assert "sys.exit(code)" in shown.err  # where it stands
    message = "" if code is None else str(code)
    assert json.loads(shown.out) == {"error": {"type": "SystemExit", "message": message, "exit_code": FAILED}}


def test_sigterm_is_still_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(application_that_ends_with(TERMINATED), []) == TERMINATED
    assert capsys.readouterr().err == "terminated\n"
