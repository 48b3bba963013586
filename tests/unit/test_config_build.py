"""From an experiment to its parts, and what it will cost."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pytest

from flows.cli.experiments import shipped_experiments
from rlcore.config.build import build_market, build_orders, build_parts, build_splits, build_trainer, build_vessel
from rlcore.config.estimate import estimate
from rlcore.config.experiment import ExperimentSpec
from rlcore.config.loading import load_experiment
from rlcore.foundation.errors import ConfigError, DataError

SMALL = [
    "market.num_instruments=3",
    "market.num_days=12",
    "orders.num_orders=120",
    "split.validation_days=2",
    "split.test_days=3",
    "training.iterations=2",
    "training.episodes_per_iteration=32",
    "training.lanes=16",
    "training.validate_every=1",
]


def small(*overrides: str) -> ExperimentSpec:
    return load_experiment(shipped_experiments()["demo"], [*SMALL, *overrides])


def test_an_experiment_becomes_a_training(tmp_path: Path) -> None:
    experiment = small("training.early_stopping={patience: 5}")
    store = build_market(experiment, tmp_path / "store")
    assert (store.num_rows, len(store.dates)) == (36, 12)
    orders = build_orders(experiment, store)
    (split,) = build_splits(experiment, orders)
    days = [len(np.unique(store.row_date[part.row])) for part in (split.train, split.validation, split.test)]
    assert days == [12 - 2 - 3 - 2 * 1, 2, 3]  # two embargoes of a day each
    vessel = build_vessel(experiment, build_parts(experiment, store), split, seed=0)
    result = build_trainer(experiment, vessel, tmp_path / "training").fit(vessel)
    assert (result.status, result.num_episodes) == ("completed", 64)
    assert (tmp_path / "training" / "checkpoints" / "best.ckpt").exists()


def test_walk_forward_gives_one_split_for_each_fold(tmp_path: Path) -> None:
    experiment = small("split={kind: walk_forward, num_folds: 3, validation_days: 1, test_days: 2, embargo_days: 0}")
    store = build_market(experiment, tmp_path / "store")
    splits = build_splits(experiment, build_orders(experiment, store))
    tested = [day for split in splits for day in np.unique(store.row_date[split.test.row])]
    assert tested == list(range(6, 12))


def test_nothing_after_the_as_of_date_is_in_the_store(tmp_path: Path) -> None:
    store = build_market(small(), tmp_path / "store", date(2024, 1, 7))  # a Sunday; the market starts on Monday the first
    assert store.dates.tolist() == [date(2024, 1, day) for day in range(1, 6)]
    with pytest.raises(ConfigError, match="as-of date must not lie before"):
        build_market(small(), tmp_path / "early", date(2023, 12, 31))


def test_a_feature_that_the_store_lacks_is_named_with_the_nearest(tmp_path: Path) -> None:
    experiment = small("observation.features=[signl]")
    store = build_market(experiment, tmp_path / "store")
    with pytest.raises(ConfigError, match=r"observation.features must name fields .* was 'signl' \(did you mean 'signal'\?\)"):
        build_parts(experiment, store)


def test_the_estimate_counts_the_trainings_and_runs_the_parts() -> None:
    cost = estimate(small("seeds=[0, 1, 2]", "split={kind: walk_forward, num_folds: 2, validation_days: 1, test_days: 2}"))
    assert cost is not None
    assert cost.num_trainings == 6
    assert cost.total_seconds == pytest.approx(6 * cost.training_seconds)
    assert 32 <= cost.steps_per_iteration <= 32 * 8  # 240 bars in steps of 30
    assert cost.peak_memory_mib > cost.rollout_mib > 0


def test_the_estimate_finds_an_agent_that_cannot_have_these_actions() -> None:
    dqn = (
        "agent={kind: dqn, network: {kind: mlp}, learning_rate: 1e-3, discount: 1, batch_size: 8,"
        " target_update_every: 10, exploration: {initial: 1, final: 0.1, num_transitions: 100},"
        " memory_size: 100, learn_after: 10, gradient_steps_per_transition: 0.1}"
    )
    with pytest.raises(ConfigError, match="action space of a DQN must be Discrete"):
        estimate(small("action={kind: twap_relative}", dqn))


def test_the_estimate_says_that_bars_are_missing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="source must be an existing file"):
        estimate(small(f"market={{kind: bars, source: {tmp_path / 'absent.csv'}, calendar: XNYS}}", "observation.features=[]"))


def test_bars_are_tried_on_their_own_calendar_and_columns(tmp_path: Path) -> None:
    (tmp_path / "bars.csv").touch()
    market = f"{{kind: bars, source: {tmp_path / 'bars.csv'}, calendar: XNSE, extra_fields: [alpha]}}"
    own = ("execution.ticks_per_step=30", "observation.features=[alpha, bid]", "action.fractions=[0, 0.001]")
    cost = estimate(small(f"market={market}", *own))
    assert cost is not None
    # 375 bars in steps of 30, and fractions so small that every order lasts to the close.
    assert cost.steps_per_iteration == 32 * 13
