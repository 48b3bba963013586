"""Fills, actions, observations, rewards: closed forms and refusals."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from rlcore.contracts.interpreters import SharesHistory
from rlcore.contracts.status import LaneStatus
from rlcore.environment.space_checks import check_lanes
from rlcore.execution import fills
from rlcore.execution.actions import CategoricalFractions, DirectQuantity, TwapRelative, even_fractions
from rlcore.execution.observations import CurrentStepObservation, FullHistoryObservation
from rlcore.execution.orders import OrderSet
from rlcore.execution.rewards import ShortfallReward, ThresholdedTerminalReward
from rlcore.execution.simulator import FastSimulator
from rlcore.foundation.errors import ConfigError, DataError
from rlcore.foundation.lanes import map_lanes
from rlcore.market.features import history_features
from tests.execution_market import random_bars, store_of


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return store_of(random_bars(missing_fraction=0.1), tmp_path_factory.mktemp("market"))


def status(count, step=0, is_done=False):
    zero = np.zeros(count, np.int64)
    return LaneStatus(zero, zero, np.full(count, step), np.full(count, is_done))


def begin(store, quantity=1000.0, ticks_per_step=4, cap=None, start=0, row=5):
    orders = OrderSet(
        store,
        row=[row, row],
        side=[1.0, -1.0],
        quantity=[quantity] * 2,
        start_tick=[start] * 2,
        end_tick=store.session_ticks[[row, row]],
    )
    simulator = FastSimulator(store, ticks_per_step, cap, "close")
    return simulator, simulator.start(orders.take(np.arange(2)))


def test_capacity_is_the_capped_volume():
    volume = np.array([0.0, 10.0, 1e-9, 1e12])
    np.testing.assert_array_equal(fills.capacity(volume, 0.25), [0.0, 2.5, 0.25e-9, 0.25e12])
    open_ended = fills.capacity(volume, None)
    assert open_ended[0] == 0.0 and (open_ended[1:] > 1e260).all()


def test_equal_split_loses_what_a_tick_cannot_take():
    split = fills.equal_split(np.array([12.0, 12.0]), np.array([4, 3]), np.array([[9.0, 1.0, 9.0, 0.0], [9.0, 9.0, 9.0, 0.0]]))
    np.testing.assert_array_equal(split, [[3.0, 1.0, 3.0, 0.0], [4.0, 4.0, 4.0, 0.0]])


def test_water_fill_by_hand():
    capacity = np.array([[1.0, 2.0, 9.0, 0.0], [1.0, 2.0, 9.0, 0.0], [5.0, 5.0, 5.0, 5.0], [0.0, np.inf, np.inf, 1.0]])
    filled = fills.water_fill(np.array([7.0, 100.0, 8.0, 7.0]), capacity)
    np.testing.assert_allclose(filled, [[1, 2, 4, 0], [1, 2, 9, 0], [2, 2, 2, 2], [0, 3, 3, 1]])
    np.testing.assert_array_equal(fills.water_fill(np.array(6.0), np.array([1.0, 9.0])), [1.0, 5.0])


def test_fractions_of_the_order():
    assert even_fractions(4) == (0.0, 0.25, 0.5, 0.75, 1.0)
    for bad in ((0.5,), (0.0, 0.5, 0.5), (0.0, 1.5), (np.nan, 1.0)):
        with pytest.raises(ConfigError, match="fractions must be"):
            CategoricalFractions(bad)
    with pytest.raises(ConfigError, match="number of equal parts"):
        even_fractions(0)
    with pytest.raises(ConfigError, match="largest_multiple must be above 0"):
        TwapRelative(0.0)


def test_actions_become_shares(store):
    simulator, state = begin(store, start=2)
    state = simulator.step(state, np.array([100.0, 200.0])).state
    view, now = simulator.view(state), status(2, 1)
    assert view.num_steps.tolist() == [7, 7] and view.remaining.tolist() == [900.0, 800.0]
    np.testing.assert_array_equal(CategoricalFractions((0.0, 0.3)).interpret(view, np.array([1, 0]), now), [300.0, 0.0])
    pace = TwapRelative(3.0).interpret(view, np.array([[1.0], [3.0]], np.float32), now)
    np.testing.assert_allclose(pace, [900 / 6, 3 * 800 / 6], rtol=1e-12)
    np.testing.assert_array_equal(DirectQuantity().interpret(view, np.array([[5.0], [7.0]]), now), [5.0, 7.0])


def test_an_action_mask_of_fills_is_not_needed(store):
    # Every action is accepted at every time: what is too much is clipped.
    simulator, state = begin(store)
    stepped = simulator.step(state, np.array([np.inf, 1e9]))
    assert stepped.outcome.intended.tolist() == [1000.0, 1000.0]


def test_features_are_read_at_the_last_completed_tick(store):
    simulator, state = begin(store)
    interpreter = CurrentStepObservation(("close", "volume"))
    first = interpreter.interpret(simulator.view(state), status(2))
    assert (first["features"] == 0.0).all()
    state = simulator.step(state, np.zeros(2)).state
    second = interpreter.interpret(simulator.view(state), status(2, 1))
    expected = np.nan_to_num([store.array("close")[5, 3], store.array("volume")[5, 3]]).astype(np.float32)
    np.testing.assert_array_equal(second["features"], [expected, expected])
    check_lanes(interpreter.observation_space, second, "observation")
    with pytest.raises(DataError, match="field must be one of"):
        CurrentStepObservation(("clsoe",)).interpret(simulator.view(state), status(2))


def test_views_read_earlier_days(store):
    simulator, state = begin(store, row=7)
    earlier = simulator.view(state).previous_days("close", 3)
    np.testing.assert_array_equal(earlier[0, :2], store.array("close")[[6, 5]])
    assert np.isnan(earlier[0, 2]).all()


@pytest.mark.parametrize("days", ["today", "today_and_previous"])
def test_full_history_is_stored_by_reference(store, days):
    history = history_features(store)
    interpreter = FullHistoryObservation(store, history, 4, days)
    simulator, state = begin(store, start=2)
    for number in range(4):
        view = simulator.view(state)
        reference = interpreter.compress(view, status(2, number))
        observation = interpreter.expand(reference)
        map_lanes(np.testing.assert_array_equal, observation, interpreter.interpret(view, status(2, number)))
        check_lanes(interpreter.observation_space, observation, "observation")
        now = int(view.now[0])
        np.testing.assert_array_equal(observation["history"][0, :now], history.array[5, :now])
        assert (observation["history"][:, now:] == 0).all() and "history" not in reference
        assert ("previous_history" in observation) == (days == "today_and_previous")
        state = simulator.step(state, np.array([0.0, 100.0])).state
    assert isinstance(interpreter, SharesHistory)
    np.testing.assert_array_equal(interpreter.histories(interpreter.history_keys(reference)), history.array[[5, 5]])
    np.testing.assert_allclose(
        observation["private_history"][1, :5], [[1, 0], [0.9, 1 / 7], [0.8, 2 / 7], [0.7, 3 / 7], [0, 0]], rtol=1e-6
    )


def test_previous_history_is_the_instruments_own_day_before(store):
    history = history_features(store)
    interpreter = FullHistoryObservation(store, history, 4, "today_and_previous")
    for row, expected in ((7, history.array[6]), (5, np.zeros_like(history.array[0]))):
        simulator, state = begin(store, row=row, start=2)
        observation = interpreter.interpret(simulator.view(state), status(2))
        np.testing.assert_array_equal(observation["previous_history"][0], expected)
    with pytest.raises(ConfigError, match="days must be"):
        FullHistoryObservation(store, history, 4, "yesterday")


def outcome_with(store, side, average, filled=10.0, twap=100.0):
    simulator, state = begin(store)
    outcome = simulator.step(state, np.zeros(2)).outcome
    return replace(
        outcome,
        order=replace(outcome.order, side=np.full(2, side)),
        benchmarks=replace(outcome.benchmarks, window_twap=np.full(2, twap)),
        filled_quantity=np.full(2, filled),
        filled_value=np.full(2, filled * average),
    )


@pytest.mark.parametrize(
    ("side", "average", "expected"),
    [
        (-1.0, 99.0, -1.0),  # sold below the TWAP
        (-1.0, 100.0, 0.0),
        (-1.0, 109.9, 0.0),
        (-1.0, 110.0, 1.0),
        (1.0, 101.0, -1.0),  # bought above it
        (1.0, 100.0, 0.0),
        (1.0, 91.0, 0.0),  # 100 / 91 = 1.0989
        (1.0, 100.0 / 1.1, 1.0),
    ],
)
def test_the_thresholds_of_lin_and_beling(store, side, average, expected):
    reward = ThresholdedTerminalReward()
    outcome = outcome_with(store, side, average)
    assert reward.reward(outcome, status(2, 1, is_done=True)).tolist() == [expected, expected]
    assert reward.reward(outcome, status(2, 1)).tolist() == [0.0, 0.0]
    nothing = outcome_with(store, side, 0.0, filled=0.0)
    assert reward.reward(nothing, status(2, 1, is_done=True)).tolist() == [-1.0, -1.0]


def test_shortfall_charges_what_stays_unfilled_once(store):
    simulator, state = begin(store, quantity=1e9, cap=0.01, ticks_per_step=26)
    outcome = simulator.step(state, np.zeros(2)).outcome
    arrival, end = outcome.arrival_price, outcome.end_price
    paid = (outcome.step_value - arrival * outcome.step_quantity + outcome.remaining * (end - arrival)) / (1e9 * arrival)
    np.testing.assert_allclose(
        ShortfallReward().reward(outcome, status(2, 1, is_done=True)), [-1e4 * paid[0], 1e4 * paid[1]], rtol=1e-9
    )


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"ticks_per_step": 0}, "ticks_per_step must be at least 1, was 0"),
        ({"participation_cap": 0.0}, r"participation_cap must lie in \(0, 1\]"),
        ({"participation_cap": 1.5}, r"participation_cap must lie in \(0, 1\]"),
        ({"price": "mid"}, "price must be one of close, vwap, bid_or_ask, was 'mid'"),
        ({"price": "bid_or_ask"}, "has no bid and no ask"),
    ],
)
def test_a_simulator_that_cannot_be_is_refused(store, changes, says):
    with pytest.raises(ConfigError, match=says):
        FastSimulator(**({"store": store, "ticks_per_step": 4, "participation_cap": None, "price": "close"} | changes))


def test_a_cap_needs_volume_that_says_something(tmp_path):
    bars = random_bars(num_instruments=2)
    bars.loc[bars["instrument"] == "X.I1", "volume"] = 0.0
    store = store_of(bars, tmp_path)
    assert store.instruments_without_usable_volume == ("X.I1",)
    begin(store, row=0, cap=0.1)
    begin(store, row=5)
    with pytest.raises(
        DataError, match=r"volume must be usable for a participation cap, that of X\.I1 .* set participation_cap to null"
    ):
        begin(store, row=5, cap=0.1)


def test_a_simulator_survives_pickling(store):
    simulator, state = begin(store, cap=0.1, start=3)
    again = pickle.loads(pickle.dumps(simulator))
    map_lanes(np.testing.assert_array_equal, simulator.start(state.order), again.start(state.order))
    command = np.array([100.0, 50.0])
    map_lanes(np.testing.assert_array_equal, simulator.step(state, command).outcome, again.step(state, command).outcome)
