"""What a run on a task of one's own shows when it is done: a table of its seeds, and figures in record, MLflow and Prefect."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from flows.artifacts import show_table
from flows.publishing import show_tracking_link
from flows.references import TestReference
from flows.results import prefixed
from flows.stages import Stages
from flows.task_phases import phases_of
from flows.task_results import TaskResults
from rlcore.foundation.atomic_files import write_atomically

RESULTS = "results.csv"


def publish_task(stages: Stages, results: TaskResults, tests: Sequence[TestReference]) -> None:
    """Write the table, show the results, and close the tracking runs. There is no report beside the table."""
    run, tracking = stages.run, stages.tracking
    for test in tests:
        tracking.judged(test.seed, test.fold, prefixed("test", test.figures))
    figures = results.figures
    stages.conclude(headline(figures, len(results.of_seed)))
    path = run.folder / RESULTS
    write_atomically(path, _table(results).to_csv(index_label="seed").encode())
    rows = [{"seed": seed, **_returns(own)} for seed, own in results.of_seed.items()]
    show_table("task-results", rows, run.record.message)
    run.update(figures=figures, mlflow_run=tracking.run_id)
    artifacts: list[tuple[Path, str]] = [(path, "results")]
    tracking.finish(figures, {"reused_tasks": ", ".join(stages.reused) or "none"}, artifacts)
    show_tracking_link(stages)


def headline(figures: dict[str, float], num_seeds: int) -> str:
    """Say in one sentence what the last stage that was run has shown."""
    phases = phases_of(figures, "/seeds_mean")
    validations = [phase for phase in phases if phase not in ("train", "test")]
    for phase in ("test", *validations, "train"):  # of several validation sets the first, which chooses unless the file says more
        mean = figures.get(f"{phase}/return/mean/seeds_mean")
        if mean is not None:
            words = "in training" if phase == "train" else f"on the {phases[phase]} seeds"
            low, high = (figures[f"{phase}/return/mean/seeds_{end}"] for end in ("min", "max"))
            spread = "" if num_seeds == 1 else f", {low:.4g} to {high:.4g} over {num_seeds} trainings"
            return f"The mean return of an episode {words} is {mean:.4g}{spread}."
    return ""


def _table(results: TaskResults) -> pd.DataFrame:
    return pd.DataFrame.from_dict(results.of_seed, orient="index")


def _returns(figures: dict[str, float]) -> dict[str, str]:
    return {f"return, {words}": f"{figures[f'{phase}/return/mean']:.4g}" for phase, words in phases_of(figures).items()}
