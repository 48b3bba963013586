"""Laws of lanes: independence of neighbours, frozen states, no look-ahead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.policy import Policy
from rlcore.contracts.seeds import SeedSet
from rlcore.environment.conformance.results import LawError, LawResult, difference, some_seeds
from rlcore.environment.engine import Lanes, advance, begin
from rlcore.environment.parts import EnvironmentParts
from rlcore.environment.random_actions import RandomActions
from rlcore.environment.rollout import Episodes, Passage, decide, keep_transitions, run_episodes
from rlcore.foundation.errors import ContractError
from rlcore.foundation.lanes import map_lanes, num_lanes, take_lanes
from rlcore.foundation.random_streams import RandomStreams

SeedIds = Sequence[int] | NDArray[np.int64] | None
# (seed_id, now) → the same task in a world where all data at and after decision ``now`` of that seed is different.
PerturbFuture = Callable[[int, int], tuple[EnvironmentParts, SeedSet[Any]]]
_NUM_POLICY_ROWS = 4


def check_lane_independence(
    parts: EnvironmentParts, seeds: SeedSet[Any], *, policy: Policy | None = None, seed_ids: SeedIds = None, root: int = 0
) -> LawResult:
    """Hold every episode to the bits of the same episode run alone: in batches of several sizes and orders, with refilled lanes.

    Usual causes of a violation: a reduction over the lane axis, state kept in the simulator between calls, arrays whose last
    axis is not contiguous (NumPy adds them up in another order when there is one lane), matrix products across lanes.

    Args:
        policy: None: random actions. A policy of one's own is always asked for four rows, because matrix products may differ in
            the last bits between shapes.
    """
    ids = some_seeds(seeds, seed_ids)
    chosen = policy or RandomActions(parts.action_interpreter.action_space)

    def run(order: NDArray[np.int64], width: int) -> Episodes:
        passage = Passage(RandomStreams(root), "conformance", width if policy is None else _NUM_POLICY_ROWS)
        visit = np.zeros(len(order), np.int64)
        return run_episodes(parts, chosen, seeds, order, visit, passage, keep=keep_transitions)

    alone = {int(seed_id): run(np.array([seed_id]), 1) for seed_id in ids}
    arrangements = {
        "all at once": (ids, len(ids)),
        "in reverse": (ids[::-1].copy(), len(ids)),
        "in refilled lanes": (ids, max(len(ids) // 3, 1)),
        "twice": (np.concatenate([ids, ids]), len(ids) + 1),
    }
    for name, (order, width) in arrangements.items():
        together = run(order, width)
        for column, seed_id in enumerate(order):
            found = _episode_difference(alone[int(seed_id)], together, column)
            if found:
                raise LawError(
                    f"lane independence: an episode must depend on its seed alone, seed {seed_id} run alone and {name} differ: "
                    f"{found}"
                )
    return LawResult("lane independence", "holds", f"{len(ids)} seeds alone and in {len(arrangements)} arrangements")


def check_finished_lanes_frozen(
    parts: EnvironmentParts, seeds: SeedSet[Any], *, seed_ids: SeedIds = None, root: int = 0
) -> LawResult:
    """Hold states to being frozen: stepping leaves the state before, and every finished lane, as it was, with the same metrics.

    Also: every episode ends within ``max_steps``.
    """
    ids = some_seeds(seeds, seed_ids)
    passage = Passage(RandomStreams(root), "conformance", len(ids))
    policy = RandomActions(parts.action_interpreter.action_space)
    lanes = begin(parts, seeds.take(ids), ids, np.zeros(len(ids), np.int64))
    if num_lanes(lanes.state) != len(ids):
        raise LawError(f"frozen lanes: start must give one lane for each of {len(ids)} seeds, gave {num_lanes(lanes.state)}")
    finished: list[tuple[Lanes, Lanes, Any]] = []  # (lanes, copy, metrics)
    for _ in range(parts.simulator.max_steps):
        kept = map_lanes(np.copy, lanes)
        decision = decide(policy, lanes, None, passage)
        try:
            after, _ = advance(parts, lanes, decision.action)
        except ContractError as error:
            raise LawError(f"frozen lanes: {error}") from error
        _refuse_change(difference(kept, lanes), "the state before a step")
        is_done = after.status.is_done
        if is_done.any():
            done = take_lanes(after, is_done)
            finished.append((done, map_lanes(np.copy, done), dict(parts.simulator.metrics(done.state))))
        if is_done.all():
            break
        lanes = take_lanes(after, ~is_done)
    else:
        raise LawError(
            f"frozen lanes: every episode must end within max_steps = {parts.simulator.max_steps}, "
            f"seed {lanes.status.seed_id[0]} did not"
        )
    for lanes, kept, metrics in finished:
        _refuse_change(difference(kept, lanes), "a finished lane")
        _refuse_change(difference(metrics, dict(parts.simulator.metrics(lanes.state)), "metrics"), "a finished lane")
    return LawResult("frozen lanes", "holds", f"{len(ids)} episodes")


def check_no_look_ahead(
    parts: EnvironmentParts,
    seeds: SeedSet[Any],
    perturb_future: PerturbFuture | None,
    *,
    policy: Policy | None = None,
    seed_ids: SeedIds = None,
    root: int = 0,
) -> LawResult:
    """Change everything at and after now: view, observation, mask, decision and command must stay the same, to the bit.

    Args:
        perturb_future: (seed_id, now) → parts and seeds of a world that differs at and after decision ``now`` of that seed
            (0: the first). None: the law is not checked.
        policy: its decisions (logits show in ``log_prob`` and ``value``) are held to the law as well; None: random actions.
    """
    law = "no look-ahead"
    if perturb_future is None:
        return LawResult(law, "not checked", "the task offers no perturb_future(seed_id, now)")
    ids = some_seeds(seeds, seed_ids, at_most=4)
    chosen = policy or RandomActions(parts.action_interpreter.action_space)
    num_tried, num_different = 0, 0
    for seed_id in ids:
        truth = _play(parts, seeds, chosen, int(seed_id), root, actions=None)
        for now in range(len(truth.actions)):
            other = _play(*perturb_future(int(seed_id), now), chosen, int(seed_id), root, actions=truth.actions)
            num_tried += 1
            for step in range(now + 1):
                has_ended = step >= len(other.seen)
                found = "the episode has ended" if has_ended else difference(truth.seen[step], other.seen[step])
                if found:
                    raise LawError(
                        f"no look-ahead: what is known at step {step} must not depend on data at and after decision {now}, "
                        f"for seed {seed_id} it does: {found}"
                    )
            num_different += difference(truth.later(now), other.later(now)) is not None
    if num_different == 0:
        return LawResult(law, "not checked", "perturb_future changed nothing that ever showed, so the check proves nothing")
    return LawResult(law, "holds", f"{num_tried} moments of {len(ids)} episodes, {num_different} of them with a later difference")


class _Play:
    """One episode: what was known before each decision, and what came of it."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.actions: list[Any] = []
        self.results: list[Any] = []

    def later(self, now: int) -> tuple[Any, ...]:
        return (*self.seen[now + 1 :], *self.results[now:])


def _play(
    parts: EnvironmentParts, seeds: SeedSet[Any], policy: Policy, seed_id: int, root: int, actions: list[Any] | None
) -> _Play:
    """Play one seed; with ``actions`` given, those are taken whatever the policy decides."""
    play, ids = _Play(), np.array([seed_id])
    passage = Passage(RandomStreams(root), "conformance", 1)
    lanes = begin(parts, seeds.take(ids), ids, np.zeros(1, np.int64))
    internal = policy.initial_internal_state(1)
    while not lanes.status.is_done.any() and (actions is None or len(play.actions) < len(actions)):
        decision = decide(policy, lanes, internal, passage)
        action = decision.action if actions is None else actions[len(play.actions)]
        play.seen.append(
            {
                "view": lanes.view,
                "observation": parts.state_interpreter.expand(lanes.reference),
                "mask": lanes.mask,
                "decision": decision,
                "command": parts.action_interpreter.interpret(lanes.view, action, lanes.status),
            }
        )
        play.actions.append(action)
        lanes, transition = advance(parts, lanes, action)
        play.results.append((transition.reward, transition.components, parts.state_interpreter.expand(lanes.reference)))
        internal = decision.internal_state
    return play


def _episode_difference(alone: Episodes, together: Episodes, column: int) -> str | None:
    num_steps = int(alone.num_steps[0])
    assert alone.rollout is not None and together.rollout is not None  # keep_transitions was given
    names = [f.name for f in fields(alone.rollout)]
    for name in names:
        one, other = getattr(alone.rollout, name), getattr(together.rollout, name)
        found = difference(
            map_lanes(lambda leaf: leaf[:num_steps, 0], one), map_lanes(lambda leaf: leaf[:num_steps, column], other), name
        )
        if found:
            return found
    for name in ("num_steps", "episode_return", "component_sums", "is_truncated", "metrics"):
        at = slice(column, column + 1)
        found = difference(getattr(alone, name), take_lanes(getattr(together, name), at), name)
        if found:
            return found
    return None


def _refuse_change(found: str | None, what: str) -> None:
    if found:
        raise LawError(f"frozen lanes: {what} must stay as it is, changed: {found}")
