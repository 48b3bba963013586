"""From an experiment file to a frozen experiment: read, set, register plugins, validate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError, create_model
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from rlcore.agents.specs import Spec
from rlcore.config.builtin_parts import register_builtin_parts
from rlcore.config.experiment import ExperimentSpec
from rlcore.config.forms import ExperimentForms, form_of
from rlcore.config.monitors import check_monitor, monitors_of
from rlcore.config.overrides import CommandLineText, apply_overrides
from rlcore.config.plugins import load_plugins
from rlcore.config.specs import FOLDER, MarketSpec
from rlcore.config.validation_messages import Source, explain
from rlcore.config.yaml_files import read_yaml
from rlcore.foundation.errors import ConfigError
from rlcore.foundation.registry import Registry


def load_experiment(path: Path, overrides: Sequence[str] = ()) -> ExperimentSpec:
    """Read an experiment file.

    Args:
        path: the YAML file. Relative paths in it start at its folder.
        overrides: ``KEY=VALUE`` texts, applied in order. Relative paths in them start at the working directory.

    Raises:
        ConfigError: with file and line (or the override), key path, value and remedy, for everything that is wrong.
    """
    data, lines = read_yaml(path)
    changed, given = apply_overrides(data, overrides)
    return _validate(changed, path.absolute().parent, Source(path, lines, given))


def parse_experiment(data: Mapping[str, Any], folder: Path | None = None) -> ExperimentSpec:
    """Return the experiment that plain data describes (``ExperimentSpec.to_plain``, or written in Python)."""
    return _validate(dict(data), folder or Path.cwd(), Source())


def parse_market(data: Mapping[str, Any], overrides: Sequence[str] = ()) -> MarketSpec:
    """Return the market section that plain data describes; overrides are ``market.KEY=VALUE``."""
    changed, given = apply_overrides({"market": dict(data)}, overrides)
    market = ExperimentForms(make_registry()).execution.model_fields["market"]
    annotation: Any = market.annotation  # made at load time
    model = create_model("Market", __base__=Spec, market=(annotation, market))
    try:
        parsed: MarketSpec = model.model_validate(changed).market  # type: ignore[attr-defined]  # made here
    except ValidationError as error:
        raise ConfigError(explain(error, model, changed, Source(given=given))) from error
    return parsed


def make_registry(plugins: Sequence[str] = ()) -> Registry:
    """Return a new registry with the built-in parts and those of the plugins."""
    registry = Registry()
    register_builtin_parts(registry)
    load_plugins(plugins, registry)
    return registry


def experiment_schema(plugins: Sequence[str] = ()) -> dict[str, Any]:
    """Return the JSON schema of experiment files of both forms, for editors. The key ``task`` tells which of them a file has."""
    forms = ExperimentForms(make_registry(plugins))
    both: tuple[tuple[type[BaseModel], JsonSchemaMode], ...] = ((forms.execution, "validation"), (forms.task, "validation"))
    references, definitions = models_json_schema(both, title="Fillwright experiment")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **definitions,
        "type": "object",
        # Not anyOf: an editor could then only say that neither form fits.
        "if": {"required": ["task"]},
        "then": references[both[1]],
        "else": references[both[0]],
    }


def _validate(data: dict[str, Any], folder: Path, source: Source) -> ExperimentSpec:
    data = {**data, "plugins": _locate_plugins(data.get("plugins"), folder, source)}
    form = form_of(data, source)
    model = ExperimentForms(make_registry(data["plugins"])).model(form)
    try:
        experiment = model.model_validate(data, context={FOLDER: folder})
    except ValidationError as error:
        raise ConfigError(explain(error, model, data, source)) from error
    for path, monitor in monitors_of(experiment):
        try:
            check_monitor(path, monitor, experiment.validation_phases)
        except ConfigError as error:
            raise ConfigError(f"{source.place(path)}{error}") from error
    return experiment


def _locate_plugins(given: Any, folder: Path, source: Source) -> list[str]:
    """Return the plugins with absolute paths in place of files."""
    place = source.place(("plugins",))
    if given is None:
        return []
    if not isinstance(given, (list, tuple)) or not all(isinstance(plugin, str) for plugin in given):
        raise ConfigError(f"{place}plugins must be a list of modules or .py files, was {given!r}")
    located = []
    for plugin in given:
        start = Path.cwd() if isinstance(plugin, CommandLineText) else folder
        located.append(str((start / Path(plugin).expanduser()).resolve()) if plugin.endswith(".py") else str(plugin))
    return located
