"""One order worked through on paper: every figure of the table below stands in the comment beside it.

A buy of 100 shares over six ticks, two ticks a step, at most a quarter of a tick's volume. The agent asks for 40 in every step.

    tick      0    1    2    3    4    5
    open     10   10   11   12   12   11
    close    10   11   12   12   11   10
    volume   80  200    -  400  120   20      tick 2 has no bar
    cap      20   50    0  100   30    5
    asked    20   20   20   20    -    -
    filled   20   20    0   20   30    5      last step: 40 wanted, tick 4 takes what tick 5 cannot, 5 stay unfilled

Shares 95, money 20·10 + 20·11 + 20·12 + 30·11 + 5·10 = 1040, average 1040/95.
TWAP of the last known prices 10 11 11 12 11 10: 65/6.
VWAP (80·10 + 200·11 + 400·12 + 120·11 + 20·10) / 820 = 9320/820. Arrival 10, end 10.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from rlcore.contracts.policy import Decision, Policy
from rlcore.contracts.reward import WeightedReward
from rlcore.environment.evaluation import evaluate
from rlcore.environment.parts import EnvironmentParts
from rlcore.execution.actions import DirectQuantity
from rlcore.execution.observations import CurrentStepObservation
from rlcore.execution.orders import OrderSet
from rlcore.execution.rewards import ConcentrationPenalty, PriceAdvantageReward, ShortfallReward
from rlcore.execution.simulator import FastSimulator
from rlcore.foundation.random_streams import RandomStreams
from rlcore.market.build_store import build_store

OPEN, CLOSE, VOLUME = [10, 10, 11, 12, 12, 11], [10, 11, 12, 12, 11, 10], [80, 200, 0, 400, 120, 20]
FILLED = np.array([20.0, 20.0, 0.0, 20.0, 30.0, 5.0])
SHARES, MONEY, TWAP, VWAP = 95.0, 1040.0, 65 / 6, 9320 / 820


class Asks(Policy):
    def decide(self, reference, internal_state, mask, randomness):
        return Decision(action=np.full((len(reference["private"]), 1), 40.0))


@pytest.fixture(scope="module")
def orders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("market")
    start = pd.date_range("2024-03-04 10:00", periods=6, freq="min", tz="UTC")
    bars = pd.DataFrame({"datetime": start, "instrument": "X.A", "open": OPEN, "close": CLOSE, "volume": VOLUME})
    bars["high"], bars["low"] = bars[["open", "close"]].max(axis=1), bars[["open", "close"]].min(axis=1)
    bars.drop(index=2).to_parquet(folder / "bars.parquet")
    store = build_store(folder / "bars.parquet", folder / "store", calendar="10:00-10:06 UTC", tick_minutes=1)
    return OrderSet(store, row=[0], side=[1.0], quantity=[100.0], start_tick=[0], end_tick=[6])


def test_an_order_worked_on_paper(orders):
    terms = {"pa": (PriceAdvantageReward(), 1.0), "crowd": (ConcentrationPenalty(), 3.0), "cost": (ShortfallReward(), 0.5)}
    parts = EnvironmentParts(
        FastSimulator(orders.store, 2, 0.25, "close"), CurrentStepObservation(), DirectQuantity(), WeightedReward(terms)
    )
    row = evaluate(parts, Asks(), orders, RandomStreams(0), "test", 1).to_frame().iloc[0]
    average = MONEY / SHARES
    expected = {
        "num_steps": 3,
        "fill_rate": 0.95,
        "filled_quantity": 95,
        "average_price": average,
        "arrival_price": 10,
        "end_price": 10,
        "window_twap": TWAP,
        "window_vwap": VWAP,
        "participation": 95 / 820,
        "price_advantage_bps": (1 - average / TWAP) * 1e4,
        "slippage_arrival_bps": (average / 10 - 1) * 1e4,
        "slippage_twap_bps": (average / TWAP - 1) * 1e4,
        "slippage_vwap_bps": (average / VWAP - 1) * 1e4,
        "shortfall_bps": (1040 - 950) / 1000 * 1e4,  # the 5 left cost 5 · (10 − 10) = 0
        "reward/pa": (95 - 1040 / TWAP) / 100 * 1e4,
        "component/crowd": -np.square(FILLED / 100).sum(),
        "reward/crowd": -3 * (3 * 0.2**2 + 0.3**2 + 0.05**2),
        "reward/cost": -0.5 * 900,
    }
    for name, value in expected.items():
        assert row[name] == pytest.approx(value, rel=1e-12, abs=1e-9), name
    assert row["return"] == pytest.approx(row["reward/pa"] + row["reward/crowd"] + row["reward/cost"], rel=1e-12)
