"""What is there to win on the synthetic market: exact values by backward induction over the agent's own actions and knowledge.

In tick t the price drifts by δ_t = P_0 · d(x_⌊t/L⌋) / L (``rlcore.market.markov_signal``) and a step spreads its shares evenly
over its ticks, filled at their closes. The drift of a tick moves whatever is filled in that tick or later, so a step over the
ticks now … now + n − 1 that takes the order from the fraction r to r' earns, against the price at the start of the window,

    −s · Σ_{m=0}^{n−1} E[δ_{now+m} | z] · (r − (r − r') m / n),    E[δ_t | z] = (P^{⌊t/L⌋ − ⌊now/L⌋} d)[z] · P_0 / L,

where z is the state that the field ``signal`` shows at the last completed tick, which is the coming tick's. Before the first
state is published nothing is known and the stationary law stands for z. Noise is a martingale and earns nothing; fills do not
move the price. All values are in bps of P_0, the day's first price: the arrival price of a window that starts with the day, and
apart from the move since then that of a later one.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlcore.execution import fills
from rlcore.execution.backward_induction import InventoryProblem, Solution, evaluate_plan, solve
from rlcore.execution.clairvoyant import window_market
from rlcore.execution.metrics import BPS
from rlcore.execution.orders import NOTHING_LEFT, OrderBatch, OrderSet
from rlcore.execution.simulator import FastSimulator
from rlcore.foundation.errors import ConfigError
from rlcore.market.markov_signal import MarkovSignal

Floats = NDArray[np.float64]

_MAX_LEVELS = 2000  # remaining fractions; rewards hold levels² numbers per step and state
_CHUNK = 4096  # orders looked at together


class NoExactValueError(ConfigError):
    """The market, the simulator or the actions are such that no exact value is known; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Window:
    """The ticks that an order may use on the day's grid, and on which side. Orders of one window have one value."""

    start_tick: int
    end_tick: int
    side: float

    def steps(self, ticks_per_step: int) -> list[tuple[int, int]]:
        """Return (first tick, tick after the last) of each step."""
        inner = range((self.start_tick // ticks_per_step + 1) * ticks_per_step, self.end_tick, ticks_per_step)
        edges = [self.start_tick, *inner, self.end_tick]
        return list(itertools.pairwise(edges))


@dataclass(frozen=True, slots=True)
class WindowSolution:
    """The optimal policy of one window. The last state of the information axis stands for "nothing published yet"."""

    window: Window
    levels: Floats  # (levels,) remaining fractions, ascending from 0 to 1
    solution: Solution
    optimal_bps: float  # V*: expected gain of the best policy against arrival
    twap_bps: float  # the same of an even pace


def solve_window(signal: MarkovSignal, window: Window, ticks_per_step: int, fractions: tuple[float, ...]) -> WindowSolution:
    """Return the best policy with ``CategoricalFractions(fractions)``, which completes the order in the last step.

    Raises:
        NoExactValueError: where the fractions make too many different remainders.
    """
    steps = window.steps(ticks_per_step)
    levels = _levels(fractions, len(steps))
    after = np.maximum(levels[:, None] - np.array(fractions), 0.0)  # (levels, actions)
    target = np.abs(levels - after[..., None]).argmin(axis=-1)  # levels hold it up to rounding
    is_allowed = np.zeros((len(levels), len(levels)), bool)
    is_allowed[np.arange(len(levels))[:, None], target] = True
    reward = np.stack([_step_reward(signal, window.side, step, levels) for step in steps])
    reward[:-1, ~is_allowed] = -np.inf
    reward[-1, :, 1:] = -np.inf
    transition = np.stack([_transition(signal, step) for step in steps])
    solution = solve(InventoryProblem(reward, transition))
    start_law = _start_law(signal, window.start_tick)
    return WindowSolution(window, levels, solution, float(solution.value[0, -1] @ start_law), _twap_value(signal, window, steps))


@dataclass(frozen=True, slots=True)
class OrdersValue:
    """Expected gains against arrival over all orders of one side, in bps of the day's first price."""

    side: str  # "buy" or "sell"
    num_orders: int
    optimal_bps: float
    twap_bps: float

    @property
    def gain_bps(self) -> float:
        """V* over TWAP: what a perfect agent wins in expectation."""
        return self.optimal_bps - self.twap_bps


def value_orders(simulator: FastSimulator, orders: OrderSet, fractions: tuple[float, ...]) -> list[OrdersValue]:
    """Return V* and TWAP's value per side.

    A policy that does not see where its window lies cannot always reach V*, if windows differ.

    Raises:
        NoExactValueError: for a market without a signal, fills at another price than the close, or a cap that could bind.
    """
    solutions = solve_orders(simulator, orders, fractions)
    values = []
    for side, name in ((1.0, "buy"), (-1.0, "sell")):
        own = [(count, solved) for count, solved in solutions if solved.window.side == side]
        total = sum(count for count, _ in own)
        if total:
            optimal = sum(count * solved.optimal_bps for count, solved in own) / total
            values.append(OrdersValue(name, total, optimal, sum(count * solved.twap_bps for count, solved in own) / total))
    return values


def solve_orders(simulator: FastSimulator, orders: OrderSet, fractions: tuple[float, ...]) -> list[tuple[int, WindowSolution]]:
    """Return each different window's solution with the number of its orders. Raises as ``value_orders``."""
    signal = simulator.store.signal
    if signal is None:
        raise NoExactValueError(
            f"market must have a Markov signal to say what can be won, that at {simulator.store.path} has none"
        )
    if simulator.price != "close":
        raise NoExactValueError(f"price must be 'close' where the exact value is wanted, was {simulator.price!r}")
    _refuse_binding_cap(simulator, orders, max(fractions))
    windows = np.stack([orders.start_tick, orders.end_tick, orders.side.astype(np.int64)], axis=-1)
    different, counts = np.unique(windows, axis=0, return_counts=True)
    return [
        (int(count), solve_window(signal, Window(int(start), int(end), float(side)), simulator.ticks_per_step, fractions))
        for (start, end, side), count in zip(different, counts, strict=True)
    ]


def _levels(fractions: tuple[float, ...], num_steps: int) -> Floats:
    """Return every remaining fraction that the actions can reach, ascending; those closer than rounding are one."""
    levels = np.array([0.0, 1.0])
    for _ in range(num_steps - 1):
        reached = np.sort(np.concatenate([levels, np.maximum(levels[:, None] - np.array(fractions), 0.0).ravel()]))
        grown = reached[np.append(True, np.diff(reached) > NOTHING_LEFT)]
        if len(grown) > _MAX_LEVELS:
            raise NoExactValueError(
                f"fractions must lead to at most {_MAX_LEVELS} different remainders, led to more in {num_steps} steps: "
                "use multiples of one part"
            )
        if len(grown) == len(levels):
            break
        levels = grown
    return levels


def _expected_drift(signal: MarkovSignal, step: tuple[int, int]) -> Floats:
    """Return E[δ_t | z] of the step's ticks in bps of P_0, (ticks, states + 1); the last state knows nothing."""
    now, until = step
    first = now // signal.signal_ticks
    drift = np.zeros((until - now, len(signal.values) + 1))
    ahead = signal.drift_of_state
    for index in range(first, (until - 1) // signal.signal_ticks + 1):
        is_here = np.arange(now, until) // signal.signal_ticks == index
        drift[is_here, :-1] = ahead
        drift[is_here, -1] = signal.stationary @ signal.drift_of_state
        ahead = signal.transition_matrix @ ahead
    return drift * (BPS / signal.signal_ticks)


def _step_reward(signal: MarkovSignal, side: float, step: tuple[int, int], levels: Floats) -> Floats:
    """Return the expected gain of going from one level to another, (levels, levels, states + 1)."""
    drift = _expected_drift(signal, step)
    num_ticks = len(drift)
    # Σ_m δ_m (r − (r − r') m / n) = r · Σ_m δ_m − (r − r') · Σ_m δ_m m / n
    whole, late = drift.sum(axis=0), np.arange(num_ticks) @ drift / num_ticks
    before, sold = levels[:, None, None], (levels[:, None] - levels)[..., None]
    reward: Floats = -side * (before * whole - sold * late)
    return reward


def _transition(signal: MarkovSignal, step: tuple[int, int]) -> Floats:
    """Return the law of what is known after the step given what was known before, (states + 1, states + 1)."""
    now, until = step
    num_states = len(signal.values)
    law = np.zeros((num_states + 1, num_states + 1))
    jumps = until // signal.signal_ticks - now // signal.signal_ticks
    law[:-1, :-1] = np.linalg.matrix_power(signal.transition_matrix, jumps)
    law[-1] = _start_law(signal, until)
    # The chain's own rounding must not look like lost probability.
    normalised: Floats = law / law.sum(axis=-1, keepdims=True)
    return normalised


def _start_law(signal: MarkovSignal, tick: int) -> Floats:
    """Return what is known at a tick by somebody who saw nothing before, (states + 1,)."""
    if tick < signal.signal_ticks:
        return np.append(np.zeros(len(signal.values)), 1.0)
    return np.append(signal.stationary, 0.0)


def _twap_value(signal: MarkovSignal, window: Window, steps: list[tuple[int, int]]) -> float:
    """Return the value of the same number of shares in every tick; levels are the fractions at the borders of steps."""
    length = window.end_tick - window.start_tick
    levels = np.array([(window.end_tick - until) / length for _, until in reversed(steps)] + [1.0])
    reward = np.stack([_step_reward(signal, window.side, step, levels) for step in steps])
    transition = np.stack([_transition(signal, step) for step in steps])
    num_levels = len(levels)
    downwards = np.maximum(np.arange(num_levels) - 1, 0)
    plan = np.broadcast_to(downwards[:, None], (len(steps), num_levels, reward.shape[-1]))
    value = evaluate_plan(InventoryProblem(reward, transition), np.ascontiguousarray(plan))
    return float(value[0, -1] @ _start_law(signal, window.start_tick))


def _refuse_binding_cap(simulator: FastSimulator, orders: OrderSet, largest_fraction: float) -> None:
    """Raise where some tick could not take its even part of the largest trade that an action can ask for."""
    for first in range(0, len(orders), _CHUNK):
        batch = orders.take(np.arange(first, min(first + _CHUNK, len(orders))))
        demand = _largest_demand(simulator, batch, largest_fraction)
        _, volume = window_market(simulator, batch)
        is_short = (fills.capacity(volume, simulator.participation_cap) < demand * (1.0 - NOTHING_LEFT)) & (demand > 0.0)
        if is_short.any():
            lane, tick = (int(index) for index in np.argwhere(is_short)[0])
            raise NoExactValueError(
                f"participation cap {simulator.participation_cap} must never bind where the exact value is wanted, could bind "
                f"for order {batch.order_id[lane]} at tick {tick} of its steps: {demand[lane, tick]:.6g} shares may be asked for "
                f"and the market traded {volume[lane, tick]:.6g}; make orders smaller or the cap larger"
            )


def _largest_demand(simulator: FastSimulator, batch: OrderBatch, largest_fraction: float) -> Floats:
    """Return the most shares that a tick can be asked for, laid out as ``window_market`` does."""
    k, max_steps = simulator.ticks_per_step, simulator.max_steps
    first = np.maximum(batch.start_tick[:, None], (batch.start_tick[:, None] // k + np.arange(max_steps)) * k)
    until = np.minimum((first // k + 1) * k, batch.end_tick[:, None])
    num_ticks = np.maximum(until - first, 0)
    part = np.where(until == batch.end_tick[:, None], 1.0, largest_fraction)
    even = 1.0 / (batch.end_tick - batch.start_tick)
    per_tick = np.maximum(part / np.maximum(num_ticks, 1), even[:, None]) * batch.quantity[:, None]
    is_tick = np.arange(k) < num_ticks[..., None]
    return np.where(is_tick, per_tick[..., None], 0.0).reshape(len(batch.row), -1)
