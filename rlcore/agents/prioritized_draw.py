"""Surprising transitions are drawn more often (Schaul et al. 2016, arXiv:1511.05952, proportional variant)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rlcore.agents.off_policy_specs import PrioritySpec
from rlcore.agents.replay_memory import RowDraw
from rlcore.agents.sum_tree import SumTree

# What an error counts at least, so that no transition is forgotten while it is remembered.
_LEAST_ERROR = 1e-6


class PrioritizedDraw(RowDraw):
    """P(i) = p_i^α / Σ_k p_k^α with p = |error| + 10⁻⁶; weights w_i = (N · P(i))^−β / max_j w_j over the drawn rows j.

    New transitions get the greatest p so far, so that each is likely to be learned from. Rows are drawn one from each of
    ``count`` equal shares of the sum (appendix B.2.1). β goes from its first value to 1 with the number of draws.

    The greatest weight is that of the drawn rows and not of all: one row whose error is almost nothing would otherwise shrink
    every step, for as long as it is remembered (tianshou even for good: its running minimum never rises).
    """

    def __init__(self, size: int, spec: PrioritySpec) -> None:
        self._spec = spec
        self._tree = SumTree(size)  # of p^α
        self._greatest = 1.0  # p
        self._num_draws = 0

    @property
    def correction(self) -> float:
        """β of the next draw."""
        first = self._spec.initial_correction
        return first + (1.0 - first) * min(self._num_draws / self._spec.num_gradient_steps, 1.0)

    def draw(self, num_rows: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        total = self._tree.total
        share = np.random.random(count)  # noqa: NPY002  # see RowDraw
        rows = self._tree.find((np.arange(count) + share) / count * total)
        weight = (num_rows * self._tree[rows] / total) ** -self.correction
        self._num_draws += 1
        return rows, (weight / weight.max()).astype(np.float32)

    def added(self, rows: NDArray[np.int64]) -> None:
        self._tree.set(rows, np.full(len(rows), self._greatest**self._spec.exponent))

    def learned(self, rows: NDArray[np.int64], error: NDArray[np.floating[Any]]) -> None:
        priority = np.abs(error).astype(np.float64) + _LEAST_ERROR
        self._greatest = max(self._greatest, float(priority.max()))
        self._tree.set(rows, priority**self._spec.exponent)

    def state_dict(self, num_rows: int) -> dict[str, Any]:
        return {
            "weights": torch.from_numpy(self._tree[:num_rows].copy()),
            "greatest": self._greatest,
            "num_draws": self._num_draws,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._tree = SumTree(self._tree.size)
        weights = state["weights"].numpy()
        self._tree.set(np.arange(len(weights)), weights)
        self._greatest, self._num_draws = float(state["greatest"]), int(state["num_draws"])
