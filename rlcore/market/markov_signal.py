"""A finite, observed Markov chain that moves the drift of the synthetic market: a known amount to learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.foundation.errors import ConfigError

_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class MarkovSignal:
    """The law of the signal and of the drift it brings.

    A day of K · L ticks has K steps of L = ``signal_ticks`` ticks. Step j has the state x_j: x_0 ~ π (the stationary law), and
    x_{j+1} ~ P(x_j, ·); every day starts afresh. In each tick of step j the price drifts by

        P_0 · drift_bps · 1e-4 · values[x_j] / L,

    where P_0 is the price at the start of the day. The state of the coming step is published at the end of the step before:
    the field ``signal`` at tick t holds values[x_⌊(t + 1) / L⌋], so that whoever reads it at the last completed tick knows
    the drift of the next tick, and at the border of two steps the drift of the whole next step. Nothing is published of x_0:
    the field is NaN in the first L - 1 ticks of a day. The last tick of a day repeats x_{K-1}, since no step follows.
    """

    values: tuple[float, ...]
    """(states,) what the field shows."""
    transition: tuple[tuple[float, ...], ...]
    """(states, states) P(i, j), probability of j in the next step; rows sum to 1."""
    drift_bps: float
    """Drift in basis points of P_0 per step and per unit of the value."""
    signal_ticks: int
    """L, ticks of a step of the signal."""

    def __post_init__(self) -> None:
        matrix = np.array(self.transition, dtype=np.float64)
        size = len(self.values)
        if size == 0 or matrix.shape != (size, size):
            raise ConfigError(
                f"transition must have one row and one column for each of the {size} values, had shape {matrix.shape}"
            )
        if (matrix < 0).any() or not np.allclose(matrix.sum(axis=1), 1.0, rtol=0.0, atol=_TOLERANCE):
            raise ConfigError(f"rows of transition must be probabilities that sum to 1, were {self.transition}")
        if self.signal_ticks < 1:
            raise ConfigError(f"signal_ticks must be at least 1, was {self.signal_ticks}")
        if not np.isfinite([*self.values, self.drift_bps]).all():
            raise ConfigError(f"values and drift_bps must be finite, were {self.values} and {self.drift_bps}")
        if np.linalg.matrix_rank(matrix.T - np.eye(size), tol=_TOLERANCE) != size - 1:
            raise ConfigError(f"transition must have one stationary law, had several: {self.transition}; join its separate parts")

    @property
    def transition_matrix(self) -> NDArray[np.float64]:
        """(states, states)."""
        return np.array(self.transition, dtype=np.float64)

    @property
    def stationary(self) -> NDArray[np.float64]:
        """(states,) π with π P = π: the law of x_0, and so of every x_j."""
        matrix = self.transition_matrix
        size = len(matrix)
        equations = np.vstack([matrix.T - np.eye(size), np.ones(size)])
        law: NDArray[np.float64] = np.linalg.lstsq(equations, np.r_[np.zeros(size), 1.0], rcond=None)[0]
        return law

    @property
    def drift_of_state(self) -> NDArray[np.float64]:
        """(states,) drift of a whole step as a fraction of P_0."""
        return np.array(self.values) * self.drift_bps * 1e-4

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "values": list(self.values),
            "transition": [list(row) for row in self.transition],
            "drift_bps": self.drift_bps,
            "signal_ticks": self.signal_ticks,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> MarkovSignal:
        """Return the signal of ``to_dict``."""
        return cls(
            values=tuple(data["values"]),
            transition=tuple(tuple(row) for row in data["transition"]),
            drift_bps=data["drift_bps"],
            signal_ticks=data["signal_ticks"],
        )


def draw_states(signal: MarkovSignal, num_days: int, num_steps: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Return (days, steps) states x_j of independent days."""
    uniforms = generator.random((num_days, num_steps))
    # The last bound is 1 whatever rounding says: a uniform is below it.
    bounds = np.cumsum(signal.transition_matrix, axis=1)[:, :-1]
    states = np.empty((num_days, num_steps), np.int64)
    states[:, 0] = np.searchsorted(np.cumsum(signal.stationary)[:-1], uniforms[:, 0], side="right")
    for step in range(1, num_steps):
        states[:, step] = (uniforms[:, step, None] >= bounds[states[:, step - 1]]).sum(axis=1)
    return states


def published_signal(signal: MarkovSignal, states: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return (days, ticks) of the field ``signal`` for states (days, steps)."""
    ticks = np.arange(states.shape[1] * signal.signal_ticks)
    step = np.minimum((ticks + 1) // signal.signal_ticks, states.shape[1] - 1)
    field = np.array(signal.values)[states[:, step]]
    field[:, : signal.signal_ticks - 1] = np.nan
    if states.shape[1] == 1:
        field[:] = np.nan
    return field
