"""So many steps of groups of lanes, wherever they are taken: for training from steps.

A group is ``passage.num_lanes`` episodes in progress that the policy is asked for together. Groups know nothing of each other, so
they can run one after the other or each in a worker process, with the same bits. What a training learns depends on the number of
groups (a training field) and never on the number of workers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.policy import Policy
from rlcore.contracts.seeds import SeedSet
from rlcore.environment.episode_jobs import merge_episodes
from rlcore.environment.parts import EnvironmentParts
from rlcore.environment.rollout import Episodes, Passage, Rollout
from rlcore.environment.seed_sampling import InterleavedDraw
from rlcore.environment.steps import Fragment, RunningLanes, freeze_lanes, run_steps, shows_the_same, start_lanes, thaw_lanes
from rlcore.foundation.errors import ConfigError
from rlcore.foundation.lanes import map_lanes

if TYPE_CHECKING:
    from rlcore.environment.backends import EpisodeBackend


@dataclass(frozen=True, slots=True)
class StepJob:
    """Steps to take; picklable.

    Where the job runs in this process, looped simulators in ``groups`` move on: go on from the fragment, not from here.
    """

    parts: EnvironmentParts
    policy: Policy
    seeds: SeedSet[Any]
    groups: tuple[RunningLanes, ...]  # see start_groups; each of passage.num_lanes lanes
    num_steps: int  # in every lane
    passage: Passage


@dataclass(frozen=True, slots=True)
class JoinedFragment:
    """The fragments of all groups, joined along the lane axis in the order of the groups."""

    running: tuple[RunningLanes, ...]  # the groups, to go on from
    rollout: Rollout  # (steps, groups * lanes, …); see Fragment
    finished: Episodes | None  # group after group, each in order of finishing; None: no episode ended
    finished_seed_id: NDArray[np.int64]  # (episodes,)
    finished_visit: NDArray[np.int64]  # (episodes,)


def start_groups(
    parts: EnvironmentParts, policy: Policy, seeds: SeedSet[Any], passage: Passage, num_groups: int
) -> tuple[RunningLanes, ...]:
    """Start the groups of a training.

    Group g of G takes the positions g, g + G, g + 2G, … of ``training_draw``'s endless sequence of root ``passage.streams.root``.
    """
    if num_groups < 1:
        raise ConfigError(f"num_groups must be at least 1, was {num_groups}")
    # Lists, here and below: in a generator, a user's StopIteration would become a RuntimeError.
    draws = [group_draw(passage, seeds, group, num_groups) for group in range(num_groups)]
    return tuple([start_lanes(parts, policy, seeds, draw, passage) for draw in draws])


def group_draw(passage: Passage, seeds: SeedSet[Any], group: int, num_groups: int) -> InterleavedDraw:
    """Return which seeds a group takes."""
    return InterleavedDraw(passage.streams.root, len(seeds), group, num_groups)


def run_group(job: StepJob, group: int, num_groups: int, running: RunningLanes) -> Fragment:
    """Take the steps of one group (whose lanes may lie outside the job)."""
    draw = group_draw(job.passage, job.seeds, group, num_groups)
    return run_steps(job.parts, job.policy, job.seeds, draw, running, job.num_steps, job.passage)


def collect_steps(backend: EpisodeBackend, job: StepJob) -> JoinedFragment:
    """Take the job's steps on a backend.

    Raises:
        Exception: whatever an episode raised, with a note that names its seed.
        EvaluationError: a worker process died or missed its deadline (and, with ``on_worker_death="restart"``, did so again).
        ConfigError: a simulator in mid-episode cannot be pickled for a worker process.
    """
    fragments = backend.run_steps(job)
    finished = [fragment.finished for fragment in fragments if fragment.finished is not None]
    return JoinedFragment(
        running=tuple(fragment.running for fragment in fragments),
        rollout=_join_lanes([fragment.rollout for fragment in fragments]),
        finished=merge_episodes(finished) if finished else None,
        finished_seed_id=np.concatenate([fragment.finished_seed_id for fragment in fragments]),
        finished_visit=np.concatenate([fragment.finished_visit for fragment in fragments]),
    )


def freeze_groups(groups: Sequence[RunningLanes]) -> list[dict[str, Any]]:
    """Return groups in mid-episode as arrays, for a checkpoint (see ``freeze_lanes``)."""
    return [freeze_lanes(group) for group in groups]


def thaw_groups(parts: EnvironmentParts, seeds: SeedSet[Any], frozen: Sequence[Mapping[str, Any]]) -> tuple[RunningLanes, ...]:
    """Return the groups that ``freeze_groups`` kept."""
    return tuple([thaw_lanes(parts, seeds, one) for one in frozen])


def show_the_same(groups: Sequence[RunningLanes], frozen: Sequence[Mapping[str, Any]]) -> bool:
    """Whether groups that were thawed show what they showed when they were frozen, to the bit."""
    return all(map(shows_the_same, groups, frozen))


def _join_lanes(rollouts: Sequence[Rollout]) -> Rollout:
    if len(rollouts) == 1:
        return rollouts[0]
    return map_lanes(lambda *leaves: np.concatenate(leaves, axis=1), rollouts[0], *rollouts[1:])
