"""QlibRL's cases for its nested simulator (tests/rl/test_qlib_simulator.py), re-expressed as ours.

There a daily strategy hands 30-minute orders to a TWAP strategy over one-minute bars of an exchange. What the cases assert is the
arithmetic of decision steps, spread evenly over their minutes: that is what our simulator does. What they set up and never let
bind (limit prices, volume caps on the day so far and on the quoted size, fees, bid and ask) belongs to the realistic nested
execution.

One stock-day of Shanghai (09:30-11:30, 13:00-15:00) with their constants planted: the first minute at 149.566483 with a volume of
109,382.382812, and 1,254,848.5756835938 in the first half hour. The order buys 2,100 shares until 14:30.
"""

from __future__ import annotations

import numpy as np
import pytest

from rlcore.contracts.status import LaneStatus
from rlcore.environment.space_checks import check_lanes
from rlcore.execution.actions import CategoricalFractions, even_fractions
from rlcore.execution.orders import OrderSet
from rlcore.execution.rewards import PriceAdvantageReward
from rlcore.execution.simulator import FastSimulator
from tests.execution_market import planted_store

DAY, QUANTITY, BUY = "2019-03-04", 2100.0, 1.0
FIRST_CLOSE, FIRST_VOLUME, HALF_HOUR_VOLUME = 149.566483, 109382.382812, 1254848.5756835938
SESSION = ("Asia/Shanghai", ("09:30", "11:30"), ("13:00", "15:00"))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    volume = (FIRST_VOLUME, HALF_HOUR_VOLUME)
    folder = tmp_path_factory.mktemp("shanghai")
    return planted_store(folder, "SH600000", ["2019-03-01", DAY], "XSHG", SESSION, close=FIRST_CLOSE, volume=volume)


@pytest.fixture
def begun(store):
    row = store.row_of("SH600000", DAY)
    ticks = {"start_tick": [store.tick_of(row, "09:30")], "end_tick": [store.tick_of(row, "14:30")]}
    order = OrderSet(store, row=[row], side=[BUY], quantity=[QUANTITY], **ticks)
    simulator = FastSimulator(store, 30, None, "close")
    return simulator, simulator.start(order.take(np.arange(1)))


def label(store, state):
    return store.tick_label(int(state.order.row[0]), int(state.now[0]))


def status(step_number):
    zero = np.zeros(1, np.int64)
    return LaneStatus(zero, zero, np.array([step_number]), np.zeros(1, bool))


def test_the_first_half_hour(store, begun):
    """The same: 300 shares in 30 equal parts, valued at each minute's price."""
    simulator, state = begun
    assert label(store, state) == "09:30" and state.remaining[0] == QUANTITY
    stepped = simulator.step(state, np.array([300.0]))
    outcome, state = stepped.outcome, stepped.state
    assert label(store, state) == "10:00" and state.remaining[0] == QUANTITY - 300.0
    assert outcome.is_tick.sum() == 30 and outcome.first_tick[0] == 0
    assert outcome.volume[0, 0] == FIRST_VOLUME and outcome.price[0, 0] == FIRST_CLOSE
    assert outcome.volume[0].sum() == pytest.approx(HALF_HOUR_VOLUME, rel=1e-12)
    assert (outcome.filled == 10.0).all()
    assert outcome.filled[0, 0] * outcome.price[0, 0] == pytest.approx(1495.66483, rel=1e-12)
    assert outcome.filled[0, 0] / QUANTITY == pytest.approx(1 / 210, rel=1e-12)
    # QlibRL: pa of the step = (1 - price / twap) * 10000 for a buy; ours is that times the share filled (Q4).
    twap = store.array("close")[state.order.row[0], :210].mean()
    paid = outcome.step_value[0] / 300.0
    advantage = PriceAdvantageReward().reward(outcome, status(1))[0]
    assert advantage == pytest.approx((1 - paid / twap) * 1e4 * 300.0 / QUANTITY, abs=1e-9)


def test_seven_even_steps_are_the_twap(store, begun):
    """The same: the window has seven half hours around lunch, and the even pace meets the market's mean."""
    simulator, state = begun
    filled, remaining = [], []
    for number in range(7):
        stepped = simulator.step(state, np.array([QUANTITY / 7]))
        state = stepped.state
        filled.append(stepped.outcome.filled[stepped.outcome.is_tick])
        remaining.append(state.remaining[0])
        assert stepped.terminated[0] == (number == 6)
    np.testing.assert_allclose(np.concatenate(filled), np.full(210, 10.0), rtol=1e-12)
    np.testing.assert_allclose(remaining, QUANTITY * np.arange(6, -1, -1) / 7, atol=1e-9)
    metrics = {name: value[0] for name, value in simulator.metrics(state).items()}
    window = slice(0, 210)
    price, volume = (store.array(name)[state.order.row[0], window] for name in ("close", "volume"))
    assert metrics["fill_rate"] == 1.0 and state.remaining[0] == 0.0
    assert metrics["window_twap"] == pytest.approx(price.mean(), rel=1e-12)
    assert metrics["average_price"] == pytest.approx(price.mean(), rel=1e-12)
    assert metrics["participation"] == pytest.approx(QUANTITY / volume.sum(), rel=1e-12)
    assert abs(metrics["price_advantage_bps"]) < 1e-8


def test_thirds_fill_the_order_in_three_steps(begun):
    """Corrected (D31): the order is filled after three steps, and there is no fourth; QlibRL goes on asking for actions."""
    simulator, state = begun
    thirds = CategoricalFractions(even_fractions(3))
    is_over, left = False, []
    while not is_over:
        action = np.array([1])
        check_lanes(thirds.action_space, action, "action")
        stepped = simulator.step(state, thirds.interpret(simulator.view(state), action, status(len(left))))
        state, is_over = stepped.state, bool(stepped.terminated[0])
        left.append(state.remaining[0])
    np.testing.assert_allclose(left, [1400.0, 700.0, 0.0], atol=1e-9)
    assert left[-1] == 0.0
