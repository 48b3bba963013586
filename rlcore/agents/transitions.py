"""Rollouts (steps, lanes, …) → transitions (rows, …), each lane's steps one after another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.agents.returns import is_boundary
from rlcore.contracts.interpreters import Reference
from rlcore.environment.rollout import Rollout
from rlcore.foundation.lanes import map_lanes


@dataclass(frozen=True, slots=True)
class AliveSteps:
    """Where in a rollout the steps are that were really taken; with these any of its arrays is brought to rows."""

    step: NDArray[np.int64]  # (rows,)
    lane: NDArray[np.int64]  # (rows,)
    boundary: NDArray[np.bool_]  # (steps, lanes): nothing of the same episode follows

    def rows(self, tree: Any) -> Any:
        """Return a tree of (steps, lanes, …) as (rows, …)."""
        return map_lanes(lambda leaf: leaf[self.step, self.lane], tree)

    def table(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return (rows,) as (steps, lanes); 0 where no step was taken."""
        table = np.zeros(self.boundary.shape, rows.dtype)
        table[self.step, self.lane] = rows
        return table


def alive_steps(rollout: Rollout) -> AliveSteps:
    """Find the steps that were taken."""
    lane, step = np.nonzero(rollout.is_alive.T)
    return AliveSteps(step, lane, is_boundary(rollout.terminated, rollout.truncated, rollout.is_alive))


def cut_references(rollout: Rollout, alive: AliveSteps) -> tuple[NDArray[np.int64], NDArray[np.int64], Reference]:
    """Return steps, lanes and references of the observations whose value is needed because the episode was cut before them."""
    step, lane = np.nonzero(alive.boundary & rollout.is_alive & ~rollout.terminated)
    return step, lane, map_lanes(lambda leaf: leaf[step, lane], rollout.next_reference)
