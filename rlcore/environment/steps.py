"""Run so many steps rather than whole episodes: for off-policy cadence and tasks that go on and on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.policy import Policy
from rlcore.contracts.seeds import SeedSet
from rlcore.environment.engine import Lanes, Transition, advance, begin
from rlcore.environment.episode_jobs import merge_episodes
from rlcore.environment.parts import EnvironmentParts
from rlcore.environment.rollout import Episodes, Passage, Rollout, auxiliary_numbers, check_length, decide, keep_transitions
from rlcore.foundation.errors import ConfigError
from rlcore.foundation.lanes import concat_lanes, map_lanes, num_lanes, stack_steps, take_lanes

# (first position, count) → (seed_id, visit): see seed_sampling.training_draw.
SeedDraw = Callable[[int, int], tuple[NDArray[np.int64], NDArray[np.int64]]]


@dataclass(frozen=True, slots=True)
class RunningLanes:
    """Episodes in progress between two fragments (see ``freeze_lanes`` for keeping them in a file)."""

    lanes: Lanes
    internal_state: Any  # the policy's, before its next decision
    next_position: int  # in the sequence of seeds
    actions: tuple[Any, ...]  # of the last steps, each (lanes, …): as many as the oldest episode has taken
    episode_return: NDArray[np.float64]  # (lanes,) so far
    component_sums: dict[str, NDArray[np.float64]]  # unweighted, each (lanes,), so far
    auxiliary_sums: dict[str, NDArray[np.float64]]  # of those that are numbers, each (lanes,), so far


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
    lanes = begin(parts, seeds.take(seed_id), seed_id, visit)
    internal = policy.initial_internal_state(count)
    sums = {name: np.zeros(count) for name in parts.reward.weights}
    return RunningLanes(lanes, internal, first_position + count, (), np.zeros(count), sums, {})


def run_steps(
    parts: EnvironmentParts,
    policy: Policy,
    seeds: SeedSet[Any],
    draw: SeedDraw,
    running: RunningLanes,
    num_steps: int,
    passage: Passage,
) -> Fragment:
    """Take ``num_steps`` steps in every lane. A lane whose episode ends goes on with the next seed, in the same column."""
    if num_steps < 1:
        raise ConfigError(f"num_steps must be at least 1, was {num_steps}")
    rows: list[Rollout] = []
    finished: list[tuple[Episodes, NDArray[np.int64], NDArray[np.int64]]] = []
    for _ in range(num_steps):
        before, internal = running.lanes, running.internal_state
        decision = decide(policy, before, internal, passage)
        after, transition = advance(parts, before, decision.action)
        check_length(after, parts.simulator.max_steps)
        rows.append(keep_transitions(before, internal, decision, after, transition))
        running = _moved(running, after, decision.internal_state, decision.action, transition)
        if after.status.is_done.any():
            finished.append(_finished(parts, running, transition))
            running = _refilled(parts, policy, seeds, draw, running)
    none = np.zeros(0, np.int64)
    return Fragment(
        running,
        stack_steps(rows),
        merge_episodes([episodes for episodes, _, _ in finished]) if finished else None,
        np.concatenate([none, *(seed_id for _, seed_id, _ in finished)]),
        np.concatenate([none, *(visit for _, _, visit in finished)]),
    )


def _moved(running: RunningLanes, after: Lanes, internal: Any, action: Any, transition: Transition) -> RunningLanes:
    sums = {name: running.component_sums[name] + value for name, value in transition.components.items()}
    auxiliary = {name: running.auxiliary_sums.get(name, 0.0) + value for name, value in auxiliary_numbers(transition).items()}
    total = running.episode_return + transition.reward
    actions = (*running.actions, action)[-int(after.status.step.max()) :]
    return RunningLanes(after, internal, running.next_position, actions, total, sums, auxiliary)


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
        metrics=dict(parts.simulator.metrics(lanes.state)),
    )
    return episodes, lanes.status.seed_id, lanes.status.visit


def _refilled(
    parts: EnvironmentParts, policy: Policy, seeds: SeedSet[Any], draw: SeedDraw, running: RunningLanes
) -> RunningLanes:
    """Put the next seeds where episodes have ended."""
    is_done = running.lanes.status.is_done
    count = int(is_done.sum())
    seed_id, visit = draw(running.next_position, count)
    fresh = begin(parts, seeds.take(seed_id), seed_id, visit)
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
    )


def freeze_lanes(running: RunningLanes) -> dict[str, Any]:
    """Return episodes in progress as arrays: seeds and actions rather than the simulator's state."""
    status = running.lanes.status
    return {
        "seed_id": status.seed_id,
        "visit": status.visit,
        "step": status.step,
        "next_position": running.next_position,
        "internal_state": running.internal_state,
        "actions": stack_steps(list(running.actions)) if running.actions else None,  # (steps, lanes, …), aligned at the last step
        "episode_return": running.episode_return,
        "component_sums": dict(running.component_sums),
        "auxiliary_sums": dict(running.auxiliary_sums),
    }


def thaw_lanes(parts: EnvironmentParts, seeds: SeedSet[Any], frozen: Mapping[str, Any]) -> RunningLanes:
    """Return the episodes that ``freeze_lanes`` kept, by playing their actions again, each lane alone."""
    actions = frozen["actions"]
    log = () if actions is None else tuple(map_lanes(lambda leaf, at=at: leaf[at], actions) for at in range(num_lanes(actions)))
    replayed = []
    for lane, step in enumerate(frozen["step"]):
        at = slice(lane, lane + 1)
        lanes = begin(parts, seeds.take(frozen["seed_id"][at]), frozen["seed_id"][at], frozen["visit"][at])
        for action in log[len(log) - step :]:
            lanes, _ = advance(parts, lanes, take_lanes(action, at))
        replayed.append(lanes)
    return RunningLanes(
        concat_lanes(*replayed),
        frozen["internal_state"],
        frozen["next_position"],
        log,
        frozen["episode_return"],
        dict(frozen["component_sums"]),
        dict(frozen["auxiliary_sums"]),
    )
