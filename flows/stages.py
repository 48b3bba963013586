"""The stages of a run: each obtains references from its task, or from the cache, and says so in tracking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from prefect import Task, get_run_logger

from flows.cache_keys import CacheKeys
from flows.progress import tell
from flows.references import Fold, Reference, TrainingReference, ValidationReference, is_intact
from flows.run_names import training_name
from flows.run_records import OwnedRun
from flows.tasks.fit_agent import fit_agent
from flows.tasks.validate_agent import validate_agent
from flows.tracking.flow_tracking import FlowTracking
from flows.workspace import Workspace
from rlcore.config.experiment import ExperimentSpec

Stage = Literal["training", "validation", "backtest"]


@dataclass(slots=True)
class Stages:
    """What a run has obtained so far, and the stages that every run has."""

    workspace: Workspace
    experiment: ExperimentSpec
    run: OwnedRun
    tracking: FlowTracking
    reused: list[str] = field(default_factory=list)  # names of the task runs whose results were there

    def train(self, folds: Sequence[Fold]) -> list[TrainingReference]:
        """Obtain one training for each seed and fold, one after another: each takes all the threads it may have."""
        trainings = []
        for seed in self.experiment.seeds:
            for fold in folds:
                key = self.keys.training(seed, fold)
                # Before it trains, so that a kill in the middle does not leave its checkpoints to the next collection of garbage.
                self.run.update(uses=(*self.run.record.uses, self.workspace.home.trainings / key))
                self.tracking.start_training(fold, seed)
                name = f"fit-agent {training_name(seed, fold.fold)}"
                training = self.obtain(fit_agent, name, workspace=self.workspace, fold=fold, seed=seed, key=key)
                self.tracking.finish_training(training)
                trainings.append(training)
        self.run.update(trainings=tuple(training.path for training in trainings))
        return trainings

    def validate(self, folds: Sequence[Fold], trainings: Sequence[TrainingReference]) -> list[ValidationReference]:
        """Obtain the validation of every training's policy."""
        validations = []
        for training in trainings:
            fold = folds[training.fold]
            key = self.keys.validation(training, fold)
            name = f"validate-agent {training_name(training.seed, training.fold)}"
            validation = self.obtain(validate_agent, name, workspace=self.workspace, fold=fold, training=training, key=key)
            self.tracking.validated(validation)
            validations.append(validation)
        return validations

    def conclude(self, sentence: str) -> None:
        """Put down what the run has shown, and that it has shown nothing where it was a quick trial."""
        count = self.experiment.training.fast_dev_run
        trial = (
            "" if count is None else f"This was a trial of {count} {'seed' if count == 1 else 'seeds'} of each set, no result."
        )
        self.run.update(message=f"{sentence} {trial}".strip())

    @property
    def keys(self) -> CacheKeys:
        return CacheKeys(self.workspace.home, self.experiment, self.workspace.as_of)

    def obtain(self, task: Task[..., Any], name: str, **arguments: Any) -> Any:
        """Return the reference that a task gives, or gave before; a cached one whose files have gone is made again."""
        tell(name, 0, 1)
        state = task(**arguments, return_state=True)
        reference: Reference = state.result()
        is_reused = state.name == "Cached" or getattr(reference, "flow_run", self.workspace.run) != self.workspace.run
        if not is_intact(reference):
            reference = task.with_options(refresh_cache=True)(**arguments)
            is_reused = False
        if is_reused:
            self.reused.append(name)
        get_run_logger().info("%s: %s (%s)", name, "re-used" if is_reused else "done", reference.path)
        tell(name, 1, 1, "re-used" if is_reused else "")
        return reference
