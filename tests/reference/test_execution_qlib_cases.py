"""QlibRL's own cases for its simple simulator and interpreters (tests/rl/test_saoe_simple.py), re-expressed as ours.

The cases stand on one US stock-day of 390 one-minute bars with these constants planted: the first bar's volume 450,072 and close
25.370001, and a volume of 5,041,147 in the first half hour. Where QlibRL is wrong the expectation is corrected and the
defect named (D1-D31, Q1-Q22: the project's list of QlibRL's defects).

Not here: data, network and training cases (``test_qlib_execution_runs``), console and CSV writers (``test_qlib_logger``).
"""

from __future__ import annotations

import numpy as np
import pytest

from rlcore.contracts.policy import Decision, Policy
from rlcore.contracts.reward import WeightedReward
from rlcore.contracts.status import LaneStatus
from rlcore.environment.backends import build_backend
from rlcore.environment.evaluation import evaluate
from rlcore.environment.parts import EnvironmentParts
from rlcore.environment.space_checks import check_lanes
from rlcore.execution.actions import CategoricalFractions, TwapRelative, even_fractions
from rlcore.execution.observations import CurrentStepObservation, FullHistoryObservation
from rlcore.execution.orders import OrderSet
from rlcore.execution.rewards import ConcentrationPenalty, PriceAdvantageReward, ThresholdedTerminalReward
from rlcore.execution.simulator import FastSimulator
from rlcore.foundation.lanes import take_lanes
from rlcore.foundation.random_streams import RandomStreams
from rlcore.market.features import history_features
from tests.execution_market import planted_store

DAYS = ("2013-12-10", "2013-12-11")
FIRST_VOLUME, FIRST_CLOSE, HALF_HOUR_VOLUME = 450072.0, 25.370001, 5041147.0
BUY, SELL = 1.0, -1.0


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    session = ("America/New_York", ("09:30", "16:00"))
    volume = (FIRST_VOLUME, HALF_HOUR_VOLUME)
    return planted_store(tmp_path_factory.mktemp("aal"), "US.AAL", DAYS, "XNYS", session, close=FIRST_CLOSE, volume=volume)


def order(store, quantity, side, start="09:30", end="16:00"):
    row = store.row_of("US.AAL", "2013-12-11")
    columns = {
        "row": row,
        "side": side,
        "quantity": quantity,
        "start_tick": store.tick_of(row, start),
        "end_tick": store.tick_of(row, end),
    }
    return OrderSet(store, **{name: np.array([value]) for name, value in columns.items()})


def begin(store, one_order, ticks_per_step=30, cap=None):
    simulator = FastSimulator(store, ticks_per_step, cap, "close")
    return simulator, simulator.start(one_order.take(np.arange(1)))


def step(simulator, state, shares):
    return simulator.step(state, np.array([float(shares)]))


def status(step_number, is_done=False):
    zero = np.zeros(1, np.int64)
    return LaneStatus(zero, zero, np.array([step_number]), np.array([is_done]))


def test_first_step(store):
    simulator, state = begin(store, order(store, 30.0, SELL))
    assert store.tick_label(int(state.order.row[0]), int(state.now[0])) == "09:30"
    stepped = step(simulator, state, 15.0)
    outcome, state = stepped.outcome, stepped.state
    assert outcome.is_tick.sum() == 30 and outcome.first_tick[0] == 0
    assert outcome.volume[0, 0] == FIRST_VOLUME and outcome.volume.sum() == HALF_HOUR_VOLUME
    assert outcome.price[0, 0] == FIRST_CLOSE
    assert (outcome.filled == 0.5).all() and outcome.intended[0] == 15.0
    assert outcome.filled[0, 0] * outcome.price[0, 0] == pytest.approx(12.6850005)
    assert outcome.filled[0, 0] / 30.0 == 1 / 60
    assert outcome.step_quantity[0] == 15.0 and state.remaining[0] == 15.0
    assert store.tick_label(int(state.order.row[0]), int(state.now[0])) == "10:00"
    # QlibRL: pa of the step = (trade_price / twap - 1) * 10000 for a sell; ours is that times the share filled (Q4).
    average, twap = outcome.step_value[0] / 15.0, store.array("close")[1].mean()
    reward = PriceAdvantageReward().reward(outcome, status(1))[0]
    assert reward == pytest.approx((average / twap - 1) * 1e4 * 0.5, abs=1e-9)


def test_stop_twap(store):
    simulator, state = begin(store, order(store, 13.0, SELL))
    filled, remaining = [], []
    for number in range(13):
        stepped = step(simulator, state, 1.0)
        state = stepped.state
        filled.append(stepped.outcome.filled[0])
        remaining.append(state.remaining[0])
        assert bool(stepped.terminated[0]) == (number == 12)
    np.testing.assert_allclose(np.concatenate(filled), 13 / 390, rtol=1e-12)
    assert len(np.concatenate(filled)) == 390
    assert remaining[0] == 12.0 and remaining[-1] == 0.0
    metrics = {name: value[0] for name, value in simulator.metrics(state).items()}
    day = store.array("close")[1]
    assert metrics["fill_rate"] == 1.0
    assert metrics["window_twap"] == pytest.approx(day.mean(), rel=1e-12)
    assert metrics["average_price"] == pytest.approx(day.mean(), rel=1e-12)
    assert metrics["participation"] == pytest.approx(13.0 / store.array("volume")[1].sum(), rel=1e-12)
    assert abs(metrics["price_advantage_bps"]) < 1e-8


def test_stop_early(store):
    # D8: more than the position raises ValueError in QlibRL; here it is clipped to what remains.
    simulator, state = begin(store, order(store, 1.0, BUY))
    clipped = step(simulator, state, 2.0)
    assert clipped.outcome.intended[0] == 1.0 and clipped.terminated[0]
    assert clipped.outcome.filled.sum() == pytest.approx(1.0, rel=1e-12) and clipped.state.remaining[0] == 0.0
    exact = step(simulator, state, 1.0)
    assert exact.terminated[0] and exact.state.now[0] == 30
    # QlibRL's "no step after done" is the engine's rule here: see the tests of advance.


def test_start_middle(store):
    simulator, state = begin(store, order(store, 15.0, BUY, "10:15", "15:45"))
    assert state.order.end_tick[0] - state.order.start_tick[0] == 330
    assert state.now[0] == 45 and state.num_steps[0] == 12
    state = step(simulator, state, 2.0).state
    assert state.now[0] == 60
    for _ in range(10):
        state = step(simulator, state, 1.0).state
    stepped = step(simulator, state, 2.0)
    assert stepped.terminated[0] and stepped.state.now[0] == 375
    # D8: QlibRL adds the remainder of 1 to the last tick (1 + 2/15); here 3 shares are spread over the last step's 15 ticks.
    assert stepped.outcome.is_tick.sum() == 15
    np.testing.assert_allclose(stepped.outcome.filled[0, :15], 3 / 15, rtol=1e-12)
    assert simulator.metrics(stepped.state)["fill_rate"][0] == 1.0


def test_interpreters(store):
    simulator, state = begin(store, order(store, 15.0, BUY, "10:15", "15:45"))
    history = FullHistoryObservation(store, history_features(store), 30, "today_and_previous")
    current = CurrentStepObservation()
    by_fraction, by_pace = CategoricalFractions(even_fractions(20)), TwapRelative(5.0)
    assert by_fraction.action_space.n == 21

    def observe(interpreter, number, is_done=False):
        observation = interpreter.interpret(simulator.view(state), status(number, is_done))
        check_lanes(interpreter.observation_space, observation, "observation")
        return observation

    seen = observe(history, 0)
    assert (seen["tick"][0], seen["step"][0], seen["num_steps"][0], seen["side"][0, 0]) == (45, 0, 12, 1.0)
    np.testing.assert_array_equal(seen["private_history"][0, 0], [1.0, 0.0])
    assert (np.abs(seen["history"][0, :45]).sum(axis=-1) != 0).all() and (seen["history"][0, 45:] == 0).all()
    assert seen["previous_history"].shape == seen["history"].shape == (1, 390, len(history_features(store).names))
    # D5: QlibRL's CurrentStepStateInterpreter cannot be used at all (bool without iinfo; last step outside its own space).
    np.testing.assert_array_equal(observe(current, 0)["private"], [[1.0, 0.0, 1.0]])

    state = step(simulator, state, 5.0).state
    seen = observe(history, 1)
    assert (seen["tick"][0], seen["step"][0]) == (60, 1)
    np.testing.assert_allclose(seen["private_history"][0, :2, 0], [1.0, 10 / 15], rtol=1e-6)
    assert (np.abs(seen["history"][0, :60]).sum(axis=-1) != 0).all() and (seen["history"][0, 60:] == 0).all()
    view = simulator.view(state)
    assert by_fraction.interpret(view, np.array([1]), status(1))[0] == 15 / 20
    # D7: QlibRL counts ceil(330/30) = 11 steps and trades 1.5; the window touches 12 steps of the day's grid.
    assert by_pace.interpret(view, np.array([[1.5]], np.float32), status(1))[0] == pytest.approx(1.5 * 10 / 11, rel=1e-12)

    for number in range(2, 12):
        stepped = step(simulator, state, 0.0)
        state = stepped.state
        assert not stepped.terminated[0]
        observe(history, number)
    stepped = step(simulator, state, 5.0)
    state = stepped.state
    assert stepped.terminated[0]
    seen = observe(history, 12, is_done=True)
    assert (seen["tick"][0], seen["step"][0]) == (375, 12)
    np.testing.assert_allclose(seen["private_history"][0, 1:12, 0], 10 / 15, rtol=1e-6)
    # D8: QlibRL asks for 5 of 10 and forces the rest into one tick; the order completes either way.
    assert seen["private_history"][0, 12, 0] == 0.0 and state.remaining[0] == 0.0
    assert (np.abs(seen["history"][0, :375]).sum(axis=-1) != 0).all() and (seen["history"][0, 375:] == 0).all()
    np.testing.assert_array_equal(observe(current, 12, is_done=True)["private"], [[0.0, 1.0, 1.0]])


def test_observation_after_the_whole_session(store):
    # From QlibRL's network case: 13 steps of 1 share of 15. cur_tick is capped to 389 there; here it says that all 390 are seen.
    simulator, state = begin(store, order(store, 15.0, BUY))
    history = FullHistoryObservation(store, history_features(store), 30, "today")
    for _ in range(13):
        state = step(simulator, state, 1.0).state
    seen = history.interpret(simulator.view(state), status(13, True))
    check_lanes(history.observation_space, seen, "observation")
    assert seen["tick"][0] == 390 and seen["step"][0] == 13
    assert seen["private_history"].shape == (1, 14, 2)
    np.testing.assert_allclose(seen["private_history"][0, 12], [3 / 15, 12 / 13], rtol=1e-6)


class EvenPace(Policy):
    def decide(self, reference, internal_state, mask, randomness):
        return Decision(action=np.ones((len(reference["private"]), 1), np.float32))


@pytest.mark.parametrize("kind", ["dummy", "subproc", "shmem"])
def test_twap_strategy(store, kind):
    """248 orders of both sides: fill rate 1, price advantage 0, one row each, on every backend."""
    rng = np.random.default_rng(1)
    count = 248
    orders = OrderSet(
        store,
        row=rng.integers(0, 2, count),
        side=rng.choice([BUY, SELL], count),
        quantity=rng.uniform(1, 1000, count),
        start_tick=np.zeros(count),
        end_tick=np.full(count, 390),
    )
    parts = EnvironmentParts(
        FastSimulator(store, 30, None, "close"),
        CurrentStepObservation(),
        TwapRelative(1.0),
        WeightedReward({"pa": (PriceAdvantageReward(), 1.0)}),
    )
    with build_backend(kind, 2, chunk_deadline_seconds=60) as backend:
        table = evaluate(parts, EvenPace(), orders, RandomStreams(0), "test", 32, backend=backend)
    assert table["seed_id"].tolist() == list(range(count))
    assert (table["num_steps"] == 13).all() and (table["fill_rate"] == 1.0).all()
    assert np.abs(table["price_advantage_bps"]).max() < 1e-8


# Defects without a case of QlibRL's own.


def test_an_order_that_cannot_fill_whole_has_metrics(store):
    # D2, Q3: QlibRL gives no metrics for it, so that mean fill rates are always 1.
    simulator, state = begin(store, order(store, 1e6, SELL), cap=1e-3)
    terminated = False
    while not terminated:
        stepped = step(simulator, state, 1e6)
        state, terminated = stepped.state, bool(stepped.terminated[0])
    metrics = {name: value[0] for name, value in simulator.metrics(state).items()}
    volume, price = store.array("volume")[1], store.array("close")[1]
    assert metrics["fill_rate"] == pytest.approx(1e-3 * volume.sum() / 1e6, rel=1e-9)
    vwap = (price * volume).sum() / volume.sum()
    assert metrics["average_price"] == pytest.approx(vwap, rel=1e-9)
    assert metrics["price_advantage_bps"] == pytest.approx((vwap / price.mean() - 1) * 1e4, abs=1e-6)


def test_nothing_filled_is_unknown_and_costs_the_opportunity(store):
    # D3, Q1: QlibRL reports ±10,000 bps and rewards it. Q2: a NaN benchmark would read 0 there.
    simulator, state = begin(store, order(store, 100.0, BUY), ticks_per_step=390)
    metrics = {name: value[0] for name, value in simulator.metrics(state).items()}
    assert np.isnan([metrics[name] for name in ("price_advantage_bps", "average_price", "slippage_vwap_bps")]).all()
    arrival, end = store.array("open")[1, 0], store.array("close")[1, -1]
    assert metrics["shortfall_bps"] == pytest.approx((end / arrival - 1) * 1e4, abs=1e-9)
    simulator, state = begin(store, order(store, 100.0, BUY))
    outcome = step(simulator, state, 0.0).outcome
    assert PriceAdvantageReward().reward(outcome, status(1))[0] == 0.0
    assert ConcentrationPenalty().reward(outcome, status(1))[0] == 0.0


def test_rewards_credit_fills_not_intentions(store):
    # D3, Q4: a capped step earns by what it filled; a forced completion earns what it filled too.
    simulator, state = begin(store, order(store, 1e6, BUY), cap=1e-3)
    outcome = step(simulator, state, 1e6).outcome
    share = HALF_HOUR_VOLUME * 1e-3 / 1e6
    twap = store.array("close")[1].mean()
    average = (store.array("close")[1, :30] * store.array("volume")[1, :30]).sum() / HALF_HOUR_VOLUME
    assert PriceAdvantageReward().reward(outcome, status(1))[0] == pytest.approx(share * (1 - average / twap) * 1e4, abs=1e-9)
    squares = np.square(store.array("volume")[1, :30] * 1e-3 / 1e6).sum()
    assert ConcentrationPenalty().reward(outcome, status(1))[0] == pytest.approx(-squares, rel=1e-9)
    simulator, state = begin(store, order(store, 100.0, BUY, "15:00", "16:00"))
    state = step(simulator, state, 0.0).state
    forced = step(simulator, state, 0.0).outcome
    gain = (1 - store.array("close")[1, 360:].mean() / store.array("close")[1, 330:].mean()) * 1e4
    assert abs(gain) > 1.0 and forced.step_quantity[0] == pytest.approx(100.0, rel=1e-12)
    assert PriceAdvantageReward().reward(forced, status(2, True))[0] == pytest.approx(gain, abs=1e-8)
    assert ConcentrationPenalty().reward(forced, status(2, True))[0] == pytest.approx(-1 / 30, rel=1e-12)


@pytest.mark.parametrize("side", [BUY, SELL])
def test_the_terminal_reward_is_paid_once_against_the_orders_window(store, side):
    # D6, Q5: QlibRL pays a step early and again at the end, never for a part-filled order, and against the whole day.
    simulator, state = begin(store, order(store, 10.0, side, "11:00", "12:30"))
    paid = []
    for number, shares in enumerate((10.0 * 0.5, 0.0, 0.0), start=1):
        stepped = step(simulator, state, shares)
        state = stepped.state
        paid.append(ThresholdedTerminalReward().reward(stepped.outcome, status(number, bool(stepped.terminated[0])))[0])
    window = store.array("close")[1, 90:180]
    average = 0.5 * window[:30].mean() + 0.5 * window[60:].mean()
    ratio, of_the_day = ((average / twap) ** -side for twap in (window.mean(), store.array("close")[1].mean()))
    assert ratio < 1.1 and (ratio < 1.0) != (of_the_day < 1.0)
    assert paid == [0.0, 0.0, 0.0 if ratio >= 1.0 else -1.0]


def test_a_part_filled_order_gets_its_terminal_reward(store):
    # D6, Q5: QlibRL pays it to orders that fill whole, and to those that have a step to go.
    paid, wanted = [], []
    for side in (BUY, SELL):
        simulator, state = begin(store, order(store, 1e6, side), ticks_per_step=195, cap=1e-3)
        for number in (1, 2):
            stepped = step(simulator, state, 1e6)
            state = stepped.state
            paid.append(ThresholdedTerminalReward().reward(stepped.outcome, status(number, bool(stepped.terminated[0])))[0])
        assert 0.0 < state.remaining[0] < 1e6
        volume, price = store.array("volume")[1], store.array("close")[1]
        ratio = ((price * volume).sum() / volume.sum() / price.mean()) ** -side
        wanted += [0.0, -1.0 if ratio < 1.0 else 0.0]
    assert paid == wanted and -1.0 in wanted


def test_forced_completion_uses_spare_capacity_of_the_whole_step(store):
    # D8: QlibRL dumps the remainder into the final tick under its cap; water filling uses every tick's room.
    one = order(store, 1000.0, SELL, "15:30", "16:00")
    volume = store.array("volume")[1, 360:]
    cap = 1000.0 / volume.sum() * 1.001
    simulator, state = begin(store, one, cap=cap)
    stepped = step(simulator, state, 0.0)
    assert stepped.state.remaining[0] == 0.0 and (stepped.outcome.filled[0] <= cap * volume).all()


def test_two_orders_on_one_stock_and_day_keep_apart(store):
    # D27: QlibRL's backtest loses one of them.
    both = OrderSet(store, row=[1, 1], side=[BUY, SELL], quantity=[10.0, 20.0], start_tick=[0, 0], end_tick=[390, 390])
    simulator = FastSimulator(store, 390, None, "close")
    state = simulator.step(simulator.start(both.take(np.arange(2))), np.zeros(2)).state
    np.testing.assert_allclose(simulator.metrics(state)["filled_quantity"], [10.0, 20.0], rtol=1e-12)
    alone = simulator.metrics(take_lanes(state, np.array([1])))
    np.testing.assert_array_equal(alone["filled_quantity"], simulator.metrics(state)["filled_quantity"][1:])
