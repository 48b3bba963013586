"""The experiment of a task of one's own, which need not be about trading."""

from __future__ import annotations

from pydantic import Field

from rlcore.config.experiment import ExperimentSpec
from rlcore.config.field_classes import field_class
from rlcore.config.task_specs import PartsTaskSpec, TaskSpec
from rlcore.config.training_specs import EvaluationSpec


class TaskExperiment(ExperimentSpec):
    """An experiment on a task of one's own: what stands under ``task`` comes from plugins."""

    task: TaskSpec = Field(json_schema_extra=field_class("training"))
    """What is to be learned."""
    # A simulator of one's own may be an object for each episode: fewer of them than of orders, which are rows of arrays.
    evaluation: EvaluationSpec = Field(EvaluationSpec(lanes=64), json_schema_extra=field_class("evaluation"))
    """How the agent is judged."""

    @property
    def validation_phases(self) -> tuple[str, ...] | None:
        if not isinstance(self.task, PartsTaskSpec):
            return None
        sets = self.task.seeds.validation
        return tuple(f"validation/{name}" for name in sets) if isinstance(sets, dict) else ("validation",)
