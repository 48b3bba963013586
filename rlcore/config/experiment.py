"""One experiment: everything that a run is made of, except who runs it and where it is tracked."""

from __future__ import annotations

import functools
import operator
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Discriminator, Field, create_model, model_validator

from rlcore.agents.specs import AgentSpec, Spec
from rlcore.config.field_classes import FieldClass, digest, field_class, plain_fields
from rlcore.config.order_specs import OrdersSpec, SplitSpec
from rlcore.config.specs import BASES, ActionSpec, MarketSpec, ObservationSpec, RewardSpec, SimulatorSpec
from rlcore.foundation.errors import ConfigError
from rlcore.foundation.registry import Registry

_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$"
_TERM = r"^[a-z][a-z0-9_]{0,39}$"

Count = Annotated[int, Field(ge=1, strict=True)]


class TrainingSpec(Spec):
    """How the agent is trained. One iteration = collect + update."""

    iterations: Count = Field(json_schema_extra=field_class("budget"))
    """Iterations of a whole training."""
    episodes_per_iteration: Count
    """Orders executed before each update."""
    lanes: Count
    """Orders in execution at once; also the fixed number of rows that the network is always asked for."""
    validate_every: Count = Field(1, json_schema_extra=field_class("budget"))
    """Iterations between two validations. The checkpoint that is kept is the best of those that were validated."""
    early_stopping_patience: Count | None = Field(None, json_schema_extra=field_class("budget"))
    """Validations without improvement after which training stops; null: never."""
    checkpoint_every: Count = Field(1, json_schema_extra=field_class("runtime"))
    """Iterations between two checkpoints; at most so much is lost when a run is killed."""

    @model_validator(mode="after")
    def _is_validated(self) -> TrainingSpec:
        if self.validate_every > self.iterations:
            raise ValueError(
                f"must be validated at least once, validate_every is {self.validate_every} and iterations {self.iterations}"
            )
        return self


class EvaluationSpec(Spec):
    """How the agent is judged."""

    lanes: Count = 1024
    """Orders in execution at once."""
    baselines: tuple[Literal["twap", "vwap", "immediate", "random", "clairvoyant"], ...] = (
        "twap",
        "vwap",
        "immediate",
        "random",
        "clairvoyant",
    )
    """Strategies that execute the same orders."""
    reference: Literal["twap", "vwap", "immediate"] = "twap"
    """The baseline that the agent is compared with, order by order."""
    confidence_level: Annotated[float, Field(gt=0.5, lt=1)] = 0.95
    """With which all confidence intervals hold at once (Bonferroni's correction)."""

    @model_validator(mode="after")
    def _reference_is_run(self) -> EvaluationSpec:
        if self.reference not in self.baselines:
            raise ValueError(f"must have its reference among its baselines, {self.reference} is not in {list(self.baselines)}")
        return self


class RuntimeSpec(Spec):
    """How and where it runs; changes no result on the same device and number of threads."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where networks live; auto: cuda where there is one."""
    threads: Count = 1
    """Threads of arithmetic, set once by the command."""
    concurrency: Count = 1
    """Worker processes that run episodes."""
    worker_backend: Literal["inline", "subproc"] = "inline"
    """inline: episodes run in the training process; subproc: in ``concurrency`` worker processes."""


def _is_unique(seeds: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(seeds)) != len(seeds):
        raise ValueError(f"must name each seed once, was {list(seeds)}")
    return seeds


class ExperimentSpec(Spec):
    """One experiment file. The fields of a kind depend on what is registered: see ``experiment_model``."""

    name: str = Field(pattern=_NAME, json_schema_extra=field_class("runtime"))
    """What the experiment is called in files and in tracking."""
    market: MarketSpec = Field(json_schema_extra=field_class("data"))
    """Bars of instruments and days."""
    orders: OrdersSpec = Field(json_schema_extra=field_class("data"))
    """What must be executed."""
    split: SplitSpec = Field(json_schema_extra=field_class("data"))
    """Which days train, validate and test."""
    execution: SimulatorSpec = Field(json_schema_extra=field_class("training"))
    """How orders are filled."""
    observation: ObservationSpec = Field(json_schema_extra=field_class("training"))
    """What the agent sees."""
    action: ActionSpec = Field(json_schema_extra=field_class("training"))
    """What the agent's actions mean."""
    reward: dict[Annotated[str, Field(pattern=_TERM)], RewardSpec] = Field(
        min_length=1, json_schema_extra=field_class("training")
    )
    """Named, weighted terms; the names become the names of metrics."""
    agent: AgentSpec = Field(json_schema_extra=field_class("training"))
    """Policy and learning rule."""
    training: TrainingSpec = Field(json_schema_extra=field_class("training"))
    """How the agent is trained."""
    evaluation: EvaluationSpec = Field(EvaluationSpec(), json_schema_extra=field_class("evaluation"))
    """Baselines and intervals of validation and backtest."""
    seeds: Annotated[tuple[Annotated[int, Field(ge=0, lt=2**31)], ...], Field(min_length=1), AfterValidator(_is_unique)] = Field(
        json_schema_extra=field_class("runtime")
    )
    """Roots of randomness; one training each, and a training depends on its own seed alone."""
    runtime: RuntimeSpec = Field(RuntimeSpec(), json_schema_extra=field_class("runtime"))
    """How and where it runs."""
    plugins: tuple[str, ...] = Field((), json_schema_extra=field_class("runtime"))
    """Installed modules, or files beside this one, that expose ``register(registry)``. Their source is in every cache key."""

    def fields(self, *classes: FieldClass) -> dict[str, Any]:
        """Return dotted key → plain value of the fields of these classes (none named: all)."""
        return plain_fields(self, *classes)

    def digest(self, *classes: FieldClass) -> str:
        """Return the fingerprint of the fields of these classes; input files stand in it by their content."""
        return digest(self, *classes)

    def checkpoint_config(self) -> dict[str, Any]:
        """Return what a checkpoint carries of the experiment; a resume refuses a difference in it and names the keys."""
        return {"data": self.fields("data"), "training": self.fields("training")}

    def to_plain(self) -> dict[str, Any]:
        """Return JSON data from which ``parse_experiment`` makes the same experiment, in any process."""
        return self.model_dump(mode="json")

    def __reduce__(self) -> tuple[Any, ...]:
        # The class is made at load time and cannot be found by name in another process.
        from rlcore.config.loading import parse_experiment

        return parse_experiment, (self.to_plain(),)


def experiment_model(registry: Registry) -> type[ExperimentSpec]:
    """Return the experiment with, in each section, the union of the kinds that are registered."""
    for category, kind in registry:
        _check_entry(category, kind, registry[category, kind])
    networks = _union(registry, "network")
    agents = [_with_networks(entry, networks) for entry in registry.kinds("agent").values()]
    annotations = {
        "market": _union(registry, "market"),
        "execution": _union(registry, "simulator"),
        "observation": _union(registry, "observation"),
        "action": _union(registry, "action"),
        "reward": dict[Annotated[str, Field(pattern=_TERM)], _union(registry, "reward")],  # type: ignore[misc]  # made at load time
        "agent": _union_of(agents),
    }
    fields: dict[str, Any] = {name: (kinds, ExperimentSpec.model_fields[name]) for name, kinds in annotations.items()}
    return create_model("Experiment", __base__=ExperimentSpec, __doc__=ExperimentSpec.__doc__, **fields)


def _union(registry: Registry, category: str) -> Any:
    return _union_of(list(registry.kinds(category).values()))


def _union_of(entries: list[Any]) -> Any:
    together = functools.reduce(operator.or_, entries)
    return Annotated[together, Discriminator("kind")] if len(entries) > 1 else together


def _with_networks(agent: Any, networks: Any) -> Any:
    """Return the agent's spec with every registered network allowed where it takes one."""
    if "network" not in agent.model_fields:
        return agent
    return create_model(agent.__name__, __base__=agent, __doc__=agent.__doc__, network=(networks, agent.model_fields["network"]))


def _check_entry(category: str, kind: str, entry: Any) -> None:
    base = BASES[category]
    if not (isinstance(entry, type) and issubclass(entry, base)):
        raise ConfigError(
            f"what is registered as {category} {kind!r} must be a class derived from {base.__name__}, was {entry!r}"
        )
    field = entry.model_fields.get("kind")
    if field is None or get_args(field.annotation) != (kind,):
        raise ConfigError(f'{entry.__name__} must have the field kind: Literal["{kind}"], since it is registered as {kind!r}')
