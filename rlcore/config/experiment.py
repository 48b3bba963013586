"""One experiment: everything that a run is made of, except who runs it and where it is tracked.

There are two forms: order execution (``ExecutionExperiment``), and a task of one's own (``TaskExperiment``). They share this.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from rlcore.agents.specs import AgentSpec, Spec
from rlcore.config.field_classes import FieldClass, digest, field_class, plain_fields
from rlcore.config.training_specs import EvaluationSpec, RuntimeSpec, TrainingSpec

_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$"

Term = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
"""Name of a term of the reward, which becomes the name of a metric."""


def _is_unique(seeds: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(seeds)) != len(seeds):
        raise ValueError(f"must name each seed once, was {list(seeds)}")
    return seeds


class ExperimentSpec(Spec):
    """What every experiment file says. The fields of a kind depend on what is registered: see ``rlcore.config.forms``."""

    name: str = Field(pattern=_NAME, json_schema_extra=field_class("runtime"))
    """What the experiment is called in files and in tracking."""
    agent: AgentSpec = Field(json_schema_extra=field_class("training"))
    """Policy and learning rule."""
    training: TrainingSpec = Field(json_schema_extra=field_class("training"))
    """How the agent is trained."""
    evaluation: EvaluationSpec = Field(EvaluationSpec(), json_schema_extra=field_class("evaluation"))
    """How the agent is judged."""
    seeds: Annotated[tuple[Annotated[int, Field(ge=0, lt=2**31)], ...], Field(min_length=1), AfterValidator(_is_unique)] = Field(
        json_schema_extra=field_class("runtime")
    )
    """Roots of randomness; one training each, and a training depends on its own seed alone."""
    runtime: RuntimeSpec = Field(RuntimeSpec(), json_schema_extra=field_class("runtime"))
    """How and where it runs."""
    plugins: tuple[str, ...] = Field((), json_schema_extra=field_class("runtime"))
    """Installed modules, or files beside this one, that expose ``register(registry)``. Their source is in every cache key."""

    @property
    def validation_phases(self) -> tuple[str, ...] | None:
        """What the metrics of the validation sets begin with; None: not known before the task is built."""
        return ("validation",)

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
