"""The chosen policy of one training on one of its seed sets: every seed once, in order."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Literal

import pandas as pd

from flows.figures import shown_figures
from flows.fold_contents import open_fold, validation_sets
from flows.references import Fold, TrainingReference
from flows.tasks.fit_agent import load_best_state
from flows.workspace import Workspace
from rlcore.config.build import build_agent, build_backend
from rlcore.environment.evaluation import evaluate
from rlcore.foundation.atomic_files import write_atomically
from rlcore.foundation.random_streams import RandomStreams


def evaluate_policy(
    workspace: Workspace, fold: Fold, training: TrainingReference, which: Literal["validation", "test"], path: Path
) -> dict[str, float]:
    """Write the episode table to ``path`` as parquet and return its figures.

    Of several validation sets, the table names each row's in a column ``seed_set``, and figures are ``<seed set>/<figure>``.
    """
    experiment = workspace.load_experiment()
    parts, seeds = open_fold(experiment, fold)
    agent = build_agent(experiment, parts, training.seed)
    load_best_state(agent, training.path)
    streams = RandomStreams(training.seed)
    frames: list[pd.DataFrame] = []
    figures: dict[str, float] = {}
    with build_backend(experiment) as backend:
        for name, one in (validation_sets(seeds) if which == "validation" else {"": seeds.test}).items():
            phase = f"{which}/{name}" if name else which
            lanes = experiment.evaluation.lanes
            table = evaluate(parts, agent.evaluation_policy(), one, streams, phase, lanes, backend=backend)
            prefix = f"{name}/" if name else ""
            figures |= {f"{prefix}{figure}": value for figure, value in table.summary().items()}
            frames.append(table.to_frame().assign(seed_set=name) if name else table.to_frame())
    content = io.BytesIO()
    pd.concat(frames).to_parquet(content, index=False)
    write_atomically(path, content.getvalue())
    return shown_figures(experiment)(figures)
