"""tianshou's own Collector sees every seed exactly once over a FiniteVectorEnv, whatever the lengths of the episodes."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass, replace

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from tianshou.data import Collector, VectorReplayBuffer

from rlcore.agents.finite_vector_env import FiniteVectorEnv
from rlcore.contracts import (
    LaneActionInterpreter,
    LaneReward,
    LaneSimulator,
    LaneStateInterpreter,
    LaneStep,
    SeedSet,
    WeightedReward,
)
from rlcore.environment.env_wrapper import EnvWrapper
from rlcore.environment.evaluation import evaluate
from rlcore.environment.parts import EnvironmentParts
from rlcore.environment.random_actions import SameAction
from rlcore.foundation.errors import ConfigError, ContractError, EvaluationError, SpaceError
from rlcore.foundation.random_streams import RandomStreams
from tests.environment_toys import SpendAction, looped_spend_parts, spend_parts, spend_seeds
from tests.tianshou_toy import always, without_compilation

uncompiled = pytest.fixture(without_compilation, scope="module", autouse=True)

LONGEST = 12


@dataclass(frozen=True, slots=True)
class Countdown:
    number: np.ndarray  # (lanes,) which seed
    left: np.ndarray  # (lanes,) steps


class CountdownSimulator(LaneSimulator):
    """An episode lasts as long as its seed says."""

    max_steps = LONGEST

    def start(self, seeds):
        return Countdown(*seeds.T)

    def view(self, state):
        return state

    def step(self, state, command):
        after = replace(state, left=state.left - 1)
        return LaneStep(after, after, after.left == 0, np.zeros(len(after.left), bool))

    def metrics(self, state):
        return {"number": state.number.astype(float)}


class CountdownObservation(LaneStateInterpreter):
    observation_space = spaces.Box(0, 1000, (2,), np.float32)

    def interpret(self, view, status):
        return np.stack([view.number, view.left], axis=-1)


class CountdownAction(LaneActionInterpreter):
    action_space = spaces.Discrete(2)

    def interpret(self, view, action, status):
        return action


class NumberOfSeed(LaneReward):
    def reward(self, outcome, status):
        return outcome.number.astype(np.float64)


class Lengths(SeedSet):
    def __init__(self, lengths) -> None:
        self.lengths = np.asarray(lengths, np.int64)

    def __len__(self):
        return len(self.lengths)

    def take(self, seed_ids):
        return np.stack([seed_ids, self.lengths[seed_ids]], axis=-1)

    @property
    def fingerprint(self):
        return repr(self.lengths.tolist())


def countdown_parts(**changed) -> EnvironmentParts:
    parts = {
        "simulator": CountdownSimulator(),
        "state_interpreter": CountdownObservation(),
        "action_interpreter": CountdownAction(),
        "reward": WeightedReward({"number": (NumberOfSeed(), 1.0)}),
    }
    return EnvironmentParts(**{**parts, **changed})


def collector_over(env):
    return Collector(always(env.action_space[0], 1), env, VectorReplayBuffer(300 * len(env), len(env)))


def one_pass(collector, seeds):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*should be larger than.*")  # more lanes than seeds
        return collector.collect(n_episode=len(seeds), reset_before_collect=True)


def check_exactly_once(lengths, num_lanes):
    seeds = Lengths(lengths)
    env = FiniteVectorEnv(countdown_parts(), seeds, num_lanes)
    collector = collector_over(env)
    stats = one_pass(collector, seeds)
    batch, _ = collector.buffer.sample(0)
    seed_id, counted = np.unique(batch.info.seed_id, return_counts=True)
    assert (seed_id.tolist(), counted.tolist()) == (list(range(len(lengths))), list(lengths))
    np.testing.assert_array_equal(batch.obs[:, 0], batch.info.seed_id)
    assert sorted(batch.info.seed_id[batch.terminated].tolist()) == seed_id.tolist()
    assert stats.n_collected_episodes == len(lengths) and sorted(stats.lens) == sorted(lengths)
    table = env.table
    assert table["seed_id"].tolist() == seed_id.tolist() == table["number"].tolist()
    assert table["num_steps"].tolist() == list(lengths)
    assert table["return"].tolist() == [number * length for number, length in enumerate(lengths)]
    # What the policy was asked about are the living episodes and nothing else: no filler ever reaches it.
    asked = np.concatenate(collector.policy.asked)
    wanted = [(number, left) for number, length in enumerate(lengths) for left in range(1, length + 1)]
    assert sorted(map(tuple, asked.tolist())) == sorted(wanted)


@settings(max_examples=80)
@given(lengths=st.lists(st.integers(1, LONGEST), min_size=1, max_size=14), num_lanes=st.integers(1, 18))
def test_every_seed_exactly_once_whatever_the_lengths(lengths, num_lanes):
    check_exactly_once(lengths, num_lanes)


def test_every_seed_exactly_once_in_all_small_cases():
    """All lengths of 1 to 3 steps of up to three seeds, and of 1 or 2 of four, in fewer, as many and more lanes."""
    for num_seeds in range(1, 5):
        for lengths in itertools.product((1, 2) if num_seeds == 4 else (1, 2, 3), repeat=num_seeds):
            for num_lanes in range(1, num_seeds + 2):
                check_exactly_once(lengths, num_lanes)


def test_many_seeds_in_many_lanes():
    lengths = np.minimum(np.random.default_rng(0).geometric(0.25, size=500), LONGEST)
    check_exactly_once(lengths.tolist(), 64)


@pytest.mark.parametrize("num_lanes", [1, 3, 7, 10, 16])
@pytest.mark.parametrize("form", [spend_parts, looped_spend_parts])
def test_the_table_is_that_of_an_evaluation(form, num_lanes):
    seeds = spend_seeds(10)
    env = FiniteVectorEnv(form(), seeds, num_lanes)
    collector = collector_over(env)
    stats = one_pass(collector, seeds)
    wanted = evaluate(form(), SameAction(SpendAction.action_space, 1), seeds, RandomStreams(0), "test", 4)
    assert set(env.table.columns) == set(wanted.columns) and env.table.figures == wanted.figures
    for name, column in wanted.columns.items():
        np.testing.assert_array_equal(env.table[name], column, err_msg=name)
    assert stats.returns.mean() == pytest.approx(wanted["return"].mean(), rel=1e-12)  # no bias to short episodes
    batch, _ = collector.buffer.sample(0)
    assert batch.obs.past.dtype == np.float32 and batch.obs.past.shape[1:] == (24,)
    assert (batch.obs_next.left[batch.terminated] == 0).all()
    np.testing.assert_array_equal(batch.truncated.sum(), wanted["is_truncated"].sum())


def test_observations_are_those_of_env_wrapper():
    seeds = spend_seeds(5)
    env = FiniteVectorEnv(spend_parts(), seeds, 2)
    collector = collector_over(env)
    one_pass(collector, seeds)
    batch, _ = collector.buffer.sample(0)
    wrapper = EnvWrapper(spend_parts(), seeds)
    for seed_id in range(5):
        rows = np.flatnonzero(batch.info.seed_id == seed_id)
        observation, _ = wrapper.reset(options={"seed_id": seed_id})
        for row in rows:
            for name in ("past", "left", "step"):
                np.testing.assert_array_equal(batch.obs[row][name], observation[name])
            observation, reward, terminated, truncated, _ = wrapper.step(1)
            np.testing.assert_array_equal(batch.obs_next[row].past, observation["past"])
            assert (batch.rew[row], batch.terminated[row], batch.truncated[row]) == (reward, terminated, truncated)


def test_passes_follow_each_other_and_are_the_same():
    seeds = spend_seeds(5)
    env = FiniteVectorEnv(spend_parts(), seeds, 3)
    collector = collector_over(env)
    one_pass(collector, seeds)
    first = env.table
    for _ in range(3):  # the Collector has begun the next pass by itself; beginning again is no harm
        collector.collect(n_episode=5)
        assert env.table is not first
        np.testing.assert_array_equal(env.table["return"], first["return"])
    collector.reset()
    collector.reset()
    collector.collect(n_episode=5)
    np.testing.assert_array_equal(env.table["return"], first["return"])


class SplitAction(LaneActionInterpreter):
    action_space = spaces.Dict({"fraction": spaces.Box(0, 1, (1,), np.float32), "wait": spaces.Discrete(2)})

    def interpret(self, view, action, status):
        return np.where(action["wait"] == 1, 0.0, action["fraction"][:, 0].astype(np.float64))


def test_nested_actions():
    seeds = spend_seeds(4)
    env = FiniteVectorEnv(spend_parts(action_interpreter=SplitAction()), seeds, 2)
    env.reset()
    *_, infos = env.step(np.array([{"fraction": np.array([0.5], np.float32), "wait": wait} for wait in (0, 1)]))
    assert [info["seed_id"] for info in infos] == [0, 1]
    with pytest.raises(SpaceError, match=r"action\['wait'\] must lie in \{0, …, 1\}, was 2"):
        env.step(np.array([{"fraction": np.array([0.5], np.float32), "wait": 2}] * 2))
    with pytest.raises(SpaceError, match="action must be a dict with keys"):
        env.step(np.zeros((2, 2)))


def test_what_is_handed_out_belongs_to_the_caller():
    env = FiniteVectorEnv(spend_parts(), spend_seeds(4), 2)
    observation, _ = env.reset()
    observation.past[:] = 99.0
    after, reward, *_ = env.step(np.array([1, 1]))
    kept = after.past.copy()
    after.past[:] = 77.0
    reward[:] = 5.0
    other = FiniteVectorEnv(spend_parts(), spend_seeds(4), 2)
    other.reset()
    again, true_reward, *_ = other.step(np.array([1, 1]))
    np.testing.assert_array_equal(again.past, kept)
    np.testing.assert_array_equal(env.step(np.array([1, 1]))[0].past, other.step(np.array([1, 1]))[0].past)
    assert (true_reward != 5.0).all()


# Wrong use: an error that says what to do, never a hang and never a seed twice.


def test_more_episodes_than_seeds_are_refused():
    for num_lanes in (1, 3, 5, 8):
        collector = collector_over(FiniteVectorEnv(countdown_parts(), Lengths([2, 1, 3, 2, 1]), num_lanes))
        collector.reset()
        with pytest.raises(ContractError, match=r"none is left for lane \d+\. .*collect n_episode=5 at once"):
            collector.collect(n_episode=9)


def test_steps_beyond_the_last_seed_are_refused():
    for num_lanes in (1, 3, 8):
        collector = collector_over(FiniteVectorEnv(countdown_parts(), Lengths([2, 1, 3, 2, 1]), num_lanes))
        collector.reset()
        with pytest.raises(ContractError, match="collect n_episode=5 at once"):
            collector.collect(n_step=24 * num_lanes)


def test_too_few_episodes_are_refused_when_the_next_pass_begins():
    env = FiniteVectorEnv(countdown_parts(), Lengths([2, 1, 3, 2, 1]), 2)
    collector = collector_over(env)
    collector.reset()
    with pytest.raises(ContractError, match="collect n_episode=5 at once, 3 of 5 episodes had ended"):
        collector.collect(n_episode=3)
    with pytest.raises(EvaluationError, match="3 of 5 episodes have ended"):
        _ = env.table


def test_a_few_steps_are_refused_when_the_next_pass_begins():
    env = FiniteVectorEnv(countdown_parts(), Lengths([2, 2, 3, 2, 1]), 2)
    collector = collector_over(env)
    collector.reset()
    assert collector.collect(n_step=4).n_collected_episodes == 2
    with pytest.raises(ContractError, match="2 of 5 episodes had ended when another pass began"):
        collector.reset()


def test_other_misuse():
    seeds = Lengths([2, 2, 3, 2])
    env = FiniteVectorEnv(countdown_parts(), seeds, 2)
    with pytest.raises(ContractError, match="a pass must begin with a reset of all lanes"):
        env.step(np.array([0, 0]))
    with pytest.raises(ContractError, match="a pass must begin with a reset of all lanes"):
        env.reset([0])
    with pytest.raises(EvaluationError, match="0 of 4 episodes have ended"):
        _ = env.table
    env.reset()
    with pytest.raises(ContractError, match="lane 1 has not: its seed would be lost"):
        env.reset(np.array([1]))
    with pytest.raises(ConfigError, match="reset must have no options, had seed"):
        env.reset(seed=3)
    with pytest.raises(ContractError, match="one action for each of 2 lanes, had 1"):
        env.step(np.array([0]))
    with pytest.raises(SpaceError, match="action must lie in"):
        env.step(np.array([0, 7]))
    env.step(np.array([0, 0]))
    env.step(np.array([0, 0]))  # both episodes end
    with pytest.raises(ContractError, match="lane 0 has none: reset it first"):
        env.step(np.array([0, 0]))
    with pytest.raises(ContractError, match="EnvWrapper"):
        env.render()
    with pytest.raises(ContractError, match="'spec' was to be set"):
        env.set_env_attr("spec", 1)
    assert env.seed(3) == [None, None] and len(env) == 2 and env.observation_space[1] == CountdownObservation.observation_space
    env.close()
    with pytest.raises(AssertionError, match="after close"):
        env.reset()
    for arguments in ((seeds, 0), (Lengths([]), 2)):
        with pytest.raises(ConfigError, match="must be at least 1"):
            FiniteVectorEnv(countdown_parts(), *arguments)


class TupleObservation(CountdownObservation):
    observation_space = spaces.Dict({"pair": spaces.Tuple((spaces.Discrete(3), spaces.Discrete(3)))})


def test_tuples_are_refused_because_tianshou_cannot_take_them():
    with pytest.raises(ConfigError, match=r"observation\['pair'\] must be an array or a dict .*: use a dict"):
        FiniteVectorEnv(countdown_parts(state_interpreter=TupleObservation()), Lengths([1]), 1)
