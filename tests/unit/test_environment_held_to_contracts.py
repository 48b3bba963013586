"""What the engine refuses of users' parts, so that nothing wrong is learned from in silence."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from rlcore.contracts import (
    ActionInterpreter,
    LaneActionInterpreter,
    LaneAuxiliaryInfo,
    LaneReward,
    LaneSimulator,
    LaneStateInterpreter,
    LaneStep,
    Reward,
    SequenceSeedSet,
    Simulator,
    StateInterpreter,
    WeightedReward,
)
from rlcore.environment import (
    EnvironmentParts,
    EnvWrapper,
    Passage,
    RandomActions,
    SameAction,
    evaluate,
    keep_transitions,
    looped_parts,
    run_episodes,
    run_steps,
    start_lanes,
    training_draw,
)
from rlcore.foundation.errors import ConfigError, ContractError
from rlcore.foundation.random_streams import RandomStreams

STARTS = np.arange(1, 7)
SEEDS = SequenceSeedSet(STARTS.tolist())
CHOICES = spaces.Discrete(3)


class Down(LaneSimulator):
    """Counts down by one from the initial number."""

    max_steps = 9

    def __init__(self, flags: Any = bool) -> None:
        self.flags = flags

    def start(self, seeds):
        return np.array(list(seeds), np.int64)

    def view(self, state):
        return state

    def step(self, state, command):
        after = state - 1
        return LaneStep(after, after, (after == 0).astype(self.flags), np.zeros(len(after), self.flags))


class Here(LaneStateInterpreter):
    observation_space = spaces.Box(0, 9, (1,), np.float64)

    def interpret(self, view, status):
        return view[:, None].astype(np.float64)


class Three(LaneActionInterpreter):
    action_space = CHOICES

    def interpret(self, view, action, status):
        return action


class One(LaneReward):
    def reward(self, outcome, status):
        return np.ones(len(outcome))


def lane_parts(**changed: Any) -> EnvironmentParts:
    parts = EnvironmentParts(Down(), Here(), Three(), WeightedReward({"one": (One(), 1.0)}))
    return replace(parts, **changed)


def episodes_of(parts: EnvironmentParts, num_lanes: int = 6, policy: Any = None):
    passage = Passage(RandomStreams(0), "train", num_lanes)
    ids = np.arange(len(SEEDS))
    return run_episodes(parts, policy or SameAction(CHOICES, 0), SEEDS, ids, ids * 0, passage, keep=keep_transitions)


def test_the_parts_of_this_file_are_good():
    assert episodes_of(lane_parts()).num_steps.tolist() == STARTS.tolist()


@pytest.mark.parametrize("flags", [np.int64, np.float64])
@pytest.mark.parametrize("num_lanes", [1, 6])
def test_flags_that_are_no_truth_values_pick_no_lanes(flags, num_lanes):
    with pytest.raises(ContractError, match=r"terminated of the simulator must be bool of shape \(lanes,\)"):
        episodes_of(lane_parts(simulator=Down(flags)), num_lanes)


class FloatsLater(Here):
    def interpret(self, view, status):
        return view[:, None] if status.step[0] == 0 else view[:, None] + 0.5


def test_observations_of_another_type_are_not_cut_to_the_first():
    with pytest.raises(ContractError, match=r"reference must be of one type .* was float64"):
        episodes_of(lane_parts(state_interpreter=FloatsLater()))


def test_rewards_of_integers_are_numbers_like_others():
    class HalfLater(LaneReward):
        def reward(self, outcome, status):
            return np.zeros(len(outcome), int) if status.step[0] == 1 else np.full(len(outcome), 0.5)

    rollout = episodes_of(lane_parts(reward=WeightedReward({"half": (HalfLater(), 1.0)}))).rollout
    assert rollout.reward.dtype == np.float64
    assert rollout.reward.sum() == 0.5 * (STARTS - 1).sum()


@pytest.mark.parametrize("value", [1.0, np.ones(1), np.ones((6, 1)), np.full(6, "1")])
def test_a_term_is_one_number_for_each_lane(value):
    class Odd(LaneReward):
        def reward(self, outcome, status):
            return value

    reward = WeightedReward({"one": (One(), 1.0), "odd": (Odd(), 1.0)})
    with pytest.raises(ContractError, match=r"reward term 'odd' must be numbers of shape \(lanes,\) = \(6,\), was"):
        episodes_of(lane_parts(reward=reward))


class Auxiliary(LaneAuxiliaryInfo):
    def __init__(self, first, later):
        self.first, self.later = first, later

    def collect(self, view, status):
        return {
            name: np.broadcast_to(value, (len(view), *np.shape(value))).copy()
            for name, value in (self.first if status.step[0] == 1 else self.later).items()
        }


@pytest.mark.parametrize(
    ("first", "later", "message"),
    [
        ({"a": 1}, {"a": 0.5}, r"auxiliary\['a'\] must be of one type"),
        ({"a": [1.0]}, {"a": [1.0, 2.0]}, r"auxiliary\['a'\] must be of one type and shape"),
        ({"a": 1.0}, {"b": 1.0}, r"auxiliary must have the same names at all steps, had \['b'\] after \['a'\]"),
        ({"a": 1.0}, {"a": 1.0, "b": 1.0}, "auxiliary must have the same names"),
    ],
)
def test_auxiliary_information_keeps_its_form(first, later, message):
    with pytest.raises(ContractError, match=message):
        episodes_of(lane_parts(auxiliary=Auxiliary(first, later)))


class Masked(Three):
    def __init__(self, mask):
        self.of = mask

    def mask(self, view, status):
        return self.of(len(view), status.step[0])


@pytest.mark.parametrize(
    "mask",
    [
        lambda lanes, step: np.ones((lanes, 1), bool),
        lambda lanes, step: np.ones((lanes, 4), bool),
        lambda lanes, step: np.ones((lanes, 3), np.int8),
        lambda lanes, step: np.ones(3, bool),
    ],
    ids=["short", "long", "int8", "one row"],
)
def test_masks_have_one_form(mask):
    with pytest.raises(ContractError, match=r"must be bool of shape \(lanes, actions\) = \(6, 3\), was"):
        episodes_of(lane_parts(action_interpreter=Masked(mask)))


def test_a_mask_that_leaves_nothing_names_the_seed():
    stuck = Masked(lambda lanes, step: np.arange(lanes)[:, None] * np.ones(3) != (2 if step == 1 else -1))
    with pytest.raises(ContractError, match="left none for seed 2 at step 1"):
        episodes_of(lane_parts(action_interpreter=stuck), policy=RandomActions(CHOICES))


def only_first(lanes, step):
    return None if step % 2 == 0 else np.tile([True, False, False], (lanes, 1))


def test_no_mask_at_a_step_means_that_all_is_possible_there():
    rollout = episodes_of(lane_parts(action_interpreter=Masked(only_first)), policy=RandomActions(CHOICES)).rollout
    alive, even = rollout.is_alive, (np.arange(len(rollout.is_alive)) % 2 == 0)[:, None]
    assert rollout.mask[alive & even].all()
    assert (rollout.mask[alive & ~even] == [True, False, False]).all()
    assert (rollout.action[alive & ~even] == 0).all() and (rollout.action[alive & even] > 0).any()


def test_no_mask_at_a_step_is_no_trouble_in_fragments():
    def draw(first, count):
        return training_draw(0, len(SEEDS), first, count)

    parts, policy, passage = (
        lane_parts(action_interpreter=Masked(only_first)),
        RandomActions(CHOICES),
        Passage(RandomStreams(0), "t", 2),
    )
    running = start_lanes(parts, policy, SEEDS, draw, passage)
    rollout = run_steps(parts, policy, SEEDS, draw, running, 12, passage).rollout
    assert (rollout.mask.all(-1) == (rollout.step % 2 == 0)).mean() > 0.5


# One-episode parts


class Walk(Simulator):
    def __init__(self, initial):
        self.left = initial

    def step(self, action):
        self.left -= 1

    def get_state(self):
        return self.left

    def done(self):
        return self.left <= 0


class Left(StateInterpreter):
    observation_space = spaces.Box(-9, 9, (1,), np.float32)

    def interpret(self, state, status):
        return np.array([state], np.float32)


class Any3(ActionInterpreter):
    action_space = CHOICES

    def interpret(self, state, action, status):
        return action


class Nothing(Reward):
    def reward(self, outcome, status):
        return 0.0


def walk_parts(simulator=Walk, action=None, reward=None, **settings):
    return looped_parts(simulator, Left(), action or Any3(), reward or Nothing(), **{"max_steps": 9, **settings})


def test_an_episode_that_is_over_at_its_start_is_not_stepped():
    seeds = SequenceSeedSet([2, 0, 1])
    table = evaluate(walk_parts(), SameAction(CHOICES, 0), seeds, RandomStreams(0), "t", 3, allow_failed="keep")
    assert table["status"].tolist() == ["ok", "failed", "ok"]
    assert "must not be over before its first step, was for the initial state 0" in table["error"][1]
    with pytest.raises(ContractError, match="must not be over before its first step"):
        EnvWrapper(walk_parts(), seeds).reset(options={"seed_id": 1})


@pytest.mark.parametrize("said", [None, "no", float("nan"), 1, [True]])
@pytest.mark.parametrize("name", ["done", "truncated"])
def test_an_end_is_true_or_false(said, name):
    simulator = type("Odd", (Walk,), {name: lambda self: said if self.left < 3 else False})
    with pytest.raises(ContractError, match=rf"{name}\(\) of Odd must be True or False, was"):
        episodes_of(walk_parts(simulator))


def test_numpys_truth_values_are_truth_values():
    simulator = type(
        "Numpys", (Walk,), {"done": lambda self: np.int64(self.left) <= 0, "truncated": lambda self: np.array(False)}
    )
    assert episodes_of(walk_parts(simulator)).num_steps.tolist() == STARTS.tolist()


@pytest.mark.parametrize("num_lanes", [1, 3])
def test_a_reward_that_writes_into_the_history_changes_nothing_that_the_policy_sees(num_lanes):
    class Spoils(Reward):
        def reward(self, outcome, status):
            status.observations[-1][...] = 7.0
            return 0.0

    rollout = episodes_of(walk_parts(reward=Spoils()), num_lanes).rollout
    np.testing.assert_array_equal(rollout.next_reference[rollout.is_alive][:, 0].max(), STARTS.max() - 1)


@pytest.mark.parametrize("mask", [np.ones(2, bool), np.ones(3), np.ones((1, 3), bool)])
def test_one_episode_masks_have_one_form(mask):
    class Odd(Any3):
        def mask(self, state, status):
            return mask

    with pytest.raises(ContractError, match=r"must be bool of shape \(actions,\) = \(3,\), was"):
        episodes_of(walk_parts(action=Odd()))


def test_a_large_max_steps_costs_nothing_until_episodes_are_long():
    assert episodes_of(walk_parts(max_steps=10**9)).num_steps.tolist() == STARTS.tolist()
    long = SequenceSeedSet([100, 3])
    ids = np.arange(2)
    passage = Passage(RandomStreams(0), "t", 1)
    far = type("Far", (Left,), {"observation_space": spaces.Box(0, 100, (1,), np.float32)})
    parts = looped_parts(Walk, far(), Any3(), Nothing(), max_steps=10**9)
    rollout = run_episodes(parts, SameAction(CHOICES, 0), long, ids, ids * 0, passage, keep=keep_transitions).rollout
    assert rollout.is_alive.shape == (100, 2)
    np.testing.assert_array_equal(rollout.reference[:, 0, 0], np.arange(100, 0, -1))


def test_a_simulator_that_changes_its_initial_state_changes_nobody_elses():
    class Greedy(Walk):
        def __init__(self, initial):
            initial["left"] += 2
            super().__init__(initial["left"])

    starts = [{"left": 1}, {"left": 2}]
    seeds = SequenceSeedSet(starts)
    tables = [evaluate(walk_parts(Greedy), SameAction(CHOICES, 0), seeds, RandomStreams(0), "t", 2) for _ in range(2)]
    assert tables[0]["num_steps"].tolist() == tables[1]["num_steps"].tolist() == [3, 4]
    assert starts == [{"left": 1}, {"left": 2}]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"state": Left}, "state_interpreter must be StateInterpreter, was <class"),
        ({"action": CHOICES}, "action_interpreter must be ActionInterpreter, was Discrete"),
        ({"reward": [Nothing()]}, r"reward must be Reward or Mapping, was \["),
        ({"reward": Nothing}, "reward must be Reward or Mapping, was <class"),
        ({"reward": {"a": Nothing()}}, r"reward term 'a' must be \(term, weight\), was <"),
        ({"reward": {"a": (Nothing(), None)}}, r"reward term 'a' must be \(term, weight\), was \("),
        ({"simulator": Walk(3)}, "simulator_fn must make a simulator of an initial state, was <"),
        ({"auxiliary": 1}, "auxiliary must be AuxiliaryInfo, was 1"),
    ],
)
def test_what_is_no_part_is_refused_at_once(given, message):
    parts = {"simulator": Walk, "state": Left(), "action": Any3(), "reward": Nothing(), "auxiliary": None, **given}
    with pytest.raises(ConfigError, match=message):
        looped_parts(
            parts["simulator"],
            parts["state"],
            parts["action"],
            parts["reward"],
            max_steps=9,
            auxiliary=parts["auxiliary"],
        )


def test_parts_say_which_they_are():
    class Further(Walk):
        def __init__(self, initial, more):
            super().__init__(initial + more)

    seen = [
        walk_parts(),
        walk_parts(partial(Further, more=2)),
        walk_parts(max_steps=10),
        walk_parts(at_max_steps="truncate"),
        walk_parts(action=type("Other", (Any3,), {})()),
        walk_parts(reward={"reward": (Nothing(), 2.0)}),
        walk_parts(reward=type("Other", (Nothing,), {})()),
        lane_parts(),
    ]
    described = [parts.describe() for parts in seen]
    assert all(one != other for at, one in enumerate(described) for other in described[:at])
    assert described[0] == walk_parts().describe()
    assert described[1]["simulator"].endswith("Further, over at max_steps")
    assert described[-1]["simulator"] == "Down"
