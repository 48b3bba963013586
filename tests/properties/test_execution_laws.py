"""Laws of the execution simulator: conservation, caps, lane independence, symmetry, identities, no look-ahead."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore.contracts.policy import Decision, Policy
from rlcore.contracts.reward import WeightedReward
from rlcore.environment.conformance import LawError, check_no_look_ahead, check_parts
from rlcore.environment.parts import EnvironmentParts
from rlcore.environment.rollout import Passage, run_episodes
from rlcore.execution import fills
from rlcore.execution.actions import CategoricalFractions, DirectQuantity, TwapRelative, even_fractions
from rlcore.execution.future_change import perturb_future, shares_balance, store_with_other_future
from rlcore.execution.observations import CurrentStepObservation, FullHistoryObservation
from rlcore.execution.orders import NOTHING_LEFT, OrderSet
from rlcore.execution.rewards import ConcentrationPenalty, PriceAdvantageReward, ShortfallReward, ThresholdedTerminalReward
from rlcore.execution.simulator import FastSimulator
from rlcore.foundation.errors import ContractError
from rlcore.foundation.lanes import first_array, take_lanes
from rlcore.foundation.random_streams import RandomStreams
from rlcore.market.features import history_features
from tests.execution_market import NUM_TICKS, random_bars, random_orders, store_of

REWARDS = WeightedReward(
    {
        "price_advantage": (PriceAdvantageReward(), 1.0),
        "concentration": (ConcentrationPenalty(), 100.0),
        "terminal": (ThresholdedTerminalReward(), 2.0),
        "shortfall": (ShortfallReward(), 0.5),
    }
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return store_of(random_bars(extra=("vwap", "bid", "ask")), tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def thin(tmp_path_factory):
    bars = random_bars(seed=1, missing_fraction=0.2, zero_volume_fraction=0.2, extra=("vwap", "bid", "ask"))
    return store_of(bars, tmp_path_factory.mktemp("thin"))


class RandomActions(Policy):
    """Each lane draws from its own stream."""

    def decide(self, reference, internal_state, mask, randomness):
        return Decision(action=(randomness.uniform("action")[:, 0] * 5).astype(np.int64))


def random_parts(store, ticks_per_step, cap, price="close", observation=None):
    simulator = FastSimulator(store, ticks_per_step, cap, price)
    return EnvironmentParts(simulator, observation or CurrentStepObservation(), CategoricalFractions(even_fractions(4)), REWARDS)


class Keep:
    """A recorder that keeps every outcome, with the seeds it belongs to."""

    def __init__(self):
        self.steps = []

    def record(self, lanes, transition):
        self.steps.append((lanes.status.seed_id, lanes, transition))


def run(parts, policy, orders, num_lanes, seed_id=None, recorders=()):
    seed_id = np.arange(len(orders)) if seed_id is None else seed_id
    return run_episodes(
        parts, policy, orders, seed_id, np.zeros(len(seed_id), np.int64), Passage(RandomStreams(3), "test", num_lanes), recorders
    )


@pytest.mark.parametrize("cap", [None, 0.02, 0.5])
@pytest.mark.parametrize("price", ["close", "vwap", "bid_or_ask"])
def test_shares_are_conserved_and_no_tick_gives_more_than_the_cap(thin, cap, price):
    orders = random_orders(thin, 300)
    recorder = Keep()
    episodes = run(random_parts(thin, 7, cap, price), RandomActions(), orders, 64, recorders=(recorder,))
    filled = np.zeros(len(orders))
    for seed_id, lanes, transition in recorder.steps:
        outcome = transition.outcome
        assert (outcome.filled >= 0.0).all() and (outcome.filled[~outcome.is_tick] == 0.0).all()
        assert (outcome.filled[outcome.volume == 0.0] == 0.0).all()
        if cap is not None:
            assert (outcome.filled <= cap * outcome.volume).all()
        filled[seed_id] += outcome.filled.sum(axis=-1)
        np.testing.assert_allclose(filled[seed_id] + outcome.remaining, orders.quantity[seed_id], rtol=2 * NOTHING_LEFT)
        assert (lanes.state.now <= orders.end_tick[seed_id]).all()
    np.testing.assert_allclose(episodes.metrics["filled_quantity"], filled, rtol=1e-12)
    if cap is not None:
        assert not (episodes.metrics["participation"] > cap * (1 + 1e-12)).any()


@pytest.mark.parametrize("cap", [None, 0.05])
@pytest.mark.parametrize("price", ["close", "bid_or_ask"])
def test_an_episode_is_the_same_to_the_bit_at_every_batch_size(thin, cap, price):
    orders = random_orders(thin, 60, seed=2)

    def results(num_lanes, seed_id):
        episodes = run(random_parts(thin, 4, cap, price), RandomActions(), orders, num_lanes, seed_id)
        columns = {"return": episodes.episode_return, "steps": episodes.num_steps} | episodes.metrics | episodes.component_sums
        return {name: column[np.argsort(seed_id)] for name, column in columns.items()}

    one_by_one = results(1, np.arange(len(orders)))
    for num_lanes in (2, 3, 7, 16, 33, len(orders), 100):
        together = results(num_lanes, np.random.default_rng(num_lanes).permutation(len(orders)))
        for name, column in together.items():
            assert column.tobytes() == one_by_one[name].tobytes(), (name, num_lanes)


def whole_days(store, count, seed=0, quantity=1000.0):
    """Return orders over whole sessions."""
    row = np.random.default_rng(seed).integers(0, store.num_rows, count)
    side = np.where(np.arange(count) % 2, 1.0, -1.0)
    return OrderSet(
        store,
        row=row,
        side=side,
        quantity=np.full(count, quantity),
        start_tick=np.zeros(count),
        end_tick=store.session_ticks[row],
    )


class Pace(Policy):
    """A constant multiple of the even pace."""

    def __init__(self, multiple):
        self.multiple = multiple

    def decide(self, reference, internal_state, mask, randomness):
        return Decision(action=np.full((len(first_array(reference)), 1), self.multiple, np.float32))


@pytest.mark.parametrize("ticks_per_step", [1, 2])
def test_the_twap_schedule_has_no_price_advantage(whole, ticks_per_step):
    # 26 and 14 ticks divide evenly: every tick of the window fills the same number of shares.
    simulator = FastSimulator(whole, ticks_per_step, None, "close")
    parts = EnvironmentParts(simulator, CurrentStepObservation(), TwapRelative(2.0), REWARDS)
    episodes = run(parts, Pace(1.0), whole_days(whole, 100), 100)
    assert (episodes.metrics["fill_rate"] == 1.0).all()
    assert np.abs(episodes.metrics["price_advantage_bps"]).max() < 1e4 * 1e-12
    assert np.abs(episodes.component_sums["price_advantage"]).max() < 1e4 * 1e-12
    assert (episodes.component_sums["terminal"] == 0.0).all()


def test_the_even_pace_by_ticks_has_no_price_advantage_in_windows_off_the_grid(whole):
    orders = random_orders(whole, 200, seed=5)
    simulator = FastSimulator(whole, 4, None, "close")
    state, alive = simulator.start(orders.take(np.arange(len(orders)))), np.arange(len(orders))
    advantage = np.full(len(orders), np.nan)
    while len(alive):
        view = simulator.view(state)
        stepped = simulator.step(state, view.remaining * view.step_ticks / view.ticks_left)
        advantage[alive] = simulator.metrics(stepped.state)["price_advantage_bps"]
        state, alive = take_lanes(stepped.state, ~stepped.terminated), alive[~stepped.terminated]
    assert np.abs(advantage).max() < 1e4 * 1e-12


def test_buying_and_selling_the_same_way_are_opposite(thin):
    orders = random_orders(thin, 100, seed=4)
    mirrored = OrderSet(
        thin, row=orders.row, side=-orders.side, quantity=orders.quantity, start_tick=orders.start_tick, end_tick=orders.end_tick
    )
    parts = random_parts(thin, 5, 0.1)
    one, other = (run(parts, RandomActions(), which, 32) for which in (orders, mirrored))
    for name in ("price_advantage_bps", "shortfall_bps", "slippage_arrival_bps", "slippage_vwap_bps"):
        np.testing.assert_array_equal(one.metrics[name], -other.metrics[name])
    np.testing.assert_array_equal(one.component_sums["price_advantage"], -other.component_sums["price_advantage"])
    np.testing.assert_array_equal(one.component_sums["concentration"], other.component_sums["concentration"])


def test_rewards_add_up_to_the_metrics(thin):
    orders = random_orders(thin, 200, seed=6, quantity_range=(1.0, 100000.0))
    episodes = run(random_parts(thin, 5, 0.1), RandomActions(), orders, 200)
    metrics = episodes.metrics
    nothing = metrics["filled_quantity"] == 0.0
    assert nothing.any() and (metrics["fill_rate"] == 1.0).any() and ((metrics["fill_rate"] < 1.0) & ~nothing).any()
    weighted = np.where(nothing, 0.0, metrics["fill_rate"] * metrics["price_advantage_bps"])
    np.testing.assert_allclose(episodes.component_sums["price_advantage"], weighted, atol=1e-6)
    np.testing.assert_allclose(episodes.component_sums["shortfall"], -metrics["shortfall_bps"], atol=1e-6)
    assert np.isnan(metrics["price_advantage_bps"][nothing]).all() and np.isnan(metrics["average_price"][nothing]).all()
    assert set(np.unique(episodes.component_sums["terminal"])) <= {-1.0, 0.0, 1.0}
    assert (episodes.component_sums["terminal"][nothing] == -1.0).all()


@st.composite
def pools(draw):
    numbers = st.one_of(st.just(0.0), st.floats(1e-3, 1e6), st.just(np.inf))
    num_ticks = draw(st.integers(1, 12))
    row = st.lists(numbers, min_size=num_ticks, max_size=num_ticks)
    rows = draw(st.lists(row, min_size=1, max_size=5))
    quantities = draw(st.lists(st.floats(0.0, 1e6), min_size=len(rows), max_size=len(rows)))
    return np.array(quantities), np.array(rows)


@settings(max_examples=300, derandomize=True)
@given(pool=pools())
def test_water_filling_is_even_and_fills_what_there_is_room_for(pool):
    quantity, capacity = pool
    filled = fills.water_fill(quantity, capacity)
    room = np.minimum(quantity, capacity.sum(axis=-1))
    np.testing.assert_allclose(filled.sum(axis=-1), room, rtol=1e-9, atol=1e-9)
    assert (filled >= 0.0).all() and (filled <= capacity).all()
    # Even: a tick that has room left is filled as high as any other.
    has_room = filled < capacity
    highest = np.broadcast_to(filled.max(axis=-1, keepdims=True), filled.shape)
    np.testing.assert_allclose(filled[has_room], highest[has_room], rtol=1e-9, atol=1e-9)


def history_parts(store):
    observation = FullHistoryObservation(store, history_features(store), 8, "today_and_previous")
    return random_parts(store, 8, 0.1, observation=observation)


def feature_parts(store):
    return random_parts(store, 8, None, "bid_or_ask", CurrentStepObservation(("close", "volume", "bid")))


class Peeking(CurrentStepObservation):
    """Planted: reads the tick at now, which is not over yet."""

    def interpret(self, view, status):
        observation = super().interpret(view, status)
        at = np.minimum(view.now, view.order.end_tick - 1)
        observation["features"][:, 0] = np.nan_to_num(view._store.array("close")[view.order.row, at])
        return observation


def peeking_parts(store):
    return random_parts(store, 8, None, "bid_or_ask", Peeking(("close",)))


@pytest.mark.parametrize("parts_of", [history_parts, feature_parts])
def test_the_laws_hold(thin, tmp_path, parts_of):
    orders = random_orders(thin, 40, seed=9)
    report = check_parts(
        parts_of(thin),
        orders,
        policy=RandomActions(),
        perturb_future=perturb_future(parts_of, orders, tmp_path),
        balance=shares_balance(parts_of(thin).simulator),
        seed_ids=[0, 5, 11],
    )
    assert {result.verdict for result in report.results} == {"holds"}, report


def test_looking_ahead_is_caught(thin, tmp_path):
    orders = random_orders(thin, 40, seed=9)
    with pytest.raises(LawError, match="no look-ahead"):
        check_no_look_ahead(peeking_parts(thin), orders, perturb_future(peeking_parts, orders, tmp_path), seed_ids=[0, 5])


def test_another_future_has_the_same_past_and_nothing_else_in_common(whole, tmp_path):
    row, tick = whole.row_of("X.I1", "2023-06-30"), 5
    other = store_with_other_future(whole, row, tick, tmp_path)
    assert other.fields == whole.fields and other.num_rows == whole.num_rows
    is_later = (whole.row_date > whole.row_date[row])[:, None] | (
        (whole.row_date == whole.row_date[row])[:, None] & (np.arange(whole.num_ticks) >= tick)
    )
    is_known = np.isfinite(whole.array("mark"))
    for name in whole.fields:
        is_same = whole.array(name) == other.array(name)
        assert is_same[~is_later].all() and not is_same[is_later & is_known].any(), name


def test_a_view_refuses_the_future(whole):
    simulator = FastSimulator(whole, 4, None, "close")
    view = simulator.view(simulator.start(whole_days(whole, 3).take(np.arange(3))))
    with pytest.raises(ContractError, match="cannot reach past now"):
        view.window("close", np.zeros(3, np.int64), 1)
    assert np.isnan(view.latest("close")).all()
    assert np.isnan(view.past("close", 3)).all()


def test_a_command_must_be_a_number_of_shares(whole):
    simulator = FastSimulator(whole, 4, None, "close")
    state = simulator.start(whole_days(whole, 3).take(np.arange(3)))
    for command in (np.array([1.0, -1.0, 1.0]), np.array([1.0, np.nan, 1.0]), np.ones((3, 1)), np.ones(2)):
        with pytest.raises(ContractError, match="command must"):
            simulator.step(state, command)
    assert DirectQuantity().action_space.shape == (1,)
    assert simulator.max_steps == -(-NUM_TICKS // 4)
