"""One-episode parts as QlibRL's users know them, lifted to lanes."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from rlcore.contracts import ActionInterpreter, Reward, SequenceSeedSet, Simulator, StateInterpreter
from rlcore.environment.engine import advance, begin
from rlcore.environment.evaluation import evaluate
from rlcore.environment.looped import looped_parts
from rlcore.environment.random_actions import RandomActions, SameAction
from rlcore.environment.rollout import Passage, keep_transitions, run_episodes
from rlcore.foundation.errors import ConfigError, ContractError, SpaceError
from rlcore.foundation.random_streams import RandomStreams
from tests.environment_toys import SpendAction, looped_spend_parts, spend_parts, spend_seeds

SEEN = []


class Climb(Simulator):
    """Climb to a height, an initial state of any type; three steps at most."""

    def __init__(self, initial):
        self.goal, self.height, self.steps = initial["goal"], 0, 0

    def step(self, action):
        self.height += action
        self.steps += 1

    def get_state(self):
        return {"height": self.height}

    def done(self):
        return self.height >= self.goal

    def truncated(self):
        return not self.done() and self.steps == 3

    def metrics(self):
        return {"above": self.height - self.goal} if self.done() else {}


class Height(StateInterpreter):
    observation_space = spaces.Box(0, 20, (1,), np.float32)

    def interpret(self, state, status):
        SEEN.append(("observe", status.step, len(status.observations), len(status.actions), len(status.rewards), status.is_done))
        return np.array([state["height"]], np.float32)


class OneOrTwo(ActionInterpreter):
    action_space = spaces.Discrete(2)

    def interpret(self, state, action, status):
        SEEN.append(("act", status.step, len(status.observations), len(status.actions), len(status.rewards), status.is_done))
        return int(action) + 1


class PerStep(Reward):
    def reward(self, outcome, status):
        SEEN.append(("reward", status.step, len(status.observations), len(status.actions), len(status.rewards), status.is_done))
        return 10.0 * outcome["height"] + status.initial_state["goal"]


class Last(Reward):
    """Reads the histories: the last total before this step."""

    def reward(self, outcome, status):
        return status.rewards[-1] if status.rewards else 0.0


def climb_parts(reward=None, **changed):
    return looped_parts(Climb, Height(), OneOrTwo(), reward or PerStep(), **{"max_steps": 3, **changed})


GOALS = SequenceSeedSet([{"goal": 2}, {"goal": 5}, {"goal": 9}])


def run(parts, action=0, seeds=GOALS, num_lanes=2):
    seed_id = np.arange(len(seeds))
    passage = Passage(RandomStreams(0), "test", num_lanes)
    policy = SameAction(parts.action_interpreter.action_space, action)
    return run_episodes(parts, policy, seeds, seed_id, seed_id * 0, passage, keep=keep_transitions)


def test_parts_see_steps_and_histories_in_qlibrls_order():
    SEEN.clear()
    parts = climb_parts()
    lanes = begin(parts, GOALS.take(np.array([1])), np.array([1]), np.array([0]))
    advance(parts, lanes, np.array([1]))
    #        what      step  observations actions rewards done
    assert SEEN == [
        ("observe", 0, 0, 0, 0, False),
        ("act", 0, 1, 1, 0, False),
        ("observe", 1, 1, 1, 0, False),
        ("reward", 1, 2, 1, 0, False),
    ]


def test_episodes_end_by_done_or_truncated_and_rewards_are_those_of_the_formula():
    episodes = run(climb_parts(), action=0)
    # Heights 1, 2 | 1, 2, 3 | 1, 2, 3 against goals 2, 5, 9.
    assert episodes.num_steps.tolist() == [2, 3, 3]
    assert episodes.is_truncated.tolist() == [False, True, True]
    assert episodes.episode_return.tolist() == [30 + 2 * 2, 60 + 3 * 5, 60 + 3 * 9]
    assert episodes.rollout.reference[:, 0, 0].tolist() == [0.0, 1.0, 0.0]  # the third step was not taken
    np.testing.assert_array_equal(episodes.metrics["above"], [0.0, np.nan, np.nan])


def test_reward_histories_hold_the_weighted_total():
    episodes = run(climb_parts({"per_step": (PerStep(), 0.5), "last": (Last(), 1.0)}), action=0, num_lanes=3)
    # Goal 2: 0.5 * 12 = 6, then 0.5 * 22 + 6 = 17.
    assert episodes.rollout.reward[:2, 0].tolist() == [6.0, 17.0]
    assert episodes.component_sums["last"][0] == 6.0


def test_a_looped_state_is_stepped_once():
    parts = climb_parts()
    lanes = begin(parts, GOALS.take(np.array([1, 2])), np.array([1, 2]), np.zeros(2, np.int64))
    advance(parts, lanes, np.array([1, 1]))
    with pytest.raises(ContractError, match="a looped state must be stepped once, lane 0 was at step 0"):
        advance(parts, lanes, np.array([1, 1]))


def test_asking_an_interpreter_twice_leaves_the_histories_alone():
    parts = climb_parts()
    lanes = begin(parts, GOALS.take(np.array([1])), np.array([1]), np.array([0]))
    for _ in range(3):
        parts.state_interpreter.interpret(lanes.view, lanes.status)
        parts.action_interpreter.interpret(lanes.view, np.array([1]), lanes.status)
    status = lanes.view.status[0]
    assert len(status.observations) == 1 and status.actions == [1]


def test_looped_and_lane_forms_of_a_task_give_the_same_table():
    seeds, policy = spend_seeds(20), RandomActions(SpendAction.action_space)
    tables = [evaluate(parts, policy, seeds, RandomStreams(3), "test", 7) for parts in (spend_parts(), looped_spend_parts())]
    assert list(tables[0].columns) == list(tables[1].columns)
    for name in tables[0].columns:
        np.testing.assert_array_equal(tables[0][name], tables[1][name])


class Far(Height):
    observation_space = spaces.Dict({"inner": spaces.Tuple((spaces.Box(0, 1, (1,), np.float32), spaces.Discrete(3)))})

    def interpret(self, state, status):
        return {"inner": (np.array([0.5], np.float32), state["height"])}


def test_an_observation_outside_its_space_names_the_sub_space_the_value_and_the_bound():
    parts = looped_parts(Climb, Far(), OneOrTwo(), PerStep(), max_steps=3)
    with pytest.raises(SpaceError, match=r"observation\['inner'\]\[1\] must lie in \{0, …, 2\}, was 4"):
        run(parts, action=1)


class Mixed(StateInterpreter):
    observation_space = spaces.Dict({"flag": spaces.MultiBinary(2), "name": spaces.Text(5), "count": spaces.Discrete(9)})

    def interpret(self, state, status):
        return {"flag": [0, 1], "name": "up", "count": state["height"]}


def test_spaces_of_many_kinds_are_stacked():
    parts = looped_parts(Climb, Mixed(), OneOrTwo(), PerStep(), max_steps=3)
    lanes = begin(parts, GOALS.take(np.array([0, 1])), np.array([0, 1]), np.zeros(2, np.int64))
    assert lanes.reference["flag"].dtype == np.int8 and lanes.reference["flag"].tolist() == [[0, 1], [0, 1]]
    assert lanes.reference["name"].tolist() == ["up", "up"]
    assert lanes.reference["count"].dtype == np.int64


def test_an_episode_longer_than_max_steps_is_an_error_that_says_so():
    with pytest.raises(ContractError, match=r"episode of seed 0 must end within max_steps = 1 steps.*at_max_steps: truncate"):
        run(climb_parts(max_steps=1), action=0)
    with pytest.raises(ConfigError, match="max_steps must be at least 1, was 0"):
        climb_parts(max_steps=0)


@pytest.mark.parametrize("value", ["1", np.ones(1), [1.0], None, 1j])
def test_a_reward_or_metric_that_is_no_number_is_named(value):
    class Odd(Reward):
        def reward(self, outcome, status):
            return value

    class Odder(Climb):
        def metrics(self):
            return {"above": value}

    with pytest.raises(ContractError, match="reward of Odd must be one number, was"):
        run(climb_parts(Odd()))
    parts = looped_parts(Odder, Height(), OneOrTwo(), PerStep(), max_steps=3)
    with pytest.raises(ContractError, match="metric 'above' must be one number, was"):
        run(parts)


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2), np.array(2), np.int64(2)])
def test_numbers_of_every_kind_are_rewards(value):
    class Two(Reward):
        def reward(self, outcome, status):
            return value

    rollout = run(climb_parts(Two())).rollout
    assert set(rollout.reward[rollout.is_alive]) == {2.0}
