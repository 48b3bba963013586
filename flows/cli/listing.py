"""``fillwright list``: what is there to start from."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.options import Json

if TYPE_CHECKING:
    from rlcore.foundation.registry import Registry

EXPERIMENTS = "experiments"


def list_parts(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[WHAT]",
            help="experiments markets simulators observations actions rewards auxiliaries seeds tasks networks agents loggers; "
            "none: all.",
        ),
    ] = None,
    plugins: Annotated[list[str] | None, typer.Option("--plugin", help="A plugin whose parts are to be listed too.")] = None,
    is_json: Json = False,
) -> None:
    """List the shipped experiments, and the parts that an experiment file can name, one line each."""
    from flows.cli.experiments import shipped_experiments
    from flows.cli.output import aligned, print_result
    from rlcore.config.loading import make_registry
    from rlcore.foundation.errors import ConfigError, nearest_name
    from rlcore.foundation.registry import CATEGORIES

    by_name = {plural(category): category for category in CATEGORIES}
    wanted = None if what is None else what if what in (EXPERIMENTS, *by_name) else plural(what)
    if wanted is not None and wanted not in (EXPERIMENTS, *by_name):
        known = (EXPERIMENTS, *by_name)
        raise ConfigError(f"what to list must be one of {', '.join(known)}, was {what!r}{nearest_name(str(what), known)}")
    registry = make_registry([str(Path(plugin).resolve()) if plugin.endswith(".py") else plugin for plugin in plugins or ()])
    experiments = shipped_experiments() if wanted in (None, EXPERIMENTS) else {}
    categories = [category for name, category in by_name.items() if wanted in (None, name)]
    parts = {category: _described(registry, category) for category in categories}
    blocks = [(EXPERIMENTS, {name: _opening(Path(path)) for name, path in experiments.items()})] if experiments else []
    blocks += [block for category in categories for block in _blocks(registry, category)]
    lines = [
        line for title, rows in blocks for line in ("", title, *aligned([(f"  {kind}", text) for kind, text in rows.items()]))
    ]
    print_result({EXPERIMENTS: experiments, "parts": parts}, lines[1:], is_json)


def plural(category: str) -> str:
    """Return what several of a category are called."""
    if category.endswith("y"):
        return f"{category[:-1]}ies"
    return category if category.endswith("s") else f"{category}s"


def _opening(path: Path) -> str:
    """Return the first sentence of the comment that an experiment file begins with."""
    lines = itertools.takewhile(lambda line: line.startswith("#"), path.read_text(encoding="utf-8").splitlines())
    comment = " ".join(line.removeprefix("#").strip() for line in lines)
    return re.split(r"(?<=[.?])\s(?=[A-Z])|: ", comment, maxsplit=1)[0]


def _blocks(registry: Registry, category: str) -> list[tuple[str, dict[str, str]]]:
    """Return title → kinds: where a category serves both forms of experiment, one block for each."""
    from rlcore.config.forms import BASES

    described, bases = _described(registry, category), BASES[category]
    if len(bases) == 1:
        return [(plural(category), described or {"(none)": "a plugin can register some"})]
    blocks = []
    for base, form in zip(bases, ("order execution", "a task of one's own"), strict=True):
        kinds = {kind: text for kind, text in described.items() if issubclass(registry[category, kind], base)}
        blocks.append((f"{plural(category)} of {form}", kinds or {"(none)": "a plugin can register some"}))
    return blocks


def _described(registry: Registry, category: str) -> dict[str, str]:
    return {kind: _first_paragraph(entry) for kind, entry in registry.kinds(category).items()}


def _first_paragraph(entry: type) -> str:
    return " ".join((entry.__doc__ or "").strip().split("\n\n")[0].split())
