"""What a file says about time, and about workers that miss theirs, is done by the training that it describes."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from rlcore.config.build import build_task, build_trainer, build_vessel
from rlcore.config.loading import load_experiment
from rlcore.foundation.errors import EvaluationError

QUICK = ["training.iterations=3", "training.episodes_per_iteration=8", "training.lanes=4", "training.validate_every=1"]


def fit(file: Path, *overrides: str) -> Path:
    experiment = load_experiment(file, [*QUICK, *overrides])
    task = build_task(experiment)  # type: ignore[arg-type]  # a task experiment
    vessel = build_vessel(experiment, task.parts, task.seeds, seed=0)
    build_trainer(experiment, vessel, file.parent / "training").fit(vessel)
    return file.parent / "training"


@pytest.mark.parametrize(("seconds", "kept"), [("1e-9", [1, 2, 3]), ("1e6", [1, 3])])
def test_checkpoints_by_time(file: Path, seconds: str, kept: list[int]) -> None:
    """The first at once, then whenever so much time has passed; the last in any case."""
    best_is_the_first = "monitor: train/total_steps, mode: min"
    folder = fit(file, f"training.checkpoints={{every_iterations: null, every_seconds: {seconds}, {best_is_the_first}}}")
    names = sorted(path.name for path in (folder / "checkpoints").glob("iteration_*"))
    assert names == [f"iteration_{number:06d}.ckpt" for number in kept]


def test_a_worker_that_misses_its_deadline_ends_the_training_or_is_replaced(file: Path) -> None:
    worker = ["runtime.worker_backend=subproc", "runtime.concurrency=1", "runtime.chunk_deadline_seconds=0.0001"]
    with pytest.raises(EvaluationError, match=r"a worker must finish a chunk within 0\.0001 s"):
        fit(file, *worker, "runtime.on_worker_death=fail")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*a new worker takes over")  # so that the first is the last
        with pytest.raises(RuntimeWarning, match="a new worker takes over"):
            fit(file, *worker, "runtime.on_worker_death=restart")
