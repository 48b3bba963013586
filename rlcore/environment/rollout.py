"""Run whole episodes, or so many steps, for any number of seeds: the loops behind training, validation and backtest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.interpreters import Reference
from rlcore.contracts.policy import Decision, Policy
from rlcore.contracts.seeds import SeedSet
from rlcore.environment.engine import Lanes, Transition, advance, begin, living
from rlcore.environment.parts import EnvironmentParts
from rlcore.foundation.errors import ContractError
from rlcore.foundation.lanes import concat_lanes, map_lanes, num_lanes, pad_lanes, take_lanes
from rlcore.foundation.random_streams import RandomStreams

_FIRST_ROOM = 32  # steps for which a table has room at first; it grows with the longest episode


@dataclass(frozen=True, slots=True)
class Rollout:
    """Arrays (steps, lanes, …). A lane is one whole episode (``run_episodes``) or one fragment (``run_steps``)."""

    seed_id: NDArray[np.int64]  # (steps, lanes)
    visit: NDArray[np.int64]  # (steps, lanes)
    step: NDArray[np.int64]  # (steps, lanes) decisions of the episode before this one
    reference: Reference  # of the observation that the action answers
    next_reference: Reference  # of the observation after the step (of the same episode)
    action: NDArray[Any]
    reward: NDArray[np.float64]
    components: dict[str, NDArray[np.float64]]  # unweighted
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    is_alive: NDArray[np.bool_]  # the lane really took this step
    mask: NDArray[np.bool_] | None  # possible actions
    next_mask: NDArray[np.bool_] | None  # possible actions after the step; all, where the episode terminated
    log_prob: NDArray[np.float32] | None
    value: NDArray[np.float32] | None
    internal_state: Any  # the policy's, before the decision; None: it remembers nothing
    auxiliary: dict[str, NDArray[Any]]  # after the step; empty where the task has none

    @property
    def num_steps(self) -> int:
        """Steps that living lanes took."""
        return int(self.is_alive.sum())


class StepRecorder(Protocol):
    """Watches the steps of an evaluation: it sees outcomes, which no policy ever does."""

    def record(self, lanes: Lanes, transition: Transition) -> None:
        """Take note of one step; ``lanes`` are those after it."""


@dataclass(frozen=True, slots=True)
class Passage:
    """Everything that identifies one passage over seeds, so that its random numbers are its own.

    Args:
        phase: "train", "validation", …: keeps the streams of different purposes apart.
        num_lanes: episodes in progress at once, and the fixed number of rows that the policy is always asked for
            (the last lane is repeated where fewer live), because matrix products differ in the last bits between shapes.
    """

    streams: RandomStreams
    phase: str
    num_lanes: int


@dataclass(slots=True)
class Episodes:
    """What finished episodes left, by position in the passage."""

    rollout: Rollout | None
    num_steps: NDArray[np.int64]  # (episodes,)
    episode_return: NDArray[np.float64]  # (episodes,)
    component_sums: dict[str, NDArray[np.float64]]  # unweighted sums, each (episodes,)
    is_truncated: NDArray[np.bool_]  # (episodes,) cut from outside, not ended by the task's own rules
    auxiliary_sums: dict[str, NDArray[np.float64]] = field(default_factory=dict)  # of what is known, each (episodes,)
    auxiliary_counts: dict[str, NDArray[np.float64]] = field(default_factory=dict)  # steps that knew it, each (episodes,)
    metrics: dict[str, NDArray[np.float64]] = field(default_factory=dict)  # each (episodes,)


def decide(policy: Policy, lanes: Lanes, internal_state: Any, passage: Passage) -> Decision:
    """Ask the policy, always for ``passage.num_lanes`` rows. Returns the decision of the lanes."""
    count = len(lanes.status.step)
    status = lanes.status
    randomness = passage.streams.lanes(passage.phase, status.seed_id, status.visit, status.step)
    asked = pad_lanes((lanes.reference, internal_state, lanes.mask, randomness), passage.num_lanes)
    decision = policy.decide(*asked)
    if num_lanes(decision.action) != passage.num_lanes:
        raise ContractError(
            f"a decision must have the {passage.num_lanes} rows that it was asked for, had {num_lanes(decision.action)}"
        )
    return decision if count == passage.num_lanes else take_lanes(decision, slice(0, count))


class _Table:
    """Arrays (steps, episodes, …), made when the first row shows their shapes; rows are written where they belong."""

    def __init__(self, num_episodes: int) -> None:
        self._num_episodes = num_episodes
        self._num_steps = 0  # for which there is room
        self.tree: Any = None

    def write(self, step: NDArray[np.int64], episode: NDArray[np.int64], rows: Any) -> None:
        """Write one row of each of these episodes.

        Raises:
            ContractError: for an array whose type, shape or name is another than in the rows before.
        """
        needed = int(step.max()) + 1
        if self.tree is None:
            self._num_steps = max(needed, _FIRST_ROOM)
            self.tree = map_lanes(self._empty, rows)
        elif needed > self._num_steps:
            more = max(needed, 2 * self._num_steps) - self._num_steps
            self._num_steps += more
            self.tree = map_lanes(lambda leaf: np.concatenate([leaf, np.zeros((more, *leaf.shape[1:]), leaf.dtype)]), self.tree)
        for field_ in fields(rows):
            _put(getattr(self.tree, field_.name), getattr(rows, field_.name), (step, episode), field_.name)

    def _empty(self, leaf: NDArray[Any]) -> NDArray[Any]:
        return np.zeros((self._num_steps, self._num_episodes, *leaf.shape[1:]), leaf.dtype)


def _put(table: Any, rows: Any, at: tuple[NDArray[np.int64], NDArray[np.int64]], path: str) -> None:
    if isinstance(table, np.ndarray) and isinstance(rows, np.ndarray):
        if (rows.dtype, rows.shape[1:]) != (table.dtype, table.shape[2:]):
            raise ContractError(
                f"{path} must be of one type and shape at all steps, was {rows.dtype} {rows.shape[1:]} after {table.dtype} "
                f"{table.shape[2:]} (without the lane axis): mend the part that makes it"
            )
        table[at] = rows
    elif isinstance(table, dict) and isinstance(rows, dict):
        if table.keys() != rows.keys():
            raise ContractError(f"{path} must have the same names at all steps, had {sorted(rows)} after {sorted(table)}")
        for name, leaf in table.items():
            _put(leaf, rows[name], at, f"{path}[{name!r}]")
    elif isinstance(table, tuple) and isinstance(rows, tuple):
        for index, (leaf, row) in enumerate(zip(table, rows, strict=True)):
            _put(leaf, row, at, f"{path}[{index}]")
    elif is_dataclass(table) and not isinstance(table, type):
        for field_ in fields(table):
            _put(getattr(table, field_.name), getattr(rows, field_.name), at, f"{path}.{field_.name}")
    elif (table is None) != (rows is None):
        raise ContractError(f"{path} must be there at all steps or never, was there at some")


def run_episodes(
    parts: EnvironmentParts,
    policy: Policy,
    seeds: SeedSet[Any],
    seed_id: NDArray[np.int64],
    visit: NDArray[np.int64],
    passage: Passage,
    recorders: tuple[StepRecorder, ...] = (),
    keep: Callable[[Lanes, Any, Decision, Lanes, Transition], Any] | None = None,
) -> Episodes:
    """Run one whole episode for each entry of ``seed_id`` (a seed may stand there several times).

    A lane that finishes takes the next seed, so that the policy's rows stay full. Episodes are returned in the order of
    ``seed_id``, and none depends on its neighbours. ``keep`` says what of every step goes into ``Episodes.rollout``
    (``keep_transitions`` for training); None keeps none, for evaluation.
    """
    total = len(seed_id)
    steps_room = parts.simulator.max_steps
    result = Episodes(None, np.zeros(total, np.int64), np.zeros(total), {}, np.zeros(total, bool))
    table = _Table(total)
    position = np.zeros(0, np.int64)  # of each living lane in seed_id
    lanes: Lanes | None = None
    internal: Any = None
    started = 0
    while True:
        lanes, internal, position, started = _fill(
            parts, policy, seeds, seed_id, visit, passage.num_lanes, lanes, internal, position, started
        )
        if lanes is None:
            break
        decision = decide(policy, lanes, internal, passage)
        before = lanes
        lanes, transition = advance(parts, before, decision.action)
        check_length(lanes, steps_room)
        for recorder in recorders:
            recorder.record(lanes, transition)
        add_up(result, position, transition)
        if keep is not None:
            table.write(before.status.step, position, keep(before, internal, decision, lanes, transition))
        internal = decision.internal_state
        if lanes.status.is_done.any():
            lanes, internal, position = _retire(parts, result, lanes, transition, internal, position)
    if keep is not None and table.tree is not None:
        used = int(result.num_steps.max())
        result.rollout = map_lanes(lambda leaf: leaf[:used], table.tree)
    return result


def keep_transitions(before: Lanes, internal: Any, decision: Decision, after: Lanes, transition: Transition) -> Rollout:
    """Keep what a learning rule needs of one step: one row of a Rollout."""
    next_mask = None if after.mask is None else after.mask | transition.terminated[:, None]
    return Rollout(
        seed_id=before.status.seed_id,
        visit=before.status.visit,
        step=before.status.step,
        reference=before.reference,
        next_reference=after.reference,
        action=decision.action,
        reward=transition.reward,
        components=transition.components,
        terminated=transition.terminated,
        truncated=transition.truncated,
        is_alive=np.ones(len(before.status.step), bool),
        mask=before.mask,
        next_mask=next_mask,
        log_prob=decision.log_prob,
        value=decision.value,
        internal_state=internal,
        auxiliary=transition.auxiliary,
    )


def _fill(
    parts: EnvironmentParts,
    policy: Policy,
    seeds: SeedSet[Any],
    seed_id: NDArray[np.int64],
    visit: NDArray[np.int64],
    slots: int,
    lanes: Lanes | None,
    internal: Any,
    position: NDArray[np.int64],
    started: int,
) -> tuple[Lanes | None, Any, NDArray[np.int64], int]:
    """Start the next seeds in the empty slots."""
    room = min(slots - len(position), len(seed_id) - started)
    if room > 0:
        fresh = np.arange(started, started + room)
        new = begin(parts, seeds.take(seed_id[fresh]), seed_id[fresh], visit[fresh])
        new_internal = policy.initial_internal_state(room)
        lanes = new if lanes is None else concat_lanes(lanes, new)
        internal = new_internal if not len(position) else concat_lanes(internal, new_internal)
        position = np.concatenate([position, fresh])
    return lanes, internal, position, started + max(room, 0)


def check_length(lanes: Lanes, max_steps: int) -> None:
    """Refuse an episode that goes on beyond the length that its simulator states."""
    is_too_long = (lanes.status.step >= max_steps) & ~lanes.status.is_done
    if is_too_long.any():
        seed_id = lanes.status.seed_id[is_too_long][0]
        raise ContractError(
            f"episode of seed {seed_id} must end within max_steps = {max_steps} steps, has not ended: "
            "let the simulator end it, say a larger max_steps, or let it be cut there (at_max_steps: truncate)"
        )


def add_up(result: Episodes, position: NDArray[np.int64], transition: Transition) -> None:
    """Add one step to the episodes at these positions."""
    result.num_steps[position] += 1
    result.episode_return[position] += transition.reward
    for name, value in transition.components.items():
        result.component_sums.setdefault(name, np.zeros(len(result.num_steps)))[position] += value
    known, is_known = auxiliary_numbers(transition)
    for totals, fresh in ((result.auxiliary_sums, known), (result.auxiliary_counts, is_known)):
        for name, value in fresh.items():
            totals.setdefault(name, np.zeros(len(result.num_steps)))[position] += value


def auxiliary_numbers(transition: Transition) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """Return the auxiliary information that can be added up, one number or truth value for each lane, and where it is known.

    What is not finite is not known at this step, and 0 in the first.
    """
    numbers = {name: value for name, value in transition.auxiliary.items() if value.ndim == 1 and value.dtype.kind in "fiub"}
    is_known = {name: np.isfinite(value) for name, value in numbers.items()}
    return {name: np.where(is_known[name], value, 0.0) for name, value in numbers.items()}, is_known


def _retire(
    parts: EnvironmentParts, result: Episodes, lanes: Lanes, transition: Transition, internal: Any, position: NDArray[np.int64]
) -> tuple[Lanes | None, Any, NDArray[np.int64]]:
    """Write how finished lanes ended and their metrics, and drop them."""
    note_ends(parts, result, lanes, transition, position)
    is_done = lanes.status.is_done
    if is_done.all():
        return None, None, position[:0]
    return living(lanes), take_lanes(internal, ~is_done), position[~is_done]


def note_ends(
    parts: EnvironmentParts, result: Episodes, lanes: Lanes, transition: Transition, position: NDArray[np.int64]
) -> None:
    """Write how those of the episodes at these positions that have finished ended, and their metrics."""
    is_done = lanes.status.is_done
    result.is_truncated[position[is_done]] = (transition.truncated & ~transition.terminated)[is_done]
    finished = lanes.state if is_done.all() else take_lanes(lanes.state, is_done)
    for name, value in metrics_of(parts, finished, int(is_done.sum())).items():
        result.metrics.setdefault(name, np.full(len(result.num_steps), np.nan))[position[is_done]] = value


def metrics_of(parts: EnvironmentParts, finished: Any, count: int) -> dict[str, NDArray[np.float64]]:
    """Return the metrics of finished lanes.

    Raises:
        ContractError: for a metric that is not one figure for each lane: NumPy would write one figure into all rows.
    """
    metrics = dict(parts.simulator.metrics(finished))
    for name, value in metrics.items():
        if np.shape(value) != (count,):
            raise ContractError(
                f"metric {name!r} of the simulator must have shape (lanes,) = ({count},), was of shape {np.shape(value)}"
            )
    return metrics
