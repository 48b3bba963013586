"""Failures that others have met in counting and starting episodes (the project's list T1-T66), where they would show with us.

``coverage.yaml`` says which test covers which; those of this file had no other.
"""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from rlcore.contracts import SequenceSeedSet, Simulator
from rlcore.environment import EnvWrapper, Passage, SameAction, check_parts, evaluate, looped_parts, run_episodes, training_draw
from tests.environment_toys import Spend, SpendAction, looped_spend_parts, spend_parts, spend_seeds
from tests.known_failure_tasks import RANDOM, STREAMS, Chooses, Paid, Shows, steps_of, whole_episodes

# Every reward, end and episode once.


class PaidAtTheEnd(Simulator):
    """Takes as many steps as its seed says, and pays in the last alone."""

    made = 0

    def __init__(self, initial):
        type(self).made += 1
        self.length, self.taken = initial, 0

    def step(self, action):
        self.taken += 1

    def get_state(self):
        return np.array([self.length, self.taken], np.float32)

    def done(self):
        return self.taken == self.length

    def outcome(self):
        return 10.0 * self.length if self.done() else 0.0


LENGTHS = SequenceSeedSet([1, 2, 5, 3, 1, 4])


def delayed_parts():
    return looped_parts(PaidAtTheEnd, Shows(spaces.Box(0, 100, (2,), np.float32)), Chooses(), Paid(), max_steps=5)


@pytest.mark.parametrize("num_lanes", [1, 2, 6])
def test_the_last_reward_and_the_last_observation_arrive_once(num_lanes):
    """T22, T60: the step that ends an episode is a row like any other, and there are as many ends as episodes."""
    rollout = whole_episodes(delayed_parts(), RANDOM, LENGTHS, num_lanes).rollout
    (fragment,) = steps_of(delayed_parts(), RANDOM, LENGTHS, num_lanes, 23)
    assert rollout.terminated.sum() == len(LENGTHS)
    assert fragment.rollout.terminated.sum() == len(fragment.finished_seed_id) > 0
    for rows in (rollout, fragment.rollout):
        is_end = rows.terminated
        np.testing.assert_array_equal(rows.reward[is_end], 10.0 * rows.next_reference[is_end][:, 0])
        np.testing.assert_array_equal(rows.next_reference[is_end][:, 0], rows.next_reference[is_end][:, 1])
        assert (rows.reward[~is_end] == 0.0).all()
    assert rollout.reward.sum() == 10.0 * sum([1, 2, 5, 3, 1, 4])
    # As many pieces as ends, and one more in each column that stops in the middle of one.
    ids, is_end = fragment.rollout.seed_id, fragment.rollout.terminated
    taken = fragment.rollout.reference[..., 1]
    assert (taken == 0).sum() == is_end.sum() + (~is_end[-1]).sum() and ids.shape == (23, num_lanes)


@pytest.mark.parametrize("num_lanes", [1, 4])
def test_there_are_as_many_simulators_as_episodes(num_lanes):
    """T50, T51: counted inside the simulator, no episode is started twice or in vain."""
    PaidAtTheEnd.made = 0
    table = evaluate(delayed_parts(), RANDOM, LENGTHS, STREAMS, "test", num_lanes)
    assert PaidAtTheEnd.made == len(table) == len(LENGTHS)
    PaidAtTheEnd.made = 0
    (fragment,) = steps_of(delayed_parts(), RANDOM, LENGTHS, num_lanes, 30)
    assert PaidAtTheEnd.made == len(fragment.finished_seed_id) + num_lanes
    PaidAtTheEnd.made = 0
    env = EnvWrapper(delayed_parts(), LENGTHS, root=1)
    for _ in range(5):
        env.reset()
        while not env.step(0)[2]:
            pass
    assert PaidAtTheEnd.made == 5


@pytest.mark.parametrize("num_lanes", [1, 3, 8])
def test_short_episodes_are_not_favoured(num_lanes):
    """T48: however many lanes play, half of the seeds are long, and so are half of the episodes."""
    seeds = SequenceSeedSet([1, 5] * 8)
    table = evaluate(delayed_parts(), RANDOM, seeds, STREAMS, "test", num_lanes)
    assert table["return"].mean() == 30.0
    seed_id, visit = training_draw(9, len(seeds), 0, 3 * len(seeds))
    passage = Passage(STREAMS, "train", num_lanes)
    episodes = run_episodes(delayed_parts(), RANDOM, seeds, seed_id, visit, passage)
    assert episodes.episode_return.mean() == 30.0


# Resets.


def test_a_second_reset_begins_a_whole_episode():
    """T20: nothing of an episode that was left in the middle is carried over."""
    env = EnvWrapper(looped_spend_parts(), spend_seeds(), root=2)
    env.reset(options={"seed_id": 4})
    env.step(1)
    left, _ = env.reset(options={"seed_id": 5})
    again, info = env.reset(options={"seed_id": 5})
    assert left["step"] == again["step"] == 0 and left["left"] == again["left"] == 1.0 and info["seed_id"] == 5
    num_steps, is_over = 0, False
    while not is_over:
        *_, terminated, truncated, _ = env.step(0)
        num_steps, is_over = num_steps + 1, terminated or truncated
    assert (num_steps, terminated, truncated) == (6, False, True)  # T12: cut, and told so


def test_resets_after_a_seeded_one_are_decided_by_it():
    """T27, T28: ``reset(seed)`` and every ``reset()`` after it; a seed alone starts nothing, because there is no other way in."""
    env = EnvWrapper(spend_parts(), spend_seeds(), root=2)

    def play():
        seen = []
        for seed in (11, None, None):
            observation, info = env.reset(seed=seed)
            seen.append((info["seed_id"], info["visit"], observation["left"]))
            observation, reward, *_ = env.step(1)
            seen.append((reward, observation["past"].tobytes()))
        return seen

    assert play() == play()
    assert not hasattr(env.unwrapped, "seed")


@pytest.mark.parametrize("form", [spend_parts, looped_spend_parts])
def test_seeds_of_their_own_have_observations_of_their_own(form):
    """T30: every lane shows what belongs to its seed, and not a neighbour's."""
    seeds = spend_seeds(40)
    rollout = whole_episodes(form(), SameAction(SpendAction.action_space, 0), seeds, 16).rollout
    shown = rollout.next_reference["past"]
    assert len({row.tobytes() for row in shown[-1]}) == 40
    np.testing.assert_array_equal(shown[-1], seeds.world[:, 1:].astype(np.float32))


# Randomness from elsewhere.


class FromTheGlobalGenerator(Spend):
    """Planted: what happens depends on NumPy's global generator."""

    def step(self, state, command):
        return super().step(state, command * np.random.random())  # noqa: NPY002  # that is the fault


def test_a_simulator_that_draws_from_the_global_generator_is_found():
    """T25: it would give another run each time; the kit says so."""
    report = check_parts(spend_parts(simulator=FromTheGlobalGenerator()), spend_seeds())
    verdicts = {result.law: result.verdict for result in report.results}
    assert verdicts["lane independence"] == "violated"
    good = check_parts(spend_parts(), spend_seeds())
    assert {result.law: result.verdict for result in good.results}["lane independence"] == "holds"
