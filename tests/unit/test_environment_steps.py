"""So many steps: lanes go on where they stood, finished ones take the next seed, in the same column."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import pytest

from rlcore.contracts import Decision, Policy
from rlcore.environment.random_actions import RandomActions
from rlcore.environment.rollout import Passage, run_episodes
from rlcore.environment.seed_sampling import training_draw
from rlcore.environment.steps import freeze_lanes, run_steps, start_lanes, thaw_lanes
from rlcore.foundation.errors import ConfigError
from rlcore.foundation.lanes import concat_lanes, map_lanes
from rlcore.foundation.random_streams import RandomStreams
from tests.environment_toys import SpendAction, looped_spend_parts, spend_parts, spend_seeds

SEEDS = spend_seeds(7)
DRAW = partial(training_draw, 11, 7)
PASSAGE = Passage(RandomStreams(5), "train", 4)
RANDOM = RandomActions(SpendAction.action_space)


class Counting(Policy):
    """Remembers how many decisions its episode has seen; spends at every third."""

    def decide(self, reference, internal_state, mask, randomness):
        count = internal_state["count"] + 1
        return Decision((count % 3 == 0).astype(np.int64) * 2, {"count": count})

    def initial_internal_state(self, num_lanes):
        return {"count": np.zeros(num_lanes, np.int64)}


def run(policy, lengths, parts=None):
    parts = parts or spend_parts()
    running = start_lanes(parts, policy, SEEDS, DRAW, PASSAGE)
    fragments = []
    for length in lengths:
        fragments.append(run_steps(parts, policy, SEEDS, DRAW, running, length, PASSAGE))
        running = fragments[-1].running
    return fragments


@pytest.mark.parametrize("policy", [RANDOM, Counting()], ids=["random", "memory"])
@pytest.mark.parametrize("form", [spend_parts, looped_spend_parts])
def test_where_fragments_are_cut_makes_no_difference(policy, form):
    whole, pieces = run(policy, [30], form()), run(policy, [1, 7, 4, 18], form())
    map_lanes(np.testing.assert_array_equal, whole[0].rollout, concat_lanes(*(piece.rollout for piece in pieces)))
    assert whole[0].rollout.reward.shape == (30, 4) and whole[0].rollout.is_alive.all()
    ids = np.concatenate([piece.finished_seed_id for piece in pieces])
    np.testing.assert_array_equal(whole[0].finished_seed_id, ids)
    returns = np.concatenate([piece.finished.episode_return for piece in pieces if piece.finished])
    np.testing.assert_array_equal(whole[0].finished.episode_return, returns)


@pytest.mark.parametrize("policy", [RANDOM, Counting()], ids=["random", "memory"])
def test_episodes_are_those_of_run_episodes_and_take_the_sequence_in_order(policy):
    (fragment,) = run(policy, [40])
    finished, ids, visits = fragment.finished, fragment.finished_seed_id, fragment.finished_visit
    whole = run_episodes(spend_parts(), policy, SEEDS, ids, visits, PASSAGE)
    for name in ("num_steps", "episode_return", "is_truncated"):
        np.testing.assert_array_equal(getattr(finished, name), getattr(whole, name))
    for name in ("bargain", "haste"):
        np.testing.assert_array_equal(finished.component_sums[name], whole.component_sums[name])
    np.testing.assert_array_equal(finished.metrics["left_fraction"], whole.metrics["left_fraction"])
    # Finished and running together are the beginning of the sequence, each once.
    status = fragment.running.lanes.status
    taken = {*zip(ids.tolist(), visits.tolist(), strict=True), *zip(status.seed_id.tolist(), status.visit.tolist(), strict=True)}
    wanted = DRAW(0, fragment.running.next_position)
    assert len(taken) == len(ids) + 4 and taken == set(zip(*(column.tolist() for column in wanted), strict=True))


def test_a_column_holds_one_episode_after_another_with_the_observation_after_each_step():
    (fragment,) = run(RANDOM, [25])
    rollout = fragment.rollout
    is_done = rollout.terminated | rollout.truncated
    for lane in range(4):
        for step in range(24):
            if is_done[step, lane]:
                assert rollout.reference["left"][step + 1, lane] == 1.0  # a fresh episode
                assert rollout.next_reference["step"][step, lane] > 0  # the last observation of the old one
            else:
                assert rollout.seed_id[step + 1, lane] == rollout.seed_id[step, lane]
                for name in ("left", "step", "past"):
                    np.testing.assert_array_equal(
                        rollout.reference[name][step + 1, lane], rollout.next_reference[name][step, lane]
                    )


@pytest.mark.parametrize("form", [spend_parts, looped_spend_parts])
@pytest.mark.parametrize("policy", [RANDOM, Counting()], ids=["random", "memory"])
def test_lanes_in_mid_episode_are_kept_as_seeds_and_actions(policy, form):
    first, second = run(policy, [11, 20], form())
    if form is looped_spend_parts:
        (first,) = run(policy, [11], form())  # looped lanes have moved on
    frozen = pickle.loads(pickle.dumps(freeze_lanes(first.running)))
    running = thaw_lanes(form(), SEEDS, frozen)
    again = run_steps(form(), policy, SEEDS, DRAW, running, 20, PASSAGE)
    map_lanes(np.testing.assert_array_equal, second.rollout, again.rollout)
    np.testing.assert_array_equal(second.finished.episode_return, again.finished.episode_return)


def test_fresh_lanes_can_be_kept_too():
    running = start_lanes(spend_parts(), RANDOM, SEEDS, DRAW, PASSAGE, first_position=3)
    thawed = thaw_lanes(spend_parts(), SEEDS, freeze_lanes(running))
    map_lanes(np.testing.assert_array_equal, running.lanes, thawed.lanes)
    assert running.lanes.status.seed_id.tolist() == DRAW(3, 4)[0].tolist() and running.next_position == 7


def test_no_episode_may_have_ended():
    (fragment,) = run(Counting(), [1])
    assert fragment.finished is None and len(fragment.finished_seed_id) == 0
    with pytest.raises(ConfigError, match="num_steps must be at least 1, was 0"):
        run(RANDOM, [0])
