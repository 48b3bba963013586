"""Rewards of one-episode tasks: every component shows, weighted and unweighted; combinations nest; one reward twice works."""

import pickle

import numpy as np
import pytest
from gymnasium import spaces

from rlcore.contracts import (
    ActionInterpreter,
    LaneReward,
    LaneStatus,
    Reward,
    SequenceSeedSet,
    Simulator,
    StateInterpreter,
    WeightedReward,
)
from rlcore.environment import EnvWrapper, SameAction, evaluate, looped_parts
from rlcore.foundation.errors import ConfigError
from rlcore.foundation.random_streams import RandomStreams


class Climb(Simulator):
    """Three steps up: the state is the height; what a step costs is the outcome's second figure."""

    def __init__(self, initial):
        self.height, self.steps, self.effort = float(initial), 0, 0.0

    def step(self, action):
        self.height, self.steps, self.effort = self.height + action, self.steps + 1, action**2

    def get_state(self):
        return self.height

    def done(self):
        return self.steps == 3

    def outcome(self):
        return self.height, self.effort


class Height(StateInterpreter):
    observation_space = spaces.Box(-100, 100, (1,), np.float32)

    def interpret(self, state, status):
        return np.array([state], np.float32)


class Stride(ActionInterpreter):
    action_space = spaces.Discrete(4)

    def interpret(self, state, action, status):
        return float(action)


class HeightReward(Reward):
    def reward(self, outcome, status):
        return outcome[0]


class EffortReward(Reward):
    def __init__(self, scale=1.0):
        self.scale = scale

    def reward(self, outcome, status):
        return self.scale * outcome[1]


def table_of(reward, initial=10, action=2):
    parts = looped_parts(Climb, Height(), Stride(), reward, max_steps=3)
    policy = SameAction(parts.action_interpreter.action_space, action)
    return evaluate(parts, policy, SequenceSeedSet([initial]), RandomStreams(0), "test", 1)


def steps_of(reward, initial=10, action=2):
    env = EnvWrapper(looped_parts(Climb, Height(), Stride(), reward, max_steps=3), SequenceSeedSet([initial]))
    env.reset(seed=0)
    steps = []
    while not steps or not steps[-1][2]:
        steps.append(env.step(action))
    return [(reward, info) for _, reward, _, _, info in steps]


# From 10 by strides of 2: heights 12, 14, 16 (sum 42); effort 4 a step (sum 12).


def test_both_forms_of_every_component_show_in_the_table_by_hand():
    table = table_of({"height": (HeightReward(), 0.5), "effort": (EffortReward(), -2.0)})
    assert table["component/height"][0] == 42 and table["component/effort"][0] == 12
    assert table["reward/height"][0] == 21 and table["reward/effort"][0] == -24
    assert table["return"][0] == -3


def test_both_forms_of_every_component_show_at_every_step():
    for height, (reward, info) in zip(
        [12, 14, 16], steps_of({"h": (HeightReward(), 0.5), "e": (EffortReward(), 0.0)}), strict=True
    ):
        assert (info["component/h"], info["reward/h"]) == (height, 0.5 * height)
        assert (info["component/e"], info["reward/e"]) == (4, 0)  # weight 0: what it would have been can still be seen
        assert reward == info["reward/h"] + info["reward/e"]


def test_combinations_nest_and_all_leaves_add_up():
    """Q13: a combination inside a combination takes part with its own terms, and weights multiply."""
    walking = {
        "height": (HeightReward(), 0.5),
        "toll": ({"effort": (EffortReward(), 3.0), "again": (EffortReward(2.0), 1.0)}, -1.0),
    }
    table = table_of({"walking": (walking, 2.0), "bonus": (EffortReward(), 0.25)})
    wanted = {"walking.height": 1.0 * 42, "walking.toll.effort": -6.0 * 12, "walking.toll.again": -2.0 * 24, "bonus": 0.25 * 12}
    assert {name.removeprefix("reward/"): float(table[name][0]) for name in table.figures if name.startswith("reward/")} == wanted
    assert table["component/walking.toll.again"][0] == 24
    assert table["return"][0] == sum(wanted.values())


def test_the_same_reward_twice_under_two_names():
    """D9, Q13: one instance, or two of one class, never collide: names belong to the combination."""
    one = EffortReward()
    table = table_of({"gently": (one, 1.0), "hard": (one, -3.0), "third": (EffortReward(), 1.0)})
    assert [table[f"component/{name}"][0] for name in ("gently", "hard", "third")] == [12, 12, 12]
    assert table["return"][0] == 12 - 36 + 12


def test_a_single_reward_and_none():
    assert table_of(HeightReward())["component/reward"][0] == table_of(HeightReward())["return"][0] == 42
    assert table_of(None)["return"][0] == 0  # as in QlibRL, where a backtest needs no reward
    assert [reward for reward, _ in steps_of(None)] == [0, 0, 0]


def test_rewards_of_earlier_steps_are_in_the_status():
    class Remembering(Reward):
        def __init__(self):
            self.seen = []

        def reward(self, outcome, status):
            self.seen.append(list(status.rewards))
            return 1.0

    remembering = Remembering()
    table_of({"a": (remembering, 2.0), "b": ({"c": (EffortReward(), 1.0)}, 0.5)})
    assert remembering.seen == [[], [4.0], [4.0, 4.0]]  # 2·1 + 0.5·4


class LaneHeight(LaneReward):
    def reward(self, outcome, status):
        return outcome


def test_lane_rewards_nest_as_objects_and_as_mappings():
    inner = WeightedReward({"x": (LaneHeight(), 2.0), "y": (LaneHeight(), -0.5)})
    as_object = WeightedReward({"inner": (inner, 3.0), "z": (LaneHeight(), 1.0)})
    as_mapping = WeightedReward({"inner": ({"x": (LaneHeight(), 2.0), "y": (LaneHeight(), -0.5)}, 3.0), "z": (LaneHeight(), 1.0)})
    assert as_object.weights == as_mapping.weights == {"inner.x": 6.0, "inner.y": -1.5, "z": 1.0}
    outcome = np.array([1.0, 2.0])
    components = as_object.components(outcome, LaneStatus(*np.zeros((3, 2), np.int64), np.zeros(2, bool)))
    assert list(components) == ["inner.x", "inner.y", "z"]
    np.testing.assert_array_equal(as_object.total(components), 5.5 * outcome)
    assert pickle.loads(pickle.dumps(as_object)).weights == as_object.weights  # worker processes get their own


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"a": ({}, 1.0)}, "reward 'a' must have at least one named term, had none"),
        ({"a": ({"b": (HeightReward(), np.inf)}, 1.0)}, "weight of reward term 'a.b' must be finite, was inf"),
        ({"a": ({"b": (HeightReward(), 1.0)}, 1.0), "a.b": (HeightReward(), 1.0)}, "'a.b' stands twice: rename one"),
        ({}, "reward must have at least one named term, had none"),
    ],
)
def test_senseless_combinations_are_refused(terms, message):
    with pytest.raises(ConfigError, match=message):
        looped_parts(Climb, Height(), Stride(), terms, max_steps=3)
    with pytest.raises(ConfigError, match=message):
        WeightedReward(terms)
