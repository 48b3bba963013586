"""Task ``fit-agent``: one training, for one seed and one fold. It checkpoints inside and goes on by itself after a kill."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from prefect import task
from pydantic import ValidationError

from flows.artifacts import ProgressBar
from flows.cache_keys import prefect_key
from flows.figures import shown_figures
from flows.fold_contents import open_fold
from flows.locks import claimed
from flows.progress import tell
from flows.references import Fold, TrainingReference
from flows.run_names import child_key, training_name
from flows.tracking.run_recorder import Tracking
from flows.tracking.training_reporter import TrainingReporter
from flows.workspace import Workspace
from rlcore.agents.agent import Agent
from rlcore.config.build import build_trainer, build_vessel
from rlcore.foundation.atomic_files import write_atomically
from rlcore.foundation.errors import CheckpointError, ConfigError, FillwrightError
from rlcore.foundation.fingerprints import fingerprint_file
from rlcore.training.checkpoint import latest_valid_checkpoint, read_checkpoint

_FINISHED = "training.json"


class RunInterruptedError(FillwrightError):
    """The process was asked to stop; what was done so far stands in checkpoints, and the same command goes on from there."""


@task(
    name="fit-agent",
    task_run_name="fit-agent-seed-{seed}-fold-{fold.fold}",
    cache_key_fn=prefect_key,
    persist_result=True,
    result_serializer="json",
)
def fit_agent(workspace: Workspace, fold: Fold, seed: int, key: str) -> TrainingReference:
    """Train, or go on with a training that was cut off, and keep the policy of the best validation."""
    folder = workspace.home.trainings / key
    with claimed(folder):  # two runs that need the same training: the second waits, and finds it done
        finished = _finished(folder)
        return finished if finished is not None else _train(workspace, fold, seed, folder)


def load_best_state(agent: Agent, folder: Path) -> None:
    """Put the agent of a training's best validation into ``agent``."""
    try:
        content = read_checkpoint(folder / "checkpoints" / "best.ckpt")
    except CheckpointError as error:
        raise CheckpointError(f"{error}; or remove {folder}, and the same command trains anew") from error
    agent.load_state_dict(content["vessel"]["agent"])


def _train(workspace: Workspace, fold: Fold, seed: int, folder: Path) -> TrainingReference:
    experiment = workspace.load_experiment()
    checkpoint = latest_valid_checkpoint(folder / "checkpoints")
    if checkpoint is None:
        shutil.rmtree(folder, ignore_errors=True)  # what a kill left before the first checkpoint
    folder.mkdir(parents=True, exist_ok=True)
    vessel = build_vessel(experiment, *open_fold(experiment, fold), seed)
    recorder = Tracking(workspace.home.root, experiment.name, workspace.run).recorder(child_key(workspace.run, seed, fold.fold))
    name = training_name(seed, fold.fold)
    bar = ProgressBar(f"training-{name}", f"Seed {seed}, fold {fold.fold}: percent done")
    total = experiment.training.iterations

    def watch(iteration: int, figures: Mapping[str, float]) -> None:
        bar.update(iteration, total)
        tell(f"fit-agent {name}", iteration, total, _latest(figures))

    reporter = TrainingReporter(recorder, folder, shown_figures(experiment), watch)
    result = build_trainer(experiment, vessel, folder, [reporter]).fit(vessel, checkpoint)
    if result.status == "terminated":
        raise RunInterruptedError(result.reason)
    bar.update(total, total)
    if not (folder / "checkpoints" / "best.ckpt").exists():
        raise ConfigError(
            f"training must be judged at least once before it ends, {result.reason}: raise training.wall_clock_budget_seconds, "
            "lower training.validate_every, or let training.checkpoints.monitor name a metric that there is"
        )
    load_best_state(vessel.agent, folder)
    vessel.agent.save_policy(folder / "policy.pt")
    reference = TrainingReference(
        path=folder,
        fingerprint=fingerprint_file(folder / "policy.pt"),
        seed=seed,
        fold=fold.fold,
        flow_run=workspace.run,
        is_resume_exact=result.is_resume_exact,
    )
    write_atomically(folder / _FINISHED, reference.model_dump_json().encode())
    return reference


def _finished(folder: Path) -> TrainingReference | None:
    try:
        return TrainingReference.model_validate_json((folder / _FINISHED).read_bytes())
    except (OSError, ValidationError):
        return None


def _latest(figures: Mapping[str, float]) -> str:
    value = figures.get("train/return/mean")
    return "" if value is None else f"return {value:.4g}"
