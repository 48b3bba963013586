"""``fillwright list``: what is there to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import Json


def list_parts(
    plugins: Annotated[list[str] | None, typer.Option("--plugin", help="A plugin whose parts are to be listed too.")] = None,
    is_json: Json = False,
) -> None:
    """List the shipped experiments, and the parts that an experiment file can name."""
    from flows.cli.experiments import shipped_experiments
    from flows.cli.output import aligned, print_result
    from rlcore.config.loading import make_registry
    from rlcore.foundation.registry import CATEGORIES

    registry = make_registry([str(Path(plugin).resolve()) if plugin.endswith(".py") else plugin for plugin in plugins or ()])
    experiments = shipped_experiments()
    parts = {category: {kind: _first_line(entry) for kind, entry in registry.kinds(category).items()} for category in CATEGORIES}
    lines = ["experiments", *aligned([(f"  {name}", str(path)) for name, path in experiments.items()])]
    for category, kinds in parts.items():
        lines += ["", category, *aligned([(f"  {kind}", text) for kind, text in kinds.items()])]
    print_result({"experiments": experiments, "parts": parts}, lines, is_json)


def _first_line(entry: type) -> str:
    return (entry.__doc__ or "").strip().split("\n")[0]
