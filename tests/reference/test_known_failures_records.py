"""Failures that others have met in what is kept of episodes (the project's list T1-T66), where they would show with us.

``coverage.yaml`` says which test covers which; those of this file had no other.
"""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from gymnasium import spaces

from rlcore.contracts import Decision, Policy, SequenceSeedSet, Simulator, StateInterpreter
from rlcore.environment import EnvWrapper, evaluate, looped_parts
from tests.known_failure_tasks import RANDOM, STREAMS, Chooses, Paid, Shows, steps_of, whole_episodes

# What is handed out stays what it was.


class OneBuffer(Simulator):
    """Counts in an array of its own, which it hands out again and again, as many environments do."""

    def __init__(self, initial):
        self.buffer = np.array([initial, 0], np.float32)

    def step(self, action):
        self.buffer[1] += 1

    def get_state(self):
        return self.buffer

    def done(self):
        return self.buffer[1] == 3

    def outcome(self):
        return 1.0


class LooksBack(Shows):
    """Adds what the history says was seen first."""

    def interpret(self, state, status):
        if status.observations:
            assert [seen[1] for seen in status.observations[: status.step]] == list(range(status.step))
        return state


def one_buffer_parts():
    return looped_parts(OneBuffer, LooksBack(spaces.Box(0, 100, (2,), np.float32)), Chooses(), Paid(), max_steps=3)


@pytest.mark.parametrize("num_lanes", [1, 4])
def test_a_buffer_that_is_written_again_does_not_change_what_was_seen(num_lanes):
    """T52: the pair (observation, action) must not become (next observation, action), with one lane either."""
    seeds = SequenceSeedSet([7, 8, 9, 10])
    rollout = whole_episodes(one_buffer_parts(), RANDOM, seeds, num_lanes).rollout
    np.testing.assert_array_equal(rollout.reference[..., 1], [[0] * 4, [1] * 4, [2] * 4])
    np.testing.assert_array_equal(rollout.next_reference[..., 1], [[1] * 4, [2] * 4, [3] * 4])
    (fragment,) = steps_of(one_buffer_parts(), RANDOM, seeds, num_lanes, 6)
    np.testing.assert_array_equal(fragment.rollout.reference[:, 0, 1], [0, 1, 2, 0, 1, 2])
    np.testing.assert_array_equal(fragment.rollout.next_reference[:, 0, 1], [1, 2, 3, 1, 2, 3])


class Precise(Simulator):
    """Numbers that a smaller type cannot hold."""

    def __init__(self, initial):
        self.taken = 0

    def step(self, action):
        self.taken += 1

    def get_state(self):
        return {"third": np.float64(1 / 3), "large": np.int64(2**53 + 1), "small": np.float32(0.1)}

    def done(self):
        return self.taken == 3

    def outcome(self):
        return 2.0**24 + 1.0  # float32 would make it 2**24


PRECISE = spaces.Dict(
    {
        "third": spaces.Box(0, 1, (), np.float64),
        "large": spaces.Box(0, 2**62, (), np.int64),
        "small": spaces.Box(0, 1, (), np.float32),
    }
)


@pytest.mark.parametrize("num_lanes", [1, 3])
def test_no_number_is_squeezed_into_a_smaller_type(num_lanes):
    """T53: observations have the types of their spaces, rewards are float64."""
    parts = looped_parts(Precise, Shows(PRECISE), Chooses(), Paid(), max_steps=3)
    episodes = whole_episodes(parts, RANDOM, SequenceSeedSet([0, 1, 2]), num_lanes)
    kept = episodes.rollout.reference
    assert {name: leaf.dtype for name, leaf in kept.items()} == {name: space.dtype for name, space in PRECISE.spaces.items()}
    assert (kept["third"] == 1 / 3).all() and (kept["large"] == 2**53 + 1).all() and (kept["small"] == np.float32(0.1)).all()
    assert episodes.rollout.reward.dtype == np.float64  # or the next line would compare as float32, and always agree
    assert (episodes.rollout.reward == 2.0**24 + 1.0).all() and (episodes.episode_return == 3 * (2.0**24 + 1.0)).all()
    env = EnvWrapper(parts, SequenceSeedSet([0]), root=0)
    observation, _ = env.reset()
    assert observation["large"] == 2**53 + 1 and observation["large"].dtype == np.int64
    assert env.step(0)[1] == 2.0**24 + 1.0


class ShowsNothing(StateInterpreter):
    observation_space = spaces.Dict({})

    def interpret(self, state, status):
        return {}


def test_an_observation_of_nothing_is_an_observation():
    """D22: an empty dict counts as the end of the seeds in QlibRL."""
    parts = looped_parts(OneBuffer, ShowsNothing(), Chooses(), Paid(), max_steps=3)
    table = evaluate(parts, RANDOM, SequenceSeedSet([7, 8, 9]), STREAMS, "test", 2)
    assert table["num_steps"].tolist() == [3, 3, 3]


def test_used_parts_can_be_copied_and_sent():
    """D21: after a run QlibRL's interpreters hold a dead reference to their environment, and nothing can copy them again."""
    parts, seeds = one_buffer_parts(), SequenceSeedSet([7, 8, 9])
    env = EnvWrapper(parts, seeds, root=0)
    env.reset()
    env.step(0)
    wanted = evaluate(parts, RANDOM, seeds, STREAMS, "test", 2)
    del env
    for other in (copy.deepcopy(parts), pickle.loads(pickle.dumps(parts))):
        table = evaluate(other, RANDOM, seeds, STREAMS, "test", 2)
        np.testing.assert_array_equal(table["num_steps"], wanted["num_steps"])


# Policies with a memory.

NUM_CUES = 3


class Recall(Simulator):
    """Shows a cue at the start and nothing afterwards; who says it in the last step is right."""

    def __init__(self, initial):
        self.cue, self.length, self.taken, self.said = initial % NUM_CUES, 2 + initial % 4, 0, -1

    def step(self, action):
        self.taken, self.said = self.taken + 1, action

    def get_state(self):
        return self.cue if self.taken == 0 else NUM_CUES

    def done(self):
        return self.taken == self.length

    def outcome(self):
        return float(self.done() and self.said == self.cue)


class Remembers(Policy):
    """Keeps the first cue that it ever saw in the state that it is handed back: what an old episode left would show."""

    def decide(self, reference, internal_state, mask, randomness):
        cue = np.where(internal_state["cue"] < 0, reference, internal_state["cue"])
        return Decision(np.minimum(cue, NUM_CUES - 1), {"cue": cue, "seen": internal_state["seen"] + 1})

    def initial_internal_state(self, num_lanes):
        return {"cue": np.full(num_lanes, -1), "seen": np.zeros(num_lanes, np.int64)}


def recall_parts():
    return looped_parts(Recall, Shows(spaces.Discrete(NUM_CUES + 1)), Chooses(), Paid(), max_steps=5)


@pytest.mark.parametrize("num_lanes", [1, 3, 20])
def test_a_memory_belongs_to_its_episode(num_lanes):
    """T44, T47: it begins anew with each episode, and an evaluation hands it on like a training does."""
    seeds = SequenceSeedSet(range(20))
    assert (evaluate(recall_parts(), Remembers(), seeds, STREAMS, "test", num_lanes)["return"] == 1.0).all()
    fragments = steps_of(recall_parts(), Remembers(), seeds, num_lanes, 3, 1, 16)
    finished = np.concatenate([part.finished.episode_return for part in fragments if part.finished])
    assert len(finished) >= 4 * num_lanes and (finished == 1.0).all()


def test_a_stored_memory_is_the_one_that_was_decided_with():
    """T45, T46: rows hold the state before each decision, at the edge of fragments too: replaying the rows gives the same."""
    fragments = steps_of(recall_parts(), Remembers(), SequenceSeedSet(range(20)), 5, 4, 7, 2)
    columns = [np.concatenate([getattr(part.rollout, name) for part in fragments]) for name in ("reference", "terminated")]
    stored = {name: np.concatenate([part.rollout.internal_state[name] for part in fragments]) for name in ("cue", "seen")}
    policy = Remembers()
    state = policy.initial_internal_state(5)
    for step, (reference, terminated) in enumerate(zip(*columns, strict=True)):
        for name in ("cue", "seen"):
            np.testing.assert_array_equal(stored[name][step], state[name])
        state = policy.decide(reference, state, None, None).internal_state
        fresh = policy.initial_internal_state(5)
        state = {name: np.where(terminated, fresh[name], value) for name, value in state.items()}


@pytest.mark.parametrize("num_lanes", [1, 5])
def test_a_stored_memory_of_whole_episodes_begins_anew_in_each(num_lanes):
    """T45, T46: the state before the first decision is the fresh one, and each later one has seen a step more."""
    rollout = whole_episodes(recall_parts(), Remembers(), SequenceSeedSet(range(20)), num_lanes).rollout
    step, episode = np.nonzero(rollout.is_alive)
    assert len(step) == rollout.num_steps == sum(2 + seed % 4 for seed in range(20)) < rollout.is_alive.size
    np.testing.assert_array_equal(rollout.internal_state["seen"][step, episode], step)
    np.testing.assert_array_equal(rollout.internal_state["cue"][step, episode], np.where(step == 0, -1, episode % NUM_CUES))
