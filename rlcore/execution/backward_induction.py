"""Exact values of small execution problems: what is left to trade, and a Markov signal that says where the price goes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlcore.foundation.errors import ContractError


@dataclass(frozen=True, slots=True)
class InventoryProblem:
    """A finite-horizon decision problem over (inventory level, information).

    ``reward[k, i, j, z]``: expected reward of moving from level i to level j at step k with information z; −inf where forbidden.
    ``transition[k, z, y]``: probability that the information is y at step k + 1 given z at step k. Information does not
    depend on what is traded. The value after the last step is 0.
    """

    reward: NDArray[np.float64]  # (steps, levels, levels, signals)
    transition: NDArray[np.float64]  # (steps, signals, signals)

    def __post_init__(self) -> None:
        steps, levels, to_levels, signals = self.reward.shape
        if levels != to_levels or self.transition.shape != (steps, signals, signals):
            raise ContractError(
                f"transition must have shape (steps, signals, signals) = {(steps, signals, signals)} and reward square levels, "
                f"were {self.transition.shape} and {self.reward.shape}"
            )
        if not np.allclose(self.transition.sum(axis=-1), 1.0, rtol=0.0, atol=1e-12):
            raise ContractError("rows of transition must sum to 1, did not: they are probabilities")


@dataclass(frozen=True, slots=True)
class Solution:
    """``value[k, i, z]`` with k = 0 … steps; ``best_level[k, i, z]``: where to go (the lowest level among equals)."""

    value: NDArray[np.float64]  # (steps + 1, levels, signals)
    best_level: NDArray[np.int64]  # (steps, levels, signals)


def solve(problem: InventoryProblem) -> Solution:
    """Return the optimal values and policy: V_k(i, z) = max_j reward_k(i, j, z) + Σ_y P_k(z, y) V_{k+1}(j, y)  (Bellman 1957)."""
    steps, levels, _, signals = problem.reward.shape
    value = np.zeros((steps + 1, levels, signals))
    best_level = np.zeros((steps, levels, signals), np.int64)
    for step in reversed(range(steps)):
        total = problem.reward[step] + _expected(problem, value[step + 1], step)[None]
        best_level[step] = total.argmax(axis=1)
        value[step] = total.max(axis=1)
    return Solution(value, best_level)


def evaluate_plan(problem: InventoryProblem, plan: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return values (steps + 1, levels, signals) of the policy that moves to level ``plan[k, i, z]``."""
    steps, levels, _, signals = problem.reward.shape
    value = np.zeros((steps + 1, levels, signals))
    for step in reversed(range(steps)):
        total = problem.reward[step] + _expected(problem, value[step + 1], step)[None]
        value[step] = np.take_along_axis(total, plan[step][:, None, :], axis=1)[:, 0, :]
    return value


def _expected(problem: InventoryProblem, value: NDArray[np.float64], step: int) -> NDArray[np.float64]:
    """Σ_y P_k(z, y) V_{k+1}(j, y), shape (levels, signals)."""
    # A level from which nothing is allowed has the value −inf; 0 · −inf would be NaN.
    reachable = np.isfinite(value)
    expected = np.where(reachable, value, 0.0) @ problem.transition[step].T
    is_lost = (~reachable).astype(np.float64) @ problem.transition[step].T > 0.0
    return np.where(is_lost, -np.inf, expected)
