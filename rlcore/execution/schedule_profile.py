"""When in their windows orders were filled: the average execution schedule of a policy."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlcore.environment.engine import Lanes, Transition

NUM_BINS = 50  # parts of the normalised window; fine enough for a plot, coarse enough for windows of a few ticks


class ScheduleRecorder:
    """A StepRecorder that keeps the share of each order filled in each fiftieth of its window.

    A tick that spans several parts gives each of them what lies in it.
    """

    def __init__(self, num_orders: int) -> None:
        self._share = np.zeros((num_orders, NUM_BINS))

    def record(self, lanes: Lanes, transition: Transition) -> None:
        outcome, seed_id = transition.outcome, lanes.status.seed_id
        order = outcome.order
        filled = np.zeros((len(seed_id), outcome.filled.shape[1] + 1))
        np.cumsum(outcome.filled / order.quantity[:, None], axis=-1, out=filled[:, 1:])
        # The cumulative share runs straight between tick edges; read it at the edges of the parts, in ticks of this step.
        length = (order.end_tick - order.start_tick)[:, None]
        edges = np.arange(NUM_BINS + 1) * length / NUM_BINS - (outcome.first_tick - order.start_tick)[:, None]
        edges = np.clip(edges, 0.0, filled.shape[1] - 1)
        tick = np.minimum(edges.astype(np.int64), filled.shape[1] - 2)
        left, right = (np.take_along_axis(filled, at, axis=-1) for at in (tick, tick + 1))
        self._share[seed_id] += np.diff(left + (edges - tick) * (right - left), axis=-1)

    def mean_share(self) -> NDArray[np.float64]:
        """Return the mean share of an order filled in each part, (NUM_BINS,); unfilled orders count."""
        mean: NDArray[np.float64] = self._share.mean(axis=0)
        return mean


def profile_frame(policy: str, training_seed: int | None, mean_share: NDArray[np.float64]) -> pd.DataFrame:
    """Return one row per part of the window: where it ends, the share filled in it, and the share filled by then."""
    return pd.DataFrame(
        {
            "policy": policy,
            "training_seed": pd.array([training_seed] * len(mean_share), dtype="Int64"),
            "window_fraction": np.arange(1, len(mean_share) + 1) / len(mean_share),
            "filled_share": mean_share,
            "cumulative_share": np.cumsum(mean_share),
        }
    )
