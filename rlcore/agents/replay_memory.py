"""What an agent remembers: references, not observations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.agents.plain_state import tree_from_tensors, tree_to_tensors
from rlcore.agents.returns import n_step_windows
from rlcore.agents.tianshou_batch import RowSource, weighted_rows
from rlcore.agents.transitions import alive_steps
from rlcore.contracts.interpreters import Reference
from rlcore.environment.rollout import Rollout
from rlcore.foundation.lanes import map_lanes


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
    """A ring of transitions; the oldest make room. Episodes (or fragments) lie in it whole, one after another.

    Each row knows its n-step window, which never leaves its episode. A window's later rows are younger than its first, so
    whatever can be drawn is complete.

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

    def add(self, rollout: Rollout) -> None:
        """Remember every step that was taken."""
        columns = _columns_of(rollout, self._discount, self._num_return_steps)
        count = len(columns["action"])
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
        last = (rows + ring["window"][rows]) % self._size
        mask = ring["next_mask"]
        return map_lanes(lambda leaf: leaf[last], ring["next_reference"]), None if mask is None else mask[last]

    def state_dict(self) -> dict[str, Any]:
        """Return plain data and tensors; only rows that are filled."""
        filled = None if self._columns is None else map_lanes(lambda leaf: leaf[: self.num_rows], self._columns)
        return {
            "next": self._next,
            "num_rows": self.num_rows,
            "columns": tree_to_tensors(filled),
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
        self.draw.load_state_dict(state["draw"])

    def _ring(self) -> dict[str, Any]:
        if self._columns is None:
            raise LookupError("a replay memory must hold transitions before any are drawn, was empty")
        return self._columns


def _columns_of(rollout: Rollout, discount: float, num_return_steps: int) -> dict[str, Any]:
    alive = alive_steps(rollout)
    boundary: NDArray[np.bool_] = alive.rows(alive.boundary)
    reward, terminated = alive.rows(rollout.reward), alive.rows(rollout.terminated)
    reward_sum, window, bootstrap_discount = n_step_windows(reward, terminated, boundary, discount, num_return_steps)
    return {
        "reference": alive.rows(rollout.reference),
        "next_reference": alive.rows(rollout.next_reference),
        "mask": alive.rows(rollout.mask),
        "next_mask": alive.rows(rollout.next_mask),
        "action": alive.rows(rollout.action),
        "reward_sum": reward_sum.astype(np.float32),
        "window": window,
        "bootstrap_discount": bootstrap_discount.astype(np.float32),
    }
