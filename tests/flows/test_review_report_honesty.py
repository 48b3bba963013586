"""What a reader of the report must be told about the data and about who saw what."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flows.pooled_backtest import pool_folds
from flows.report.explanations import caveats, what_was_tested
from rlcore.contracts.reward import WeightedReward
from rlcore.environment.parts import EnvironmentParts
from rlcore.execution.actions import DirectQuantity
from rlcore.execution.backtest import BacktestResult, run_backtest
from rlcore.execution.baselines import EvenPace, FollowPlan
from rlcore.execution.orders import OrderSet
from rlcore.execution.rewards import ShortfallReward
from rlcore.execution.simulator import FastSimulator
from rlcore.market.build_store import build_store


def bars(silent_from: str, silent_until: str) -> pd.DataFrame:
    """Two hours of minutes on two days; on the second the feed is silent for a while."""
    frames = []
    for day in ("2024-03-04", "2024-03-05"):
        at = pd.date_range(f"{day} 10:00", f"{day} 12:00", freq="min", inclusive="left", tz="UTC")
        if day == "2024-03-05":
            clock = at.strftime("%H:%M")
            at = at[(clock < silent_from) | (clock >= silent_until)]
        price = dict.fromkeys(("open", "high", "low", "close"), 10.0)
        frames.append(pd.DataFrame({"datetime": at, "instrument": "X.A", "volume": 1000.0, **price}))
    return pd.concat(frames)


def backtest(folder: Path, silent_from: str = "12:00", silent_until: str = "12:00") -> BacktestResult:
    bars(silent_from, silent_until).to_parquet(folder / "bars.parquet")
    store = build_store(folder / "bars.parquet", folder / "store", calendar="10:00-12:00 UTC", tick_minutes=1)
    end = np.array([120, 120, 111, 100])  # steps of 10 ticks: 110-119, 110-119, 110 alone, 90-99
    orders = OrderSet(
        store, row=np.array([0, 1, 1, 1]), side=np.ones(4), quantity=np.full(4, 50.0), start_tick=np.zeros(4, int), end_tick=end
    )
    reward = WeightedReward({"shortfall": (ShortfallReward(), 1.0)})
    parts = EnvironmentParts(FastSimulator(store, 10, None, "close"), EvenPace(), DirectQuantity(), reward)
    return run_backtest(parts, {0: FollowPlan()}, orders, ("twap",), num_lanes=4, root_seed=0)


@pytest.mark.parametrize(
    ("silent_from", "silent_until", "num_silent"),
    [("12:00", "12:00", 0), ("11:51", "12:00", 0), ("11:50", "12:00", 2), ("11:45", "12:00", 2), ("11:50", "11:52", 1)],
)
def test_orders_that_end_where_nothing_is_traded_are_counted_and_told(
    tmp_path: Path, silent_from: str, silent_until: str, num_silent: int
) -> None:
    """A day with nine tenths of its bars counts as complete; who waits until its last minutes all the same fills nothing."""
    result = backtest(tmp_path, silent_from, silent_until)
    assert result.facts["num_orders_ending_in_silence"] == num_silent
    told = [said for said in caveats(result.facts, 1) if "nothing was traded in the last step" in said]
    assert len(told) == (num_silent > 0)
    pooled = pool_folds([result, result])
    assert pooled.facts["num_orders_ending_in_silence"] == 2 * num_silent
    if told:
        assert told[0].startswith(f"For {num_silent} of the 4 orders")


def test_a_later_fold_may_have_trained_on_the_test_days_of_an_earlier_one(tmp_path: Path) -> None:
    """So the report must not say that the agent saw none of the test days."""
    said = what_was_tested(backtest(tmp_path).facts, ["agent", "twap"])
    assert "saw none of these days" not in said
    assert "neither the order's day nor any later one" in said
