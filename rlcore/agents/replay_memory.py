"""What an agent remembers: references, not observations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.agents.plain_state import tree_from_tensors, tree_to_tensors
from rlcore.agents.returns import n_step_windows
from rlcore.agents.tianshou_batch import RowSource, weighted_rows
from rlcore.agents.transitions import AliveSteps, alive_steps
from rlcore.contracts.interpreters import Reference
from rlcore.environment.rollout import Rollout
from rlcore.foundation.lanes import map_lanes, take_lanes


class RowDraw(ABC):
    """Which rows of a memory a gradient step learns from. It draws from NumPy's global generator, as tianshou's buffers do."""

    @abstractmethod
    def draw(self, num_rows: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.float32] | None]:
        """Return so many rows below ``num_rows``, with replacement, and their weights in the loss (None: all count alike)."""

    @abstractmethod
    def added(self, rows: NDArray[np.int64]) -> None:
        """Take note of new transitions at these rows."""

    @abstractmethod
    def learned(self, rows: NDArray[np.int64], error: NDArray[np.floating[Any]]) -> None:
        """Take note of how far the estimates of these rows were off."""

    @abstractmethod
    def state_dict(self, num_rows: int) -> dict[str, Any]:
        """Return plain data and tensors."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore."""


class UniformDraw(RowDraw):
    """Every row alike."""

    def draw(self, num_rows: int, count: int) -> tuple[NDArray[np.int64], None]:
        return np.random.randint(num_rows, size=count), None  # noqa: NPY002  # see RowDraw

    def added(self, rows: NDArray[np.int64]) -> None:
        """New rows are like the old ones."""

    def learned(self, rows: NDArray[np.int64], error: NDArray[np.floating[Any]]) -> None:
        """Errors change nothing."""

    def state_dict(self, num_rows: int) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """There is nothing to restore."""


class ReplayMemory(RowSource):
    """A ring of transitions; the oldest make room.

    Each row knows the sum of its n-step window, which never leaves its episode, and what stood after it. A transition takes its
    place when its window is complete: after n steps, or where its episode ends. Where episodes in progress go on in the next
    rollout, so do their windows; until then the last transitions wait outside.

    Args:
        size: transitions that are remembered.
        discount: of the windows.
        num_return_steps: of the windows.
        draw: which rows are learned from.
    """

    def __init__(self, size: int, discount: float, num_return_steps: int, draw: RowDraw) -> None:
        super().__init__(0)
        self.draw = draw
        self._size = size
        self._discount = discount
        self._num_return_steps = num_return_steps
        self._next = 0  # where the next row goes
        self._columns: dict[str, Any] | None = None  # lane trees, (size, …)
        self._waiting: Rollout | None = None  # the last n - 1 steps; those alive wait for their windows to be complete

    def add(self, rollout: Rollout) -> None:
        """Remember every step that was taken.

        Steps that wait are joined to a rollout that goes on with their episodes in the same lanes. Before any other, their
        windows end where they stand.
        """
        bare = _without_what_is_not_remembered(rollout)
        waiting, self._waiting = self._waiting, None
        if waiting is not None and _goes_on(waiting, bare):
            bare = map_lanes(lambda *leaves: np.concatenate(leaves), waiting, bare)
        elif waiting is not None:
            windows = self._windows(waiting)
            self._put(windows.columns(np.ones(len(windows.end), bool)))
        windows = self._windows(bare)
        is_waiting = windows.is_incomplete & bare.is_alive[-1, windows.alive.lane]
        if is_waiting.any():
            is_alive = windows.alive.table(is_waiting)
            last = replace(bare, is_alive=is_alive)
            self._waiting = map_lanes(lambda leaf: leaf[-(self._num_return_steps - 1) :], last)
        self._put(windows.columns(~is_waiting))

    def _windows(self, rollout: Rollout) -> _Windows:
        return _windows_of(rollout, self._discount, self._num_return_steps)

    def _put(self, columns: dict[str, Any]) -> None:
        count = len(columns["action"])
        if count == 0:
            return
        kept = min(count, self._size)  # of more than fit, the last
        if self._columns is None:
            self._columns = map_lanes(lambda leaf: np.zeros((self._size, *leaf.shape[1:]), leaf.dtype), columns)
        where = (self._next + np.arange(kept)) % self._size

        def put(ring: NDArray[Any], leaf: NDArray[Any]) -> NDArray[Any]:
            ring[where] = leaf[count - kept :]
            return ring

        map_lanes(put, self._columns, columns)
        self._next = (self._next + kept) % self._size
        self.num_rows = min(self.num_rows + kept, self._size)
        self.draw.added(where)

    def sample(self, sample_size: int | None) -> tuple[Any, NDArray[np.int64]]:
        """Return drawn rows; the Batch holds them as ``row`` and, where they do not count alike, ``weight``."""
        assert sample_size  # an off-policy algorithm asks for a batch
        rows, weight = self.draw.draw(self.num_rows, sample_size)
        return weighted_rows(rows, weight), rows

    def column(self, name: str, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return ``action``, ``reward_sum`` or ``bootstrap_discount`` of rows."""
        return self._ring()[name][rows]  # type: ignore[no-any-return]  # columns are trees; these are arrays

    def reference(self, rows: NDArray[np.int64]) -> Reference:
        """Return the references of the observations that the actions answered."""
        return map_lanes(lambda leaf: leaf[rows], self._ring()["reference"])

    def mask(self, rows: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Return which actions were possible at these observations; None: all are, always."""
        mask = self._ring()["mask"]
        return None if mask is None else mask[rows]

    def window_ends(self, rows: NDArray[np.int64]) -> tuple[Reference, NDArray[np.bool_] | None]:
        """Return references, and masks, of the observations after the windows of rows."""
        ring = self._ring()
        mask = ring["end_mask"]
        return map_lanes(lambda leaf: leaf[rows], ring["end_reference"]), None if mask is None else mask[rows]

    def state_dict(self) -> dict[str, Any]:
        """Return plain data and tensors; only rows that are filled."""
        filled = None if self._columns is None else map_lanes(lambda leaf: leaf[: self.num_rows], self._columns)
        return {
            "next": self._next,
            "num_rows": self.num_rows,
            "columns": tree_to_tensors(filled),
            "waiting": None if self._waiting is None else tree_to_tensors(_as_dict(self._waiting)),
            "draw": self.draw.state_dict(self.num_rows),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore."""
        self._next, self.num_rows = int(state["next"]), int(state["num_rows"])
        filled = tree_from_tensors(state["columns"])

        def widen(leaf: NDArray[Any]) -> NDArray[Any]:
            ring = np.zeros((self._size, *leaf.shape[1:]), leaf.dtype)
            ring[: self.num_rows] = leaf
            return ring

        self._columns = None if filled is None else map_lanes(widen, filled)
        self._waiting = None if state["waiting"] is None else Rollout(**tree_from_tensors(state["waiting"]))
        self.draw.load_state_dict(state["draw"])

    def _ring(self) -> dict[str, Any]:
        if self._columns is None:
            raise LookupError("a replay memory must hold transitions before any are drawn, was empty")
        return self._columns


@dataclass(frozen=True, slots=True)
class _Windows:
    """The n-step windows of a rollout's steps, by row."""

    rollout: Rollout
    alive: AliveSteps
    reward_sum: NDArray[np.float64]
    end: NDArray[np.int64]  # the row of the window's last step
    bootstrap_discount: NDArray[np.float64]
    is_incomplete: NDArray[np.bool_]  # it would go on if the rollout did

    def columns(self, chosen: NDArray[np.bool_]) -> dict[str, Any]:
        """Return what is remembered of the chosen rows."""
        rows, end, rollout = self.alive.rows, self.end[chosen], self.rollout

        def at_start(tree: Any) -> Any:
            return take_lanes(rows(tree), chosen)

        return {
            "reference": at_start(rollout.reference),
            "mask": at_start(rollout.mask),
            "action": at_start(rollout.action),
            "reward_sum": self.reward_sum[chosen].astype(np.float32),
            "bootstrap_discount": self.bootstrap_discount[chosen].astype(np.float32),
            "end_reference": take_lanes(rows(rollout.next_reference), end),
            "end_mask": take_lanes(rows(rollout.next_mask), end),
        }


def _windows_of(rollout: Rollout, discount: float, num_return_steps: int) -> _Windows:
    alive = alive_steps(rollout)
    boundary: NDArray[np.bool_] = alive.rows(alive.boundary)
    reward, terminated = alive.rows(rollout.reward), alive.rows(rollout.terminated)
    reward_sum, window, bootstrap_discount = n_step_windows(reward, terminated, boundary, discount, num_return_steps)
    end = np.arange(len(window)) + window
    is_done = terminated | alive.rows(rollout.truncated)
    is_incomplete = (window < num_return_steps - 1) & ~is_done[end]
    return _Windows(rollout, alive, reward_sum, end, bootstrap_discount, is_incomplete)


def _goes_on(waiting: Rollout, rollout: Rollout) -> bool:
    """Whether the episodes of the steps that wait go on in the same lanes of this rollout."""
    if waiting.is_alive.shape[1] != rollout.is_alive.shape[1]:
        return False
    lane = waiting.is_alive[-1]
    return bool(
        rollout.is_alive[0, lane].all()
        and (rollout.step[0, lane] == waiting.step[-1, lane] + 1).all()
        and (rollout.seed_id[0, lane] == waiting.seed_id[-1, lane]).all()
        and (rollout.visit[0, lane] == waiting.visit[-1, lane]).all()
    )


def _without_what_is_not_remembered(rollout: Rollout) -> Rollout:
    return replace(rollout, components={}, log_prob=None, value=None, internal_state=None, auxiliary={})


def _as_dict(rollout: Rollout) -> dict[str, Any]:
    return {field.name: getattr(rollout, field.name) for field in fields(rollout)}
