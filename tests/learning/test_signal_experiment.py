"""The shipped experiment with a known answer, whole, through the command: the agent finds what can be known, and no more.

V* is exact (backward induction over the same actions, cap and observation), independent of the training; intervals are the
report's, clustered by day and instrument.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rlcore.config import build_market, build_orders, build_parts, build_splits, load_experiment
from rlcore.execution.dynamic_program import value_orders

EXPERIMENT = Path(__file__).resolve().parents[2] / "flows" / "experiments" / "synthetic_signal.yaml"
SEEDS = 5
# Collected orders of one training: the number of steps is declared in the experiment, and cannot exceed this.
LARGEST_BUDGET_EPISODES = 200_000


def run(home: Path, *overrides: str) -> pd.DataFrame:
    """Return the report's comparisons with TWAP, one row for each training seed."""
    command = [sys.executable, "-c", "from flows.cli import main; main()", "run", str(EXPERIMENT), "--json"]
    for override in overrides:
        command += ["--set", override]
    environment = {**os.environ, "FILLWRIGHT_HOME": str(home), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    frame = pd.read_parquet(Path(json.loads(ended.stdout)["report"]).parent / "comparisons.parquet")
    per_seed = frame[frame["training_seed"].notna() & (frame["baseline"] == "twap")]
    assert len(per_seed) == SEEDS
    assert (per_seed["num_orders"] >= 20_000).all() and (per_seed["num_missing"] == 0).all()
    return per_seed


def optimal_gain_bps(folder: Path) -> float:
    experiment = load_experiment(EXPERIMENT)
    training = experiment.training
    assert training.iterations * training.episodes_per_iteration <= LARGEST_BUDGET_EPISODES
    store = build_market(experiment, folder / "store")
    test = build_splits(experiment, build_orders(experiment, store))[0].test
    values = value_orders(build_parts(experiment, store).simulator, test, experiment.action.fractions)
    return float(np.average([value.gain_bps for value in values], weights=[value.num_orders for value in values]))


@pytest.mark.learning
@pytest.mark.timeout(1800)
def test_five_seeds_gain_four_fifths_of_what_can_be_known(tmp_path: Path) -> None:
    best = optimal_gain_bps(tmp_path)
    per_seed = run(tmp_path / "home")
    assert per_seed["mean_gain_bps"].mean() >= 0.8 * best
    assert (per_seed["low_bps"] >= 0.6 * best).all()


@pytest.mark.learning
@pytest.mark.timeout(1800)
def test_without_drift_every_seed_lies_within_one_basis_point_of_nothing(tmp_path: Path) -> None:
    per_seed = run(tmp_path / "home", "market.signal.drift_bps=0")
    # The report's intervals are corrected for all the comparisons that it shows, more than these five.
    assert (per_seed["num_comparisons"] >= SEEDS).all()
    assert (per_seed["low_bps"] > -1.0).all() and (per_seed["high_bps"] < 1.0).all()
    assert (per_seed["low_bps"] <= 0.0).all() and (per_seed["high_bps"] >= 0.0).all()
