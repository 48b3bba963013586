"""Options that several commands share."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else there.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set any key of the experiment, dotted, with a value in YAML; repeatable."),
]
HomeFolder = Annotated[
    Path | None,
    typer.Option("--home", envvar="FILLWRIGHT_HOME", help="Folder for state; default .fillwright/ in the working directory."),
]
FastDevRun = Annotated[
    int | None,
    typer.Option(
        "--fast-dev-run",
        metavar="N",
        min=1,
        help="A quick trial: N seeds of each set and N episodes (or steps of every lane) an iteration; training.fast_dev_run.",
    ),
]
ExperimentFile = Annotated[
    str, typer.Argument(metavar="EXPERIMENT", help="An experiment file, or a shipped one's name (see `fillwright list`).")
]
AsOf = Annotated[
    str | None, typer.Option("--as-of", metavar="YYYY-MM-DD", help="The last day of market data that the run sees; default: all.")
]


def as_of_date(text: str | None) -> date | None:
    """Return the day that ``--as-of`` names.

    Raises:
        ConfigError: for anything that is no day.
    """
    from rlcore.foundation.errors import ConfigError

    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"--as-of must be a day such as 2021-06-09, was {text!r}") from error
