"""All commands together. Modules behind a command are imported when it runs: ``fillwright --help`` needs none of them."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from flows.cli import bench, config, data, doctor, init, listing, pipeline, runs

application = typer.Typer(
    name="fillwright",
    help="Train, validate and backtest policies, of order execution or of a task of one's own. "
    "State lies in FILLWRIGHT_HOME (default .fillwright/). "
    "Exit codes: 0 done, 1 the run failed, 2 bad input, 130 interrupted, 143 terminated.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        from importlib.metadata import version

        print(f"fillwright {version('fillwright')}")
        raise typer.Exit


@application.callback()
def _prepare(
    is_version_wanted: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    is_verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what goes on, on stderr.")] = False,
) -> None:
    level = logging.INFO if is_verbose else logging.WARNING
    logging.basicConfig(level=level, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    for name in ("httpx", "httpcore"):  # one line for each request to Prefect's server hides what goes on
        logging.getLogger(name).setLevel(logging.WARNING)


data_commands = typer.Typer(
    help="Market data: check what one has, build a store from it.", no_args_is_help=True, rich_markup_mode=None
)
data_commands.command("check")(data.check)
data_commands.command("build")(data.build)

config_commands = typer.Typer(help="Experiment files: check one, print the schema.", no_args_is_help=True, rich_markup_mode=None)
config_commands.command("check")(config.check)
config_commands.command("schema")(config.schema)

application.command("run")(pipeline.run)
application.command("init")(init.init)
application.command("train")(pipeline.train)
application.command("validate")(pipeline.validate)
application.command("backtest")(pipeline.backtest)
application.add_typer(data_commands, name="data")
application.add_typer(config_commands, name="config")
application.command("list")(listing.list_parts)
application.command("runs")(runs.list_runs)
application.command("gc")(runs.collect_garbage)
application.command("ui")(runs.show_interfaces)
application.command("doctor")(doctor.doctor)
application.command("bench")(bench.bench)
