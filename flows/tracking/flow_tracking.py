"""The MLflow runs of one flow run: a parent, and one child for each training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from flows.figures import shown_figures
from flows.references import Fold, TrainingReference, ValidationReference
from flows.run_names import child_key, training_name
from flows.tracking.params import params_of
from flows.tracking.run_recorder import RunRecorder, Tracking
from flows.tracking.training_reporter import record_history
from flows.workspace import Workspace
from rlcore.config.experiment import ExperimentSpec
from rlcore.config.field_classes import FieldClass
from rlcore.config.plugins import plugin_fingerprint
from rlcore.training.resume import code_fingerprint

_DIGESTS: tuple[FieldClass, ...] = ("data", "training", "budget", "evaluation")


class FlowTracking:
    """Says in MLflow what a flow run did. Every method may be called again by a run that goes on after a kill."""

    def __init__(self, workspace: Workspace, experiment: ExperimentSpec) -> None:
        self._workspace = workspace
        self._experiment = experiment
        self._tracking = Tracking(workspace.home_root, experiment.name, workspace.run)
        self._parent = self._tracking.recorder(workspace.run)
        self._children: dict[str, RunRecorder] = {}

    @property
    def run_id(self) -> str | None:
        """MLflow's id of the parent, or None while the server is away."""
        return self._parent.run_id

    @property
    def page(self) -> str | None:
        """Where the parent run lies on MLflow's pages, below the server's address."""
        return self._tracking.page(self._workspace.run)

    def start(self, num_starts: int, prefect_flow_run: str | None) -> None:
        """Begin the parent run."""
        tags = {
            **self._tags("parent"),
            **{f"config_digest_{name}": self._experiment.digest(name) for name in _DIGESTS},
            "num_starts": str(num_starts),
            "prefect_flow_run_id": prefect_flow_run or "none",
        }
        self._parent.start(self._workspace.run, tags)
        self._parent.params(params_of(self._experiment))
        self._parent.artifact(self._workspace.experiment_path.with_suffix(".yaml"), "config")
        self._parent.flush()

    def start_training(self, fold: Fold, seed: int) -> None:
        """Begin the child run of one training, before it trains."""
        tags = {
            **self._tags("child"),
            "seed": str(seed),
            "fold": str(fold.fold),
            **fold.fingerprints,
        }
        self._parent.tags({name: value for name, value in fold.fingerprints.items() if name == "market_fingerprint"})
        self._parent.flush()
        child = self._child(seed, fold.fold)
        child.start(training_name(seed, fold.fold), tags, parent_key=self._workspace.run)
        child.params({"seed": str(seed), **params_of(self._experiment)})
        child.artifact(self._workspace.experiment_path.with_suffix(".yaml"), "config")
        child.flush()  # the training has a recorder of its own

    def finish_training(self, training: TrainingReference) -> None:
        """Log what a training left: by itself, by this run before a kill, or by another run that is re-used."""
        # The task had a recorder of its own.
        key = child_key(self._workspace.run, training.seed, training.fold)
        child = self._children[key] = self._tracking.recorder(key)
        tags = {"policy_fingerprint": training.fingerprint, "resume_exact": str(training.is_resume_exact).lower()}
        if training.flow_run != self._workspace.run:
            tags["reused_from"] = child_key(training.flow_run, training.seed, training.fold)
        child.tags(tags)
        record_history(child, training.path, shown_figures(self._experiment))
        child.artifact(training.policy, "model")
        for path in {one.resolve() for one in (training.best_checkpoint, training.latest_checkpoint) if one.exists()}:
            child.artifact(path, "checkpoints")
        for name in ("train.csv", "validation.csv"):
            child.artifact(training.path / name, "history")
        child.flush()

    def validated(self, validation: ValidationReference) -> None:
        """Log the validation of a chosen policy."""
        child = self._child(validation.seed, validation.fold)
        child.metrics(0, {f"best_validation/{name}": value for name, value in validation.figures.items()})
        child.artifact(validation.path, "tables")
        child.flush()

    def judged(self, seed: int, fold: int, figures: Mapping[str, float]) -> None:
        """Log what the test seeds say of one training's policy."""
        self._child(seed, fold).metrics(0, figures)

    def finish(self, figures: Mapping[str, float], tags: Mapping[str, str], artifacts: Sequence[tuple[Path, str]]) -> None:
        """Log the results over all trainings, and close all runs."""
        self._parent.metrics(0, figures)
        self._parent.tags(tags)
        for path, folder in artifacts:
            self._parent.artifact(path, folder)
        self._close("FINISHED")

    def abandon(self, status: Literal["FAILED", "KILLED"]) -> None:
        """Close every run that is open: the flow run failed or was killed."""
        self._close(status)

    def _close(self, status: Literal["FINISHED", "FAILED", "KILLED"]) -> None:
        for child in self._children.values():
            child.end(status)
        self._parent.end(status)

    def _child(self, seed: int, fold: int) -> RunRecorder:
        key = child_key(self._workspace.run, seed, fold)
        return self._children.setdefault(key, self._tracking.recorder(key))

    def _tags(self, role: str) -> dict[str, str]:
        return {
            "role": role,
            "flow_run": self._workspace.run,
            "as_of": str(self._workspace.as_of).lower(),
            "code_version": version("fillwright"),
            "code_fingerprint": code_fingerprint(),
            "plugins_fingerprint": plugin_fingerprint(self._experiment.plugins),
            "trial": str(self._experiment.training.fast_dev_run or "none"),
        }
