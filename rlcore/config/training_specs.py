"""How an agent is trained and judged, and where: the sections that every experiment has, whatever its task is."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SerializeAsAny, model_validator

from rlcore.agents.specs import Spec
from rlcore.config.field_classes import field_class
from rlcore.config.logger_specs import LoggerSpec
from rlcore.foundation.errors import ConfigError
from rlcore.training.checkpoint_file_name import CheckpointFileName

Count = Annotated[int, Field(ge=1, strict=True)]
Seconds = Annotated[float, Field(gt=0)]


class EarlyStoppingSpec(Spec):
    """Ends a training when a metric has stopped improving. The policy of a training is the best checkpoint's in any case."""

    patience: Count
    """Judgements in a row without improvement after which training stops."""
    monitor: str | None = None
    """Name of a metric; null: the mean return of the validation (of its first set, where there are several)."""
    mode: Literal["max", "min"] = "max"
    """Whether more or less of it is better."""
    min_delta: Annotated[float, Field(ge=0)] = 0.0
    """What an improvement must exceed."""
    baseline: float | None = None
    """Improvements that do not beat it do not count; null: all count."""


def _is_file_name(template: str) -> str:
    try:
        CheckpointFileName(template)
    except ConfigError as error:
        raise ValueError(str(error).removeprefix("file_name of checkpoints ")) from error
    return template


class CheckpointsSpec(Spec):
    """What is kept of a training while it runs, and which of its states is the result."""

    every_iterations: Count | None = Field(default=1, json_schema_extra=field_class("runtime"))
    """Iterations between two checkpoints; at most so much is lost when a run is killed. null: see ``every_seconds``."""
    every_seconds: Seconds | None = Field(default=None, json_schema_extra=field_class("runtime"))
    """Seconds after which the next iteration ends with a checkpoint; null: whatever the time."""
    keep_last: Count | None = Field(default=3, json_schema_extra=field_class("runtime"))
    """So many of the newest are kept, and the best besides; null: all."""
    file_name: Annotated[str, AfterValidator(_is_file_name)] = Field(
        default="iteration_{iteration:06d}", json_schema_extra=field_class("runtime")
    )
    """What the files are called; may go on with "-", {time} and metrics: iteration_{iteration:06d}-{train/return/mean:.2f}."""
    monitor: str | None = Field(default=None, json_schema_extra=field_class("budget"))
    """The metric whose best checkpoint is the result; null: the mean return of the validation (of its first set)."""
    mode: Literal["max", "min"] = Field(default="max", json_schema_extra=field_class("budget"))
    """Whether more or less of it is better."""


class TrainingSpec(Spec):
    """How the agent is trained. One iteration = collect + update."""

    iterations: Count = Field(json_schema_extra=field_class("budget"))
    """Iterations of a whole training."""
    episodes_per_iteration: Count | None = None
    """Whole episodes before each update. Either this or ``steps_per_iteration``."""
    steps_per_iteration: Count | None = None
    """Steps before each update, in all lanes together: a multiple of lanes x groups. Episodes go on over iterations."""
    lanes: Count
    """Episodes in progress at once; also the fixed number of rows that the network is always asked for."""
    groups: Count = 1
    """With steps: independent groups of so many lanes each, which worker processes share out among themselves."""
    validate_every: Count = Field(1, json_schema_extra=field_class("budget"))
    """Iterations between two validations. The checkpoint that is kept is the best of those that were validated."""
    wall_clock_budget_seconds: Seconds | None = Field(None, json_schema_extra=field_class("budget"))
    """Time for one training from its start (or from where it goes on); the iteration in progress then is the last. null: any."""
    early_stopping: EarlyStoppingSpec | None = Field(None, json_schema_extra=field_class("budget"))
    """When training stops before its iterations are done; null: never."""
    checkpoints: CheckpointsSpec = Field(CheckpointsSpec(), json_schema_extra=field_class("runtime"))
    """What is kept of a training while it runs."""
    loggers: tuple[SerializeAsAny[LoggerSpec], ...] = Field((), json_schema_extra=field_class("runtime"))
    """Where its numbers go, besides MLflow and the training's own train.csv and validation.csv."""
    fast_dev_run: Count | None = None
    """A quick trial: so many seeds of each set, and so many episodes (or steps of every lane) an iteration; null: all."""

    @model_validator(mode="after")
    def _is_one_of_both(self) -> TrainingSpec:
        episodes, steps, at_once = self.episodes_per_iteration, self.steps_per_iteration, self.lanes * self.groups
        if (episodes is None) == (steps is None):
            had = "neither" if steps is None else "both"
            raise ValueError(f"must have one of episodes_per_iteration and steps_per_iteration, had {had}")
        if steps is None and self.groups != 1:
            raise ValueError(
                f"must have groups 1 where whole episodes are collected, was {self.groups}: give steps_per_iteration"
            )
        if steps is not None and steps % at_once:
            raise ValueError(f"must have steps_per_iteration a multiple of lanes x groups = {at_once}, was {steps}")
        return self

    @model_validator(mode="after")
    def _is_validated(self) -> TrainingSpec:
        if self.validate_every > self.iterations:
            raise ValueError(
                f"must be validated at least once, validate_every is {self.validate_every} and iterations {self.iterations}"
            )
        return self


class EvaluationSpec(Spec):
    """How the agent is judged: every seed once, in order, with the deterministic policy."""

    lanes: Count = 1024
    """Episodes in progress at once."""


class RuntimeSpec(Spec):
    """How and where it runs; changes no result on the same device and number of threads."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where networks live; auto: cuda where there is one."""
    threads: Count = 1
    """Threads of arithmetic, set once by the command."""
    concurrency: Count = 1
    """Worker processes that run episodes."""
    worker_backend: Literal["inline", "subproc", "dummy", "shmem"] = "inline"
    """inline (QlibRL: dummy): in the training process; subproc (QlibRL: shmem): in ``concurrency`` worker processes."""
    on_worker_death: Literal["fail", "restart"] = "fail"
    """What becomes of a run whose worker process dies: it fails, or a new worker takes over what the dead one was at."""
    chunk_deadline_seconds: Seconds = 600.0
    """A worker process that needs longer for one piece of work is ended and counts as dead."""
    space_checks: Literal["all_episodes", "first_episodes"] = "all_episodes"
    """Which actions and observations are held to their spaces: all, or those of each seed's first episode."""
