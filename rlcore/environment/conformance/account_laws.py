"""Laws of accounts: nothing is lost, every seed counts once, components add up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.policy import Policy
from rlcore.contracts.seeds import SeedSet
from rlcore.environment.backends import EpisodeBackend, InlineBackend
from rlcore.environment.conformance.lane_laws import SeedIds
from rlcore.environment.conformance.results import LawError, LawResult, difference, some_seeds
from rlcore.environment.engine import Lanes, Transition
from rlcore.environment.evaluation import evaluate
from rlcore.environment.parts import EnvironmentParts
from rlcore.environment.random_actions import RandomActions
from rlcore.foundation.lanes import num_lanes, take_lanes
from rlcore.foundation.random_streams import RandomStreams

# (lanes after a step, the step) → name → imbalance, each (lanes,); zero where the books balance.
Balance = Callable[[Lanes, Transition], Mapping[str, NDArray[np.float64]]]
_RELATIVE_TOLERANCE = 1e-9  # of sums of up to thousands of float64 terms


def check_conservation(
    parts: EnvironmentParts,
    seeds: SeedSet[Any],
    balance: Balance | None,
    *,
    tolerance: float = _RELATIVE_TOLERANCE,
    seed_ids: SeedIds = None,
    root: int = 0,
) -> LawResult:
    """Hold every step to the task's own balance.

    Args:
        balance: returns imbalances relative to the size of what must be conserved, such as (filled + remaining - ordered) /
            ordered, max(-fill, 0) / ordered, max(participation - cap, 0). None: the law is not checked.
    """
    law = "conservation"
    if balance is None:
        return LawResult(law, "not checked", "the task offers no balance(lanes, transition)")
    ids = some_seeds(seeds, seed_ids)
    watch = _BalanceWatch(balance, tolerance)
    policy = RandomActions(parts.action_interpreter.action_space)
    evaluate(parts, policy, seeds, RandomStreams(root), "conformance", len(ids), ids, recorders=(watch,))
    if watch.violation:
        raise LawError(watch.violation)
    return LawResult(law, "holds", f"{watch.num_steps} steps, largest imbalance {watch.largest:.1e}")


def check_exactly_once(
    parts: EnvironmentParts,
    seeds: SeedSet[Any],
    *,
    policy: Policy | None = None,
    backend: EpisodeBackend | None = None,
    seed_ids: SeedIds = None,
    root: int = 0,
) -> LawResult:
    """Hold an evaluation to one row for each seed, in order, and the seed set to giving what it is asked for, in order."""
    law = "exactly once"
    ids = some_seeds(seeds, seed_ids)
    _check_seed_set(seeds, ids)
    chosen = policy or RandomActions(parts.action_interpreter.action_space)
    width = max(len(ids) // 3, 1)
    for order in (ids, ids[::-1].copy(), np.concatenate([ids, ids[:1]])):
        counting = _CountingSeeds(seeds)
        table = evaluate(
            parts, chosen, counting, RandomStreams(root), "conformance", width, order, allow_failed="keep", backend=backend
        )
        found = difference(order, table["seed_id"], "seed_id")
        if found or any(len(column) != len(order) for column in table.columns.values()):
            raise LawError(f"{law}: an evaluation must have one row for each seed, in order, had others: {found or len(table)}")
        if (table["num_steps"][~table.is_failed] < 1).any():
            raise LawError(f"{law}: every episode must be run, seed {order[np.argmin(table['num_steps'])]} took no step")
        # Seeds that fail are started again while they are singled out; worker processes count in their own copies.
        asked = {seed_id: counting.count[seed_id] for seed_id in counting.count}
        wanted = {int(seed_id): int((order == seed_id).sum()) for seed_id in order}
        is_counted = backend is None or isinstance(backend, InlineBackend)
        if is_counted and not table.is_failed.any() and asked != wanted:
            raise LawError(f"{law}: every seed must be started once for each row, were started {asked}, wanted {wanted}")
    return LawResult(law, "holds", f"{len(ids)} seeds in 3 orders")


def check_components_add_up(
    parts: EnvironmentParts, seeds: SeedSet[Any], *, seed_ids: SeedIds = None, root: int = 0
) -> LawResult:
    """Hold the reward to Σ weight × component, step by step and in the episode table; and terms to remembering nothing."""
    ids = some_seeds(seeds, seed_ids)
    watch = _ComponentWatch(parts)
    policy = RandomActions(parts.action_interpreter.action_space)
    table = evaluate(parts, policy, seeds, RandomStreams(root), "conformance", len(ids), ids, recorders=(watch,))
    if watch.violation:
        raise LawError(watch.violation)
    weights = parts.reward.weights
    terms = np.stack([table[f"reward/{name}"] for name in weights])
    _refuse_gap(table["return"], terms, "return of the episode table", ids)
    for name, weight in weights.items():
        _refuse_gap(table[f"reward/{name}"], weight * table[f"component/{name}"][None], f"reward/{name}", ids)
    return LawResult("components add up", "holds", f"{watch.num_steps} steps, terms {', '.join(weights)}")


class _BalanceWatch:
    def __init__(self, balance: Balance, tolerance: float) -> None:
        self._balance, self._tolerance = balance, tolerance
        self.num_steps, self.largest, self.violation = 0, 0.0, ""

    def record(self, lanes: Lanes, transition: Transition) -> None:
        self.num_steps += len(lanes.status.step)
        for name, imbalance in self._balance(lanes, transition).items():
            size = np.abs(imbalance)
            is_bad = ~(size <= self._tolerance)  # NaN is bad, too
            if is_bad.any() and not self.violation:
                lane = int(np.argmax(is_bad))
                self.violation = (
                    f"conservation: {name} must be 0 within {self._tolerance:g}, was {imbalance[lane]} "
                    f"for seed {lanes.status.seed_id[lane]} at step {lanes.status.step[lane]}"
                )
            self.largest = max(self.largest, float(size.max(initial=0.0)))


class _ComponentWatch:
    def __init__(self, parts: EnvironmentParts) -> None:
        self._reward = parts.reward
        self.num_steps, self.violation = 0, ""

    def record(self, lanes: Lanes, transition: Transition) -> None:
        self.num_steps += len(lanes.status.step)
        try:
            self._check(lanes, transition)
        except LawError as violation:
            self.violation = self.violation or str(violation)

    def _check(self, lanes: Lanes, transition: Transition) -> None:
        terms = np.stack([weight * transition.components[name] for name, weight in self._reward.weights.items()])
        _refuse_gap(transition.reward, terms, "reward of a step", lanes.status.seed_id)
        again = self._reward.components(transition.outcome, lanes.status)
        found = difference(dict(transition.components), dict(again), "term")
        if found:
            raise LawError(f"components add up: a term must depend on outcome and status alone, asked twice {found}")


class _CountingSeeds(SeedSet[Any]):
    """Counts how often each seed is taken."""

    def __init__(self, seeds: SeedSet[Any]) -> None:
        self._seeds = seeds
        self.count: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._seeds)

    def take(self, seed_ids: NDArray[np.int64]) -> Any:
        for seed_id in seed_ids.tolist():
            self.count[seed_id] = self.count.get(seed_id, 0) + 1
        return self._seeds.take(seed_ids)

    @property
    def fingerprint(self) -> str:
        return self._seeds.fingerprint

    def describe(self, seed_ids: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        return self._seeds.describe(seed_ids)


def _check_seed_set(seeds: SeedSet[Any], ids: NDArray[np.int64]) -> None:
    if seeds.fingerprint != seeds.fingerprint:
        raise LawError("exactly once: the fingerprint of a seed set must stay the same, changed between two readings")
    backwards = ids[::-1].copy()
    for name, taken in (("take", seeds.take), ("describe", seeds.describe)):
        forward, backward = taken(ids), taken(backwards)
        if name == "describe" and not forward:
            continue
        if num_lanes(forward) != len(ids):
            raise LawError(f"exactly once: {name} must give one entry for each of {len(ids)} seeds, gave {num_lanes(forward)}")
        found = difference(take_lanes(forward, slice(None, None, -1)), backward, name)
        if found:
            raise LawError(f"exactly once: {name} must give the seeds in the order asked for, asked backwards {found}")


def _refuse_gap(total: NDArray[np.float64], terms: NDArray[np.float64], what: str, seed_id: NDArray[np.int64]) -> None:
    """Hold ``total`` (n,) to the sum of ``terms`` (terms, n)."""
    wanted = terms.sum(axis=0)
    is_bad = ~(np.abs(total - wanted) <= _RELATIVE_TOLERANCE * np.abs(terms).sum(axis=0))
    if is_bad.any():
        at = int(np.argmax(is_bad))
        raise LawError(
            f"components add up: {what} must be Σ weight × component = {wanted[at]}, was {total[at]} for seed {seed_id[at]}"
        )
