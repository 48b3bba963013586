"""``fillwright config``: is this experiment file right, what will it cost, what may stand in one?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import ExperimentFile, Json, Set


def check(experiment: ExperimentFile, overrides: Set = None, is_json: Json = False) -> None:
    """Check an experiment without running it; estimate its memory and time."""
    from flows.cli.experiments import find_experiment, load
    from flows.cli.output import aligned, print_result
    from rlcore.config.estimate import estimate

    loaded = load(experiment, overrides)
    cost = estimate(loaded)
    result = {
        "file": find_experiment(experiment),
        "name": loaded.name,
        "experiment": loaded.to_plain(),
        "digests": {name: loaded.digest(name) for name in ("data", "training", "budget", "evaluation")},
        "estimate": None if cost is None else cost.to_plain(),
    }
    lines = [f"{loaded.name}: the experiment is valid", ""]
    if cost is None:
        lines.append("no estimate: its kind of market offers no trial")
    else:
        lines += ["estimate", *aligned(cost.rows())]
    print_result(result, lines, is_json)


def schema(
    plugins: Annotated[list[str] | None, typer.Option("--plugin", help="A plugin whose parts are to be in the schema.")] = None,
    destination: Annotated[Path | None, typer.Option("--output", help="The file to write; default: stdout.")] = None,
    is_json: Json = False,
) -> None:
    """Print the JSON schema of experiment files, of both forms, for an editor that completes and checks them."""
    from rlcore.config.loading import experiment_schema
    from rlcore.foundation.atomic_files import write_atomically
    from rlcore.foundation.errors import InputError

    located = [str(Path(plugin).resolve()) if plugin.endswith(".py") else plugin for plugin in plugins or ()]
    text = json.dumps(experiment_schema(located), indent=None if is_json else 2, ensure_ascii=False)
    if destination is None:
        print(text)
        return
    try:
        write_atomically(destination, f"{text}\n".encode())
    except OSError as error:
        raise InputError(f"--output must be a file that can be written, was {destination} ({error.strerror or error})") from error
    print(json.dumps({"schema": str(destination)}) if is_json else f"wrote {destination}")
