"""The best that anybody could have done: perfect foresight of every tick's price, under the same participation cap."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rlcore.execution import fills
from rlcore.execution.metrics import traded_value
from rlcore.execution.orders import NOTHING_LEFT, OrderBatch
from rlcore.foundation.lanes import take_lanes

if TYPE_CHECKING:
    from rlcore.execution.simulator import FastSimulator

Floats = NDArray[np.float64]


def cheapest_fills(side: Floats, quantity: Floats, price: Floats, tick_capacity: Floats) -> Floats:
    """Return fills (…, ticks) that trade ``quantity`` at the best prices that the ticks' capacities allow.

    Greedy: take the best tick as far as its capacity goes, then the next. No other way to fill as many shares has a better
    average price: the price advantage of a policy that filled Q_f shares is at most that of ``cheapest_fills`` for Q_f.

    Args:
        side, quantity: shape (…).
        price, tick_capacity: shape (…, ticks); the price of a tick without capacity is ignored.
    """
    cost = np.where(tick_capacity > 0.0, side[..., None] * price, np.inf)
    best_first = np.argsort(cost, axis=-1, kind="stable")
    ordered = np.take_along_axis(tick_capacity, best_first, axis=-1)
    before = np.zeros_like(ordered)
    np.cumsum(ordered[..., :-1], axis=-1, out=before[..., 1:])
    taken = np.clip(quantity[..., None] - before, 0.0, ordered)
    filled = np.zeros_like(taken)
    np.put_along_axis(filled, best_first, taken, axis=-1)
    return filled


def window_market(simulator: FastSimulator, orders: OrderBatch) -> tuple[Floats, Floats]:
    """Return price and tradable volume of every tick of every window, each (lanes, max_steps · ticks_per_step).

    Read from the outcomes of doing nothing, so that the prices are the simulator's own.
    """
    num_lanes, k = len(orders.row), simulator.ticks_per_step
    price, volume = (np.zeros((num_lanes, simulator.max_steps, k)) for _ in range(2))
    state, lane = simulator.start(orders), np.arange(num_lanes)
    for step in range(simulator.max_steps):
        if not len(lane):
            break
        stepped = simulator.step(state, np.zeros(len(lane)))
        price[lane, step], volume[lane, step] = stepped.outcome.price, stepped.outcome.volume
        is_open = ~stepped.outcome.is_last & ~stepped.terminated
        state, lane = take_lanes(stepped.state, is_open), lane[is_open]
    return price.reshape(num_lanes, -1), volume.reshape(num_lanes, -1)


def clairvoyant_metrics(simulator: FastSimulator, orders: OrderBatch) -> dict[str, Floats]:
    """Return the simulator's metrics of ``cheapest_fills`` for whole orders, each (lanes,).

    An upper bound for every policy that fills as much; what capacity does not allow stays unfilled, as for everybody.
    """
    price, volume = window_market(simulator, orders)
    filled = cheapest_fills(orders.side, orders.quantity, price, fills.capacity(volume, simulator.participation_cap))
    filled_quantity = filled.sum(axis=-1)
    remaining = np.maximum(orders.quantity - filled_quantity, 0.0)
    final = replace(
        simulator.start(orders),
        now=orders.end_tick,
        remaining=np.where(remaining <= NOTHING_LEFT * orders.quantity, 0.0, remaining),
        filled_quantity=filled_quantity,
        filled_value=traded_value(filled, price),
    )
    return dict(simulator.metrics(final))
