"""QlibRL's faults that no case of its own shows (the project's list, Q1-Q22, D1-D31), each where it would show."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlcore.contracts import ActionInterpreter, Reward, SequenceSeedSet, Simulator, StateInterpreter, WeightedReward
from rlcore.contracts.policy import Decision, Policy
from rlcore.environment import looped_parts
from rlcore.environment.evaluation import evaluate
from rlcore.environment.parts import EnvironmentParts
from rlcore.environment.random_actions import RandomActions
from rlcore.execution.actions import CategoricalFractions, TwapRelative
from rlcore.execution.backtest import run_backtest
from rlcore.execution.baselines import build_baseline
from rlcore.execution.observations import CurrentStepObservation
from rlcore.execution.orders import OrderSet
from rlcore.execution.rewards import ConcentrationPenalty, PriceAdvantageReward
from rlcore.execution.simulator import FastSimulator
from rlcore.foundation.errors import EvaluationError, SpaceError
from rlcore.foundation.random_streams import RandomStreams
from tests.execution_market import NUM_TICKS, random_bars, random_orders, store_of

STREAMS = RandomStreams(1)
FRACTIONS = (0.0, 0.5, 1.0)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return store_of(random_bars(), tmp_path_factory.mktemp("market"))


class Always(Policy):
    def __init__(self, action):
        self.action = np.asarray(action)

    def decide(self, reference, internal_state, mask, randomness):
        count = len(reference["private"])
        return Decision(action=np.broadcast_to(self.action, (count, *self.action.shape)).copy())


def execution_parts(store, actions=None, **terms):
    reward = WeightedReward(terms or {"pa": (PriceAdvantageReward(), 1.0)})
    simulator = FastSimulator(store, NUM_TICKS // 2, None, "close")
    return EnvironmentParts(simulator, CurrentStepObservation(), actions or CategoricalFractions(FRACTIONS), reward)


def whole_days(store, side):
    row = np.array([store.row_of(f"X.I{number}", "2023-06-30") for number in range(3)])
    return OrderSet(store, row=row, side=[side] * 3, quantity=[100.0] * 3, start_tick=[0] * 3, end_tick=[NUM_TICKS] * 3)


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_a_forced_completion_earns_what_its_fills_are_worth(store, side):
    """Q4: the agent asks for nothing, the last step fills everything; by intention that would be worth 0."""
    orders = whole_days(store, side)
    table = evaluate(execution_parts(store), Always(0), orders, STREAMS, "test", 3)
    day = store.array("close")[orders.row]
    wanted = side * (1 - day[:, NUM_TICKS // 2 :].mean(axis=1) / day.mean(axis=1)) * 1e4
    assert (np.abs(wanted) > 1.0).all()
    np.testing.assert_allclose(table["return"], wanted, rtol=1e-9)
    np.testing.assert_allclose(table["price_advantage_bps"], wanted, rtol=1e-9)


def test_one_term_may_stand_twice_under_two_names(store):
    """Q13, D9: components need no environment, collide with nobody, and are told without their weight."""
    term = PriceAdvantageReward()
    parts = execution_parts(store, plain=(term, 1.0), again=(term, -0.25), crowd=(ConcentrationPenalty(), 2.0))
    table = evaluate(parts, Always(1), whole_days(store, 1.0), STREAMS, "test", 2)
    np.testing.assert_array_equal(table["component/plain"], table["component/again"])
    np.testing.assert_array_equal(table["reward/again"], -0.25 * table["component/plain"])
    total = 0.75 * table["component/plain"] + 2.0 * table["component/crowd"]
    np.testing.assert_allclose(table["return"], total, rtol=1e-12)


class Counting(Simulator):
    """Ends after two steps; ``raises`` says where user code raises StopIteration, for the initial state 3."""

    raises = ""

    def __init__(self, initial):
        self.initial, self.steps = initial, 0
        self._stumble("at the start")

    def step(self, action):
        self.steps += 1
        self._stumble("in a step")

    def get_state(self):
        return self.initial

    def done(self):
        return self.steps == 2

    def _stumble(self, place):
        if self.initial == 3 and self.raises == place:
            raise StopIteration


class StopsAtTheStart(Counting):
    raises = "at the start"


class StopsInAStep(Counting):
    raises = "in a step"


class Shown(StateInterpreter):
    """The observation is the same whatever the state."""

    observation_space = None

    def __init__(self, shown, space):
        self.shown, self.observation_space = shown, space

    def interpret(self, state, status):
        return self.shown


class OneAction(ActionInterpreter):
    action_space = spaces.Discrete(1)

    def interpret(self, state, action, status):
        return action


class OnePerStep(Reward):
    def reward(self, outcome, status):
        return 1.0


class StoppingSeeds(SequenceSeedSet):
    """A data set that fails for one seed the way an exhausted iterator does."""

    def take(self, seed_ids):
        if 3 in np.asarray(seed_ids):
            raise StopIteration
        return super().take(seed_ids)


def counting_parts(simulator=Counting, shown=None, space=None):
    space = space or spaces.Box(0.0, 1.0, (1,), np.float32)
    observation = np.zeros(1, np.float32) if shown is None else shown
    return looped_parts(simulator, Shown(observation, space), OneAction(), OnePerStep(), max_steps=2)


def run_all(parts, seeds, allow_failed="refuse"):
    return evaluate(parts, RandomActions(OneAction.action_space), seeds, STREAMS, "test", 4, allow_failed=allow_failed)


@pytest.mark.parametrize("bad", ["simulator at the start", "simulator in a step", "seeds"])
def test_stop_iteration_of_user_code_is_a_failure_and_no_end_of_the_seeds(bad):
    """D4, Q15: in QlibRL it means "no more seeds": orders are dropped and the run ends well."""
    simulator = {"simulator at the start": StopsAtTheStart, "simulator in a step": StopsInAStep}.get(bad, Counting)
    seeds = (StoppingSeeds if bad == "seeds" else SequenceSeedSet)(list(range(9)))
    table = run_all(counting_parts(simulator), seeds, "keep")
    assert table["seed_id"].tolist() == list(range(9))
    assert np.flatnonzero(table.is_failed).tolist() == [3]
    assert np.nansum(table["return"]) == 2.0 * 8
    with pytest.raises(EvaluationError, match="seed 3 raised"):
        run_all(counting_parts(simulator), seeds)


@pytest.mark.parametrize(
    ("shown", "space"),
    [
        (np.full((2, 2), 255, np.uint8), spaces.Box(0, 255, (2, 2), np.uint8)),
        (np.array([np.iinfo(np.int64).max]), spaces.Box(0, np.iinfo(np.int64).max, (1,), np.int64)),
        (np.array([np.inf], np.float32), spaces.Box(-np.inf, np.inf, (1,), np.float32)),
    ],
    ids=["white picture", "largest integer", "infinity"],
)
def test_no_observation_means_the_end(shown, space):
    """Q14, D22: in QlibRL an observation of the largest number of its type ends the worker."""
    table = run_all(counting_parts(shown=shown, space=space), SequenceSeedSet(list(range(9))))
    assert table["num_steps"].tolist() == [2] * 9 and table["return"].tolist() == [2.0] * 9


def test_an_unknown_observation_is_an_error_and_not_the_end():
    """Q14: NaN lies in no Box; it is refused by name."""
    parts = counting_parts(shown=np.array([np.nan], np.float32), space=spaces.Box(-np.inf, np.inf, (1,), np.float32))
    with pytest.raises(EvaluationError, match=r"seed 0 raised .*SpaceError") as caught:
        run_all(parts, SequenceSeedSet(list(range(9))))
    assert isinstance(caught.value.__cause__, SpaceError)


def test_an_evaluation_neither_draws_from_nor_moves_global_generators(store):
    """Q15, D19: rows stand in the order of the seeds and are the same whatever the global generators say."""
    orders = random_orders(store, 40)
    parts = execution_parts(store)
    tables = []
    for seed in (0, 1):
        np.random.seed(seed)  # noqa: NPY002  # the global generator is what is tested
        torch.manual_seed(seed)
        before = np.random.get_state()[1].tobytes(), torch.get_rng_state().numpy().tobytes()  # noqa: NPY002  # as above
        tables.append(evaluate(parts, RandomActions(parts.action_interpreter.action_space), orders, STREAMS, "test", 16))
        assert before == (np.random.get_state()[1].tobytes(), torch.get_rng_state().numpy().tobytes())  # noqa: NPY002  # as above
    assert tables[0]["seed_id"].tolist() == list(range(len(orders)))
    for name in tables[0].columns:
        np.testing.assert_array_equal(tables[0][name], tables[1][name])


def test_training_and_backtest_speak_of_one_unit(store):
    """Q18: QlibRL multiplies the price advantage by 1e4 in one of the two."""
    orders = random_orders(store, 40)
    parts = execution_parts(store)
    immediate = build_baseline("immediate", parts, store)
    trained = evaluate(immediate.parts, immediate.policy, orders, STREAMS, "validation", 16)
    frame = run_backtest(parts, {}, orders, ("immediate",), num_lanes=16, root_seed=0).frame
    for name in ("price_advantage_bps", "fill_rate", "shortfall_bps", "return"):
        np.testing.assert_array_equal(frame[name], trained[name])


@pytest.mark.parametrize("multiple", [0.0, 0.5, 1.0])
def test_the_relative_pace_is_finite_in_every_step_and_ends_with_the_window(store, multiple):
    """Q20, D7: the number of steps left never reaches 0 before the window does, wherever the window lies on the grid."""
    orders = random_orders(store, 200, seed=3)
    simulator, action = FastSimulator(store, 4, None, "close"), np.array([multiple], np.float32)
    pace = TwapRelative(1.0)
    for order in range(len(orders)):
        state, is_over = simulator.start(orders.take(np.array([order]))), False
        while not is_over:
            view = simulator.view(state)
            asked = pace.interpret(view, action[None], None)[0]
            steps_left = view.num_steps[0] - view.step[0]
            assert asked == pytest.approx(multiple * view.remaining[0] / steps_left, rel=1e-12) and steps_left >= 1
            stepped = simulator.step(state, np.array([asked]))
            state, is_over = stepped.state, bool(stepped.terminated[0])
            assert stepped.outcome.is_last[0] == (steps_left == 1)


def test_a_step_may_be_one_tick(store):
    """D28: QlibRL takes a step of one tick for an empty one, so that nothing can decide at the data's own frequency."""
    orders = whole_days(store, -1.0)
    parts = EnvironmentParts(
        FastSimulator(store, 1, None, "close"),
        CurrentStepObservation(),
        TwapRelative(1.0),
        WeightedReward({"pa": (PriceAdvantageReward(), 1.0)}),
    )
    table = evaluate(parts, Always(np.ones(1, np.float32)), orders, STREAMS, "test", 2)
    assert (table["num_steps"] == NUM_TICKS).all() and (table["fill_rate"] == 1.0).all()
    assert np.abs(table["price_advantage_bps"]).max() < 1e-8


def test_a_market_is_nobody_elses(store, tmp_path):
    """D23: QlibRL caches without the source in the key, so that a market of doubled prices gets the first one's TWAP."""
    bars = random_bars()
    bars[["open", "high", "low", "close"]] *= 2.0
    doubled = store_of(bars, tmp_path)
    twaps = []
    for market in (store, doubled, store):
        table = evaluate(execution_parts(market), Always(1), whole_days(market, 1.0), STREAMS, "test", 2)
        twaps.append(table["window_twap"])
    np.testing.assert_array_equal(twaps[0], twaps[2])
    np.testing.assert_allclose(twaps[1], 2.0 * twaps[0], rtol=1e-12)
