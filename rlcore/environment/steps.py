"""Run so many steps rather than whole episodes: for off-policy cadence and tasks that go on and on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.policy import Policy
from rlcore.contracts.seeds import SeedSet
from rlcore.contracts.status import LaneStatus
from rlcore.environment.engine import Lanes, Transition, advance, begin
from rlcore.environment.episode_jobs import merge_episodes
from rlcore.environment.parts import EnvironmentParts
from rlcore.environment.rollout import (
    Episodes,
    Passage,
    Rollout,
    auxiliary_numbers,
    check_length,
    decide,
    keep_transitions,
    metrics_of,
)
from rlcore.foundation.errors import CheckpointError, ConfigError
from rlcore.foundation.lanes import concat_lanes, map_lanes, num_lanes, stack_steps, take_lanes

logger = logging.getLogger(__name__)

# (first position, count) → (seed_id, visit): see seed_sampling.training_draw.
SeedDraw = Callable[[int, int], tuple[NDArray[np.int64], NDArray[np.int64]]]


@dataclass(frozen=True, slots=True)
class RunningLanes:
    """Episodes in progress between two fragments (see ``freeze_lanes`` for keeping them in a file)."""

    lanes: Lanes
    internal_state: Any  # the policy's, before its next decision
    next_position: int  # in the sequence of seeds
    actions: tuple[Any, ...]  # trees (steps, lanes, …), one behind the other: at least what the oldest episode has taken
    episode_return: NDArray[np.float64]  # (lanes,) so far
    component_sums: dict[str, NDArray[np.float64]]  # unweighted, each (lanes,), so far
    auxiliary_sums: dict[str, NDArray[np.float64]]  # of what is known, each (lanes,), so far
    auxiliary_counts: dict[str, NDArray[np.float64]]  # steps that knew it, each (lanes,), so far


@dataclass(frozen=True, slots=True)
class Fragment:
    """What ``run_steps`` gives."""

    running: RunningLanes  # to go on from
    rollout: Rollout  # (steps, lanes, …); where a lane's last row is not done, the value of next_reference continues it
    finished: Episodes | None  # in order of finishing, counted from their first step, wherever it lay; None: no episode ended
    finished_seed_id: NDArray[np.int64]  # (episodes,)
    finished_visit: NDArray[np.int64]  # (episodes,)


def start_lanes(
    parts: EnvironmentParts, policy: Policy, seeds: SeedSet[Any], draw: SeedDraw, passage: Passage, first_position: int = 0
) -> RunningLanes:
    """Start ``passage.num_lanes`` episodes with the seeds from ``first_position`` on."""
    count = passage.num_lanes
    seed_id, visit = draw(first_position, count)
    lanes = _begin(parts, seeds, seed_id, visit)
    internal = policy.initial_internal_state(count)
    sums = {name: np.zeros(count) for name in parts.reward.weights}
    return RunningLanes(lanes, internal, first_position + count, (), np.zeros(count), sums, {}, {})


def run_steps(
    parts: EnvironmentParts,
    policy: Policy,
    seeds: SeedSet[Any],
    draw: SeedDraw,
    running: RunningLanes,
    num_steps: int,
    passage: Passage,
) -> Fragment:
    """Take ``num_steps`` steps in every lane. A lane whose episode ends goes on with the next seed, in the same column.

    Raises:
        Exception: whatever an episode raised, with a note that names its seed.
    """
    if num_steps < 1:
        raise ConfigError(f"num_steps must be at least 1, was {num_steps}")
    rows: list[Rollout] = []
    actions: list[Any] = []
    finished: list[tuple[Episodes, NDArray[np.int64], NDArray[np.int64]]] = []
    for _ in range(num_steps):
        before, internal = running.lanes, running.internal_state
        decision = decide(policy, before, internal, passage)
        actions.append(decision.action)
        try:
            after, transition = advance(parts, before, decision.action)
        except Exception as error:  # whatever a user's part raises
            _note_seed(error, parts, seeds, before.status, concat_lanes(*running.actions, stack_steps(actions)))
            raise
        check_length(after, parts.simulator.max_steps)
        rows.append(keep_transitions(before, internal, decision, after, transition))
        running = _moved(running, after, decision.internal_state, transition)
        if after.status.is_done.any():
            finished.append(_finished(parts, running, transition))
            running = _refilled(parts, policy, seeds, draw, running)
    none = np.zeros(0, np.int64)
    rollout = stack_steps(rows)
    return Fragment(
        replace(running, actions=_remember(running.actions, rollout.action, int(running.lanes.status.step.max()))),
        rollout,
        merge_episodes([episodes for episodes, _, _ in finished]) if finished else None,
        np.concatenate([none, *(seed_id for _, seed_id, _ in finished)]),
        np.concatenate([none, *(visit for _, _, visit in finished)]),
    )


def _moved(running: RunningLanes, after: Lanes, internal: Any, transition: Transition) -> RunningLanes:
    sums = {name: running.component_sums[name] + value for name, value in transition.components.items()}
    known, is_known = auxiliary_numbers(transition)
    auxiliary = {name: running.auxiliary_sums.get(name, 0.0) + value for name, value in known.items()}
    counts = {name: running.auxiliary_counts.get(name, 0.0) + value for name, value in is_known.items()}
    total = running.episode_return + transition.reward
    return RunningLanes(after, internal, running.next_position, running.actions, total, sums, auxiliary, counts)


def _finished(
    parts: EnvironmentParts, running: RunningLanes, transition: Transition
) -> tuple[Episodes, NDArray[np.int64], NDArray[np.int64]]:
    is_done = running.lanes.status.is_done
    lanes = take_lanes(running.lanes, is_done)
    episodes = Episodes(
        rollout=None,
        num_steps=lanes.status.step,
        episode_return=running.episode_return[is_done],
        component_sums=take_lanes(running.component_sums, is_done),
        is_truncated=(transition.truncated & ~transition.terminated)[is_done],
        auxiliary_sums=take_lanes(running.auxiliary_sums, is_done),
        auxiliary_counts=take_lanes(running.auxiliary_counts, is_done),
        metrics=metrics_of(parts, lanes.state, len(lanes.status.step)),
    )
    return episodes, lanes.status.seed_id, lanes.status.visit


def _refilled(
    parts: EnvironmentParts, policy: Policy, seeds: SeedSet[Any], draw: SeedDraw, running: RunningLanes
) -> RunningLanes:
    """Put the next seeds where episodes have ended."""
    is_done = running.lanes.status.is_done
    count = int(is_done.sum())
    seed_id, visit = draw(running.next_position, count)
    fresh = _begin(parts, seeds, seed_id, visit)
    # Behind the living lanes come the fresh ones; this order brings each back to its column.
    order = np.where(is_done, len(is_done) - count + np.cumsum(is_done) - 1, np.cumsum(~is_done) - 1)

    def renew(old: Any, new: Any) -> Any:
        return take_lanes(concat_lanes(take_lanes(old, ~is_done), new), order)

    return RunningLanes(
        renew(running.lanes, fresh),
        renew(running.internal_state, policy.initial_internal_state(count)),
        running.next_position + count,
        running.actions,
        np.where(is_done, 0.0, running.episode_return),
        {name: np.where(is_done, 0.0, value) for name, value in running.component_sums.items()},
        {name: np.where(is_done, 0.0, value) for name, value in running.auxiliary_sums.items()},
        {name: np.where(is_done, 0.0, value) for name, value in running.auxiliary_counts.items()},
    )


def freeze_lanes(running: RunningLanes) -> dict[str, Any]:
    """Return episodes in progress as arrays: seeds and actions rather than the simulator's state."""
    status = running.lanes.status
    needed = int(status.step.max())
    actions = concat_lanes(*running.actions) if running.actions else None
    return {
        "seed_id": status.seed_id,
        "visit": status.visit,
        "step": status.step,
        "next_position": running.next_position,
        "internal_state": running.internal_state,
        # (steps, lanes, …), aligned at the last step
        "actions": map_lanes(lambda leaf: leaf[len(leaf) - needed :], actions) if needed else None,
        "episode_return": running.episode_return,
        "component_sums": dict(running.component_sums),
        "auxiliary_sums": dict(running.auxiliary_sums),
        "auxiliary_counts": dict(running.auxiliary_counts),
        "shown": _numbers(running.lanes.reference),  # what the replay is held to
    }


def thaw_lanes(parts: EnvironmentParts, seeds: SeedSet[Any], frozen: Mapping[str, Any]) -> RunningLanes:
    """Return the episodes that ``freeze_lanes`` kept, by playing their actions again, each lane alone.

    Raises:
        CheckpointError: an episode shows something else than it did: its simulator draws from elsewhere than its seed.
    """
    status = LaneStatus(frozen["seed_id"], frozen["visit"], frozen["step"], np.zeros(len(frozen["step"]), bool))
    actions = frozen["actions"]
    lanes = [_replay_as_shown(parts, seeds, status, lane, actions, frozen["shown"]) for lane in range(len(status.step))]
    return RunningLanes(
        concat_lanes(*lanes),
        frozen["internal_state"],
        frozen["next_position"],
        () if actions is None else (actions,),
        frozen["episode_return"],
        dict(frozen["component_sums"]),
        dict(frozen["auxiliary_sums"]),
        dict(frozen["auxiliary_counts"]),
    )


def _remember(past: tuple[Any, ...], fresh: Any, needed: int) -> tuple[Any, ...]:
    """Append a fragment's actions and forget what no episode in progress needs any more."""
    log = [*past, fresh]
    kept = sum(num_lanes(part) for part in log)
    while log and kept - num_lanes(log[0]) >= needed:
        kept -= num_lanes(log.pop(0))
    # Short parts are joined as the digits of a binary counter are: few parts, and each action is copied a few times only.
    while len(log) > 1 and num_lanes(log[-2]) <= num_lanes(log[-1]):
        log[-2:] = [concat_lanes(*log[-2:])]
    return tuple(log)


def shows_the_same(running: RunningLanes, frozen: Mapping[str, Any]) -> bool:
    """Whether lanes that were thawed show what they showed when they were frozen, to the bit."""
    return _are_equal(_numbers(running.lanes.reference), frozen["shown"])


def _replay(parts: EnvironmentParts, seeds: SeedSet[Any], status: LaneStatus, lane: int, actions: Any) -> Lanes:
    """Return one lane at the step that ``status`` says, from its seed and the last of ``actions`` (steps, lanes, …)."""
    at = slice(lane, lane + 1)
    lanes = begin(parts, seeds.take(status.seed_id[at]), status.seed_id[at], status.visit[at])
    for back in range(-int(status.step[lane]), 0):
        action = map_lanes(lambda leaf, back=back: leaf[back][at], actions)
        lanes, _ = advance(parts, lanes, action)
    return lanes


def _replay_as_shown(
    parts: EnvironmentParts,
    seeds: SeedSet[Any],
    status: LaneStatus,
    lane: int,
    actions: Any,
    shown: Sequence[NDArray[Any]],  # see _numbers, of all lanes
) -> Lanes:
    remedy = "its simulator is not reproducible from its seed and actions (all randomness must come from them), or has changed"
    where = f"episode of seed {status.seed_id[lane]}, visit {status.visit[lane]}, replayed to step {status.step[lane]}"
    try:
        lanes = _replay(parts, seeds, status, lane, actions)
    except Exception as error:  # whatever a user's part raises, which it did not the first time
        raise CheckpointError(f"{where} must go as it went before the checkpoint, raised {error!r}: {remedy}") from error
    now = _numbers(lanes.reference)
    before = [leaf[lane : lane + 1] for leaf in shown]
    if not lanes.status.is_done[0] and len(now) == len(before) and all(map(_is_close, before, now)):
        if not _are_equal(before, now):
            logger.warning("%s shows what it showed but for the last digits: the training goes on, not to the bit", where)
        return lanes
    raise CheckpointError(f"{where} must show what it showed before the checkpoint, did not: {remedy}")


def _numbers(reference: Any) -> list[NDArray[Any]]:
    """Return the numbers (lanes, …) that a tree of arrays holds."""
    leaves: list[NDArray[Any]] = []
    map_lanes(leaves.append, reference)
    return [leaf for leaf in leaves if leaf.dtype.kind in "biuf"]


def _are_equal(ones: Sequence[NDArray[Any]], others: Sequence[NDArray[Any]]) -> bool:
    return len(ones) == len(others) and all(map(partial(np.array_equal, equal_nan=True), ones, others))


def _is_close(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Whether they differ in their last digits at most, as they may after a move to another machine."""
    return one.shape == other.shape and np.allclose(one, other, rtol=1e-3, atol=1e-6, equal_nan=True)


def _begin(parts: EnvironmentParts, seeds: SeedSet[Any], seed_id: NDArray[np.int64], visit: NDArray[np.int64]) -> Lanes:
    try:
        return begin(parts, seeds.take(seed_id), seed_id, visit)
    except Exception as error:  # whatever a user's part raises
        nowhere = LaneStatus(seed_id, visit, np.full(len(seed_id), -1), np.zeros(len(seed_id), bool))
        _note_seed(error, parts, seeds, nowhere, None)
        raise


def _note_seed(error: Exception, parts: EnvironmentParts, seeds: SeedSet[Any], status: LaneStatus, actions: Any) -> None:
    """Say in a note which episode raises by itself, found by playing each again.

    Args:
        status: of the lanes before the step that raised; step -1: at their start.
        actions: (steps, lanes, …), those of the step that raised included.
    """
    taken = replace(status, step=status.step + 1)
    for lane, seed_id in enumerate(status.seed_id):
        try:
            _replay(parts, seeds, taken, lane, actions)
        except Exception:  # the same again, without its neighbours
            error.add_note(f"raised by the episode of seed {seed_id}, visit {status.visit[lane]}, at step {taken.step[lane]}")
            return
    error.add_note(f"raised by the episodes of seeds {status.seed_id.tolist()} together, by none of them apart")
