"""How a step's shares spread over its ticks: free functions over the last (tick) axis, for any leading shape."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_BEYOND_ANY_ORDER = np.array(1e280)  # times any volume: no order reaches it, and it does not overflow


def capacity(tradable_volume: Floats, participation_cap: float | None) -> Floats:
    """Return the most shares that each tick can give, shape (…, ticks).

    c_i = cap · V_i; without a cap, more than any order where the market trades (V_i > 0) and zero where it does not.
    """
    if participation_cap is None:
        beyond: Floats = tradable_volume * _BEYOND_ANY_ORDER  # four times as fast as choosing between infinity and zero
        return beyond
    return participation_cap * tradable_volume


def equal_split(quantity: Floats, num_ticks: NDArray[np.int64], tick_capacity: Floats) -> Floats:
    """Spread shares evenly over the ticks of a step: q_i = min(Q / n, c_i).

    What a tick cannot take stays unfilled; it is not moved to other ticks. Ticks that do not belong to the step must come
    with zero capacity.

    Args:
        quantity: Q, shape (…).
        num_ticks: n ≥ 1, the ticks of the step, shape (…).
        tick_capacity: c, shape (…, ticks).
    """
    # As floats, because NumPy divides floats by integers in a slow, buffered way.
    return np.minimum((quantity / num_ticks.astype(np.float64))[..., None], tick_capacity)


def water_fill(quantity: Floats, tick_capacity: Floats) -> Floats:
    """Spread shares as evenly as the capacities allow: q_i = min(λ, c_i) with the least λ for which Σ q_i = Q.

    Where Σ c_i < Q every tick gives all it can. Sorting c_(0) ≤ c_(1) ≤ …, a level that lies between c_(j−1) and c_(j) solves
    Σ_{i<j} c_(i) + (n − j) λ = Q; the first j whose solution stays below c_(j) is the one.

    Args:
        quantity: Q ≥ 0, shape (…).
        tick_capacity: c ≥ 0, infinity allowed, shape (…, ticks).
    """
    level = np.array(quantity / tick_capacity.shape[-1])
    # The common case needs no sorting: every tick can take an equal part. The general one has the same bits for it.
    is_below = tick_capacity < level[..., None]
    if np.count_nonzero(is_below):
        is_short = is_below.any(axis=-1)
        level[is_short] = _level(quantity[is_short], tick_capacity[is_short])
    filled: Floats = np.minimum(level[..., None], tick_capacity)
    return filled


def _level(quantity: Floats, tick_capacity: Floats) -> Floats:
    ordered = np.sort(tick_capacity, axis=-1)
    below = np.zeros_like(ordered)
    np.cumsum(ordered[..., :-1], axis=-1, out=below[..., 1:])
    candidates = (quantity[..., None] - below) / np.arange(ordered.shape[-1], 0, -1)
    is_solution = candidates <= ordered
    first = is_solution.argmax(axis=-1)
    level: Floats = np.take_along_axis(candidates, first[..., None], axis=-1)[..., 0]
    level[~is_solution.any(axis=-1)] = np.inf
    return level
