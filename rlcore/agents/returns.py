"""What actions turned out to be worth, from rewards and a critic's estimates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def is_boundary(terminated: NDArray[np.bool_], truncated: NDArray[np.bool_], is_alive: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return after which steps (steps, lanes) nothing of the same episode follows in the same lane.

    An episode ended there (terminated), was cut from outside (truncated), or the fragment stops.
    """
    follows = np.zeros_like(is_alive)
    follows[:-1] = is_alive[1:]
    return terminated | truncated | ~follows


def generalized_advantages(
    reward: Floats, value: Floats, next_value: Floats, boundary: NDArray[np.bool_], discount: float, gae_lambda: float
) -> Floats:
    """Return generalised advantages (Schulman et al. 2016, arXiv:1506.02438, eq. 16), shape (steps, lanes).

    A_t = δ_t + γλ A_{t+1} inside an episode, A_t = δ_t at its boundary, with δ_t = r_t + γ V(s_{t+1}) − V(s_t).

    Args:
        reward: r_t, (steps, lanes).
        value: V(s_t).
        next_value: V(s_{t+1}) of the *same* episode; 0 where the episode terminated. Where it was truncated: of its final
            observation, never of the next episode's first.
        boundary: ``is_boundary``; nothing is carried over it.
        discount: γ.
        gae_lambda: λ.
    """
    error = reward + discount * next_value - value
    carry = np.where(boundary, 0.0, discount * gae_lambda)
    advantage = np.zeros_like(error)
    following = np.zeros(error.shape[1:])
    for step in range(len(error) - 1, -1, -1):
        following = error[step] + carry[step] * following
        advantage[step] = following
    return advantage


def n_step_windows(
    reward: Floats, terminated: NDArray[np.bool_], boundary: NDArray[np.bool_], discount: float, num_steps: int
) -> tuple[Floats, NDArray[np.int64], Floats]:
    """Return, for rows of episodes one after another, what an n-step target is made of: R + D · Q(next observation of row + K).

    A window ends after n steps or at its episode's boundary, whichever comes first.

    Args:
        reward: (rows,).
        terminated: (rows,).
        boundary: (rows,) after this row another episode begins; true in the last row.
        discount: γ.
        num_steps: n.

    Returns:
        R = Σ_{k≤K} γ^k r; K, steps from the row to the last of its window; D = γ^{K+1}, 0 where the window ends by termination.
    """
    ends = np.flatnonzero(boundary)
    rows = np.arange(len(reward))
    left = ends[np.searchsorted(ends, rows)] - rows if len(rows) else rows
    last = np.minimum(left, num_steps - 1)
    total = np.zeros(len(reward))
    for k in range(num_steps):
        total += np.where(k <= last, discount**k * reward[np.minimum(rows + k, max(len(reward) - 1, 0))], 0.0)
    following = np.where(terminated[rows + last], 0.0, discount ** (last + 1.0))
    return total, last, following
