"""The two forms of an experiment file, with what is registered: told apart by their keys, never mixed."""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Discriminator, Field, Tag, create_model

from rlcore.agents.specs import AgentSpec, NetworkSpec, Spec
from rlcore.config.execution_experiment import ExecutionExperiment
from rlcore.config.experiment import ExperimentSpec, Term
from rlcore.config.logger_specs import LoggerSpec
from rlcore.config.specs import ActionSpec, MarketSpec, ObservationSpec, RewardSpec, SimulatorSpec
from rlcore.config.task_experiment import TaskExperiment
from rlcore.config.task_specs import (
    EpisodeActionSpec,
    EpisodeAuxiliarySpec,
    EpisodeObservationSpec,
    EpisodeRewardSpec,
    EpisodeSimulatorSpec,
    PartsTaskSpec,
    SeedSections,
    SeedsSpec,
    TaskSpec,
)
from rlcore.config.training_specs import TrainingSpec
from rlcore.config.validation_messages import TAG_MARK, Source
from rlcore.foundation.errors import ConfigError
from rlcore.foundation.registry import Registry

Form = Literal["execution", "task"]

# What a registered entry of each category must derive from. Where there are two, the first serves order execution (its parts are
# built on a market), the second tasks of one's own (built for one episode).
BASES: Mapping[str, tuple[type[Spec], ...]] = {
    "market": (MarketSpec,),
    "simulator": (SimulatorSpec, EpisodeSimulatorSpec),
    "observation": (ObservationSpec, EpisodeObservationSpec),
    "action": (ActionSpec, EpisodeActionSpec),
    "reward": (RewardSpec, EpisodeRewardSpec),
    "auxiliary": (EpisodeAuxiliarySpec,),
    "seeds": (SeedsSpec,),
    "task": (TaskSpec,),
    "network": (NetworkSpec,),
    "agent": (AgentSpec,),
    "logger": (LoggerSpec,),
}
_SHARED = tuple(ExperimentSpec.model_fields)
_OF_EXECUTION = tuple(name for name in ExecutionExperiment.model_fields if name not in (*_SHARED, "evaluation"))


def form_of(data: Mapping[str, Any], source: Source) -> Form:
    """Say which form an experiment has: that of a task of one's own where it has the key ``task``.

    Raises:
        ConfigError: for a file that mixes both.
    """
    if "task" not in data:
        return "execution"
    mixed = [name for name in _OF_EXECUTION if name in data]
    if mixed:
        raise ConfigError(
            f"{source.place((mixed[0],))}{mixed[0]} must not stand beside task, stood there: an experiment is order execution, "
            "or a task of one's own, whose simulator, observation, action, reward and seeds lie under task"
        )
    return "task"


class ExperimentForms:
    """Both forms with, in each section, the union of the kinds that are registered.

    Raises:
        ConfigError: for an entry that does not derive from the base of its category, or names another kind.
    """

    def __init__(self, registry: Registry) -> None:
        for category, kind in registry:
            _check_entry(category, kind, registry[category, kind])
        self._registry = registry

    def model(self, form: Form) -> type[ExperimentSpec]:
        return self.execution if form == "execution" else self.task

    @functools.cached_property
    def execution(self) -> type[ExecutionExperiment]:
        kinds = {
            "market": self._union("market", MarketSpec),
            "execution": self._union("simulator", SimulatorSpec),
            "observation": self._union("observation", ObservationSpec),
            "action": self._union("action", ActionSpec),
            "reward": dict[Term, self._union("reward", RewardSpec)],  # type: ignore[misc]  # made at load time
            **self._shared,
        }
        filled: type[ExecutionExperiment] = _filled(ExecutionExperiment, kinds)
        return filled

    @functools.cached_property
    def task(self) -> type[TaskExperiment]:
        tasks = [self._with_parts(entry) for entry in self._registry.kinds("task").values()]
        filled: type[TaskExperiment] = _filled(TaskExperiment, {"task": _union_of(tasks), **self._shared})
        return filled

    @functools.cached_property
    def _shared(self) -> dict[str, Any]:
        """Every registered network is allowed where an agent takes one."""
        networks = self._union("network", NetworkSpec)
        agents = self._registry.kinds("agent").values()
        loggers: Any = tuple[self._union("logger", LoggerSpec), ...]  # type: ignore[misc]  # made at load time
        return {
            "agent": _union_of([_filled(one, {"network": networks}) if "network" in one.model_fields else one for one in agents]),
            "training": _filled(TrainingSpec, {"loggers": loggers}),
        }

    def _with_parts(self, task: Any) -> Any:
        if not issubclass(task, PartsTaskSpec):
            return task
        seeds = self._union("seeds", SeedsSpec)
        kinds = {
            "simulator": self._union("simulator", EpisodeSimulatorSpec),
            "observation": self._union("observation", EpisodeObservationSpec),
            "action": self._union("action", EpisodeActionSpec),
            "reward": dict[Term, self._union("reward", EpisodeRewardSpec)],  # type: ignore[misc]  # made at load time
            "auxiliary": self._union("auxiliary", EpisodeAuxiliarySpec) | None,
            "seeds": _filled(SeedSections, {"train": seeds, "validation": _one_or_several(seeds), "test": seeds}),
        }
        return _filled(task, kinds)

    def _union(self, category: str, base: type[Spec]) -> Any:
        entries = [entry for entry in self._registry.kinds(category).values() if issubclass(entry, base)]
        return _union_of(entries) if entries else Annotated[base, BeforeValidator(_refuse)]


def _filled(spec: Any, annotations: Mapping[str, Any]) -> Any:
    """Return a class derived from ``spec`` whose fields of these names have these annotations."""
    fields: dict[str, Any] = {name: (kinds, spec.model_fields[name]) for name, kinds in annotations.items()}
    return create_model(spec.__name__, __base__=spec, __doc__=spec.__doc__, **fields)


def _union_of(entries: list[Any]) -> Any:
    together = functools.reduce(operator.or_, entries)
    return Annotated[together, Discriminator("kind")] if len(entries) > 1 else together


def _one_or_several(kinds: Any) -> Any:
    """Return what may stand where one spec, or several by name, may stand: one of them names its kind."""
    one, several = f"{TAG_MARK}one", f"{TAG_MARK}several"
    choices = Annotated[kinds, Tag(one)] | Annotated[dict[Term, kinds], Field(min_length=1), Tag(several)]
    return Annotated[choices, Discriminator(lambda given: several if isinstance(given, Mapping) and "kind" not in given else one)]


def _refuse(value: Any) -> Any:
    raise ValueError("must be of a kind that a plugin registers, and none is registered: name the plugin's file under plugins")


def _check_entry(category: str, kind: str, entry: Any) -> None:
    bases = BASES[category]
    if not (isinstance(entry, type) and issubclass(entry, bases)):
        names = " or ".join(base.__name__ for base in bases)
        raise ConfigError(f"what is registered as {category} {kind!r} must be a class derived from {names}, was {entry!r}")
    field = entry.model_fields.get("kind")
    if field is None or get_args(field.annotation) != (kind,):
        raise ConfigError(f'{entry.__name__} must have the field kind: Literal["{kind}"], since it is registered as {kind!r}')
