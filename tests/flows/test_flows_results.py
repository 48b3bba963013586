"""Spreads over seeds, folds as one backtest, and cache keys that change with what matters and with nothing else."""

from __future__ import annotations

from datetime import date
from importlib import resources
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flows.cache_keys import CacheKeys
from flows.cli.experiments import load
from flows.cli.init import TASK_EXPERIMENT_TEXT, TASK_PLUGIN
from flows.figures import is_telling, telling
from flows.home import Home
from flows.pooled_backtest import pool_folds
from flows.references import (
    ExecutionFold,
    FoldReference,
    MarketReference,
    SeedSetReference,
    TaskFold,
    TrainingReference,
    is_intact,
)
from flows.seed_spread import agent_figures, baseline_figures, mean_over_folds, spread_over_seeds
from flows.servers import _is_taken, free_port, serving
from rlcore.execution.backtest import BacktestResult
from rlcore.foundation.errors import InputError


def test_the_spread_over_seeds_is_the_textbook_one() -> None:
    spread = spread_over_seeds(
        [{"x/mean": 1.0, "x/std": 9.0, "rare": 0.0}, {"x/mean": 2.0, "x/std": 9.0}, {"x/mean": 6.0, "x/std": 9.0}]
    )
    assert spread == {
        "x/mean/seeds_mean": 3.0,
        "x/mean/seeds_min": 1.0,
        "x/mean/seeds_max": 6.0,
        "x/mean/seeds_std": pytest.approx(7.0**0.5),  # (4 + 1 + 9) / (3 - 1)
    }


def test_one_seed_has_no_standard_deviation() -> None:
    assert set(spread_over_seeds([{"x": 1.0}])) == {"x/seeds_mean", "x/seeds_min", "x/seeds_max"}


def test_a_figure_over_folds_is_the_mean_of_those_that_all_have() -> None:
    assert mean_over_folds([{"x": 1.0, "y": 1.0}, {"x": 2.0}]) == {"x": 1.5}
    assert mean_over_folds([]) == {}


@pytest.mark.parametrize(
    "name", ["train/arrival_price/mean", "backtest/window_vwap/std", "validation/filled_quantity/mean", "seed_id"]
)
def test_means_of_prices_and_shares_are_no_figures(name: str) -> None:
    assert not is_telling(name)
    assert telling({name: 1.0}) == {}


@pytest.mark.parametrize(
    "name", ["train/price_advantage_bps/mean", "train/reward/price_advantage/mean", "train/return/std", "fill_rate"]
)
def test_what_is_comparable_over_orders_is_a_figure(name: str) -> None:
    assert is_telling(name)


def _backtest(num_orders: int, shortfall: float, share: float, day: str) -> BacktestResult:
    rows = [
        {
            "policy": policy,
            "training_seed": seed,
            "seed_id": order,
            "instrument": "A",
            "shortfall_bps": value,
            "arrival_price": 100.0,
        }
        for policy, seed, value in (("agent", 0, shortfall), ("twap", pd.NA, 0.0))
        for order in range(num_orders)
    ]
    schedule = pd.DataFrame(
        {
            "policy": ["agent", "twap"],
            "training_seed": pd.array([0, pd.NA], dtype="Int64"),
            "window_fraction": [1.0, 1.0],
            "filled_share": [share, 1.0],
            "cumulative_share": [share, 1.0],
        }
    )
    names = ("num_buys", "num_days", "num_incomplete_instrument_days", "num_instrument_days", "num_orders_ending_in_silence")
    counts = dict.fromkeys(names, 1)
    facts = {
        **counts,
        "num_orders": num_orders,
        "first_day": day,
        "last_day": day,
        "orders_fingerprint": day,
        "mean_coverage": share,
    }
    frame = pd.DataFrame(rows).astype({"training_seed": "Int64"})
    return BacktestResult(frame, schedule, facts)


def test_folds_together_count_every_order_once() -> None:
    pooled = pool_folds([_backtest(1, 4.0, 0.2, "2024-01-02"), _backtest(3, 8.0, 0.6, "2024-02-02")])
    agent = pooled.frame[pooled.frame["policy"] == "agent"]
    assert list(agent["seed_id"]) == [0, 1, 2, 3]
    assert list(agent["fold"]) == [0, 1, 1, 1]
    assert agent_figures(pooled.frame, 0) == {"backtest/shortfall_bps/mean": 7.0}  # (4 + 3 · 8) / 4
    assert baseline_figures(pooled.frame) == {"baseline/twap/shortfall_bps/mean": 0.0}
    shares = pooled.schedule.set_index("policy")["filled_share"]
    np.testing.assert_allclose([shares["agent"], shares["twap"]], [0.5, 1.0])  # (0.2 + 3 · 0.6) / 4
    facts = pooled.facts
    assert (facts["num_orders"], facts["num_days"], facts["first_day"], facts["last_day"]) == (4, 2, "2024-01-02", "2024-02-02")
    assert facts["mean_coverage"] == pytest.approx(0.5)


def _seed_set(name: str) -> SeedSetReference:
    day = date(2024, 1, 2)
    return SeedSetReference(path=Path(name), fingerprint=name, num_orders=1, first_date=day, last_date=day)


MARKET = MarketReference(path=Path("store"), fingerprint="market")
ORDERS = FoldReference(fold=0, train=_seed_set("a"), validation=_seed_set("b"), test=_seed_set("c"))
FOLD = ExecutionFold(market=MARKET, orders=ORDERS)


def _keys(*overrides: str, home: str = "/home", as_of: date | None = None) -> CacheKeys:
    return CacheKeys(Home(Path(home)), load("demo", overrides), as_of)


def test_what_changes_no_result_changes_no_key() -> None:
    same = _keys("name=other", "runtime.concurrency=2", "training.checkpoints.every_iterations=7", "seeds=[5]")
    assert same.market() == _keys().market()
    assert same.seed_sets(MARKET) == _keys().seed_sets(MARKET)
    assert same.training(0, FOLD) == _keys().training(0, FOLD)


@pytest.mark.parametrize("override", ["agent.learning_rate=2e-3", "training.iterations=31", "reward.concentration.weight=2"])
def test_what_changes_the_training_changes_its_key_and_not_the_markets(override: str) -> None:
    assert _keys(override).training(0, FOLD) != _keys().training(0, FOLD)
    assert _keys(override).market() == _keys().market()


def test_other_orders_share_the_market() -> None:
    assert _keys("orders.num_orders=7").market() == _keys().market()
    assert _keys("orders.num_orders=7").seed_sets(MARKET) != _keys().seed_sets(MARKET)


def test_how_it_is_judged_leaves_the_training_alone() -> None:
    keys = _keys("evaluation.baselines=[twap]")
    training = TrainingReference(path=Path("t"), fingerprint="p", seed=0, fold=0, flow_run="r")
    assert keys.training(0, FOLD) == _keys().training(0, FOLD)
    assert keys.backtest([training], FOLD) != _keys().backtest([training], FOLD)


def test_seed_fold_home_and_day_are_part_of_the_keys() -> None:
    keys = _keys()
    assert keys.training(0, FOLD) != keys.training(1, FOLD)
    assert keys.training(0, FOLD) != keys.training(0, FOLD.model_copy(update={"orders": ORDERS.model_copy(update={"fold": 1})}))
    assert keys.market() != _keys(home="/elsewhere").market()
    assert keys.market() != _keys(as_of=date(2024, 1, 2)).market()


def _task_keys(folder: Path, *overrides: str) -> CacheKeys:
    (folder / TASK_PLUGIN).write_bytes((resources.files("flows.cli") / "starting_task.py").read_bytes())
    (folder / "experiment.yaml").write_text(TASK_EXPERIMENT_TEXT)
    return CacheKeys(Home(Path("/home")), load(str(folder / "experiment.yaml"), overrides), None)


def test_a_task_is_known_by_its_seed_sets_and_by_what_the_file_says_of_them(tmp_path: Path) -> None:
    fold = TaskFold(fingerprints={"train_fingerprint": "a", "validation_fingerprint": "b", "test_fingerprint": "c"})
    training = TrainingReference(path=Path("t"), fingerprint="p", seed=0, fold=0, flow_run="r")
    keys = _task_keys(tmp_path)
    other_test = _task_keys(tmp_path, "task.seeds.test.initial_states=[1]")
    assert other_test.training(0, fold) == keys.training(0, fold)  # what judges is not what trains
    assert other_test.test(training, fold) != keys.test(training, fold)
    # A seed set that is loaded lazily may know its name and length only: its fingerprint need not move with its content.
    assert _task_keys(tmp_path, "task.seeds.train.initial_states=[1]").training(0, fold) != keys.training(0, fold)
    for name in ("train_fingerprint", "validation_fingerprint"):
        assert keys.training(0, TaskFold(fingerprints={**fold.fingerprints, name: "other"})) != keys.training(0, fold)
    before = keys.training(0, fold)
    (tmp_path / TASK_PLUGIN).write_text((tmp_path / TASK_PLUGIN).read_text() + "# another plugin\n")
    assert keys.training(0, fold) != before


def test_a_reference_knows_whether_its_files_are_there(tmp_path: Path) -> None:
    training = TrainingReference(path=tmp_path, fingerprint="p", seed=0, fold=0, flow_run="r")
    assert not is_intact(training)
    for path in training.files:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    assert is_intact(training)


def test_a_port_that_is_taken_is_named_before_anything_starts(tmp_path: Path) -> None:
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(InputError, match=f"must be free, was {port}"), serving(Home.open(tmp_path), port, free_port()):
            pass
    assert not _is_taken(free_port())
