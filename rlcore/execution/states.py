"""What the execution simulator knows (state), what may be known now (view), and what happened in a step (outcome)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rlcore.execution.orders import OrderBatch
from rlcore.foundation.errors import ContractError
from rlcore.foundation.records import step_record

if TYPE_CHECKING:
    from rlcore.market.store import MarketStore

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@step_record
class Benchmarks:
    """Prices to judge an order by, with hindsight. All (lanes,)."""

    arrival_price: Floats  # P_a: open of the window's first bar; without that bar the last known price
    end_price: Floats  # P_e: last known price at the end of the window; marks what stays unfilled
    window_twap: Floats  # mean of the last known price over the window's ticks
    window_vwap: Floats  # Σ price · volume / Σ volume over the window's bars, NaN where nothing trades


@step_record
class ExecutionState:
    """Everything the simulator needs. A lane tree."""

    order: OrderBatch
    benchmarks: Benchmarks
    now: Integers  # (lanes,) first tick not yet seen
    step: Integers  # (lanes,) decisions taken
    num_steps: Integers  # (lanes,) steps that the window touches on the day's grid
    remaining: Floats  # (lanes,) shares
    remaining_history: Floats  # (lanes, max_steps + 1) shares remaining after 0, 1, … steps; 0 where not yet reached
    filled_quantity: Floats  # (lanes,) shares
    filled_value: Floats  # (lanes,) Σ shares · price


@step_record
class ExecutionView:
    """What an interpreter may know now. Market data is read through methods that refuse to reach past now."""

    order: OrderBatch
    now: Integers  # (lanes,) first tick not yet seen
    step: Integers  # (lanes,) decisions taken
    num_steps: Integers  # (lanes,) steps that the window touches on the day's grid
    remaining: Floats  # (lanes,) shares
    remaining_history: Floats  # (lanes, max_steps + 1) shares remaining after 0, 1, … steps; 0 where not yet reached
    ticks_per_step: int
    _store: MarketStore

    @property
    def ticks_left(self) -> Integers:
        """Ticks of the window that are still to come, shape (lanes,)."""
        return self.order.end_tick - self.now

    @property
    def step_ticks(self) -> Integers:
        """Ticks of the coming step, shape (lanes,): fewer than ``ticks_per_step`` where the window starts or ends inside one."""
        return np.minimum(self.ticks_per_step - self.now % self.ticks_per_step, self.ticks_left)

    def window(self, field: str, first: Integers, length: int) -> Floats:
        """Return ``length`` completed ticks of today from tick ``first`` on, shape (lanes, length).

        Args:
            field: name of a field of the store.
            first: first tick of each lane, shape (lanes,).
            length: number of ticks.

        Raises:
            ContractError: where a tick is asked for that lies at or after now, or before the day.
        """
        is_bad = (first + length > self.now) | (first < 0)
        if is_bad.any():
            lane = int(np.flatnonzero(is_bad)[0])
            raise ContractError(
                f"ticks read through a view must lie in [0, {self.now[lane]}), were [{first[lane]}, {first[lane] + length}) of "
                f"{field!r} in lane {lane}: a view cannot reach past now"
            )
        return self._store.window(field, self.order.row, first, length)

    def past(self, field: str, length: int) -> Floats:
        """Return the last ``length`` ticks before now, newest last, (lanes, length); NaN before the first tick of today."""
        ticks = self.now[:, None] + np.arange(-length, 0)
        is_today = ticks >= 0
        return np.where(is_today, self._store.array(field)[self.order.row[:, None], np.where(is_today, ticks, 0)], np.nan)

    def latest(self, field: str) -> Floats:
        """Return the field at the last completed tick of today, shape (lanes,); NaN before the first."""
        last = self.now - 1
        return np.where(last >= 0, self._store.array(field)[self.order.row, np.maximum(last, 0)], np.nan)

    def previous_days(self, field: str, num_days: int) -> Floats:
        """Return whole earlier days of the instrument, newest first, (lanes, num_days, ticks); NaN where there is none."""
        array, row = self._store.array(field), self.order.row
        days = np.full((len(row), num_days, array.shape[1]), np.nan)
        for day in range(num_days):
            row = np.where(row >= 0, self._store.previous_row[np.maximum(row, 0)], -1)
            days[row >= 0, day] = array[row[row >= 0]]
        return days


@step_record
class StepOutcome:
    """What happened in one step, for rewards and reports; hindsight is allowed here. A lane tree."""

    order: OrderBatch
    benchmarks: Benchmarks
    first_tick: Integers  # (lanes,) of the step
    intended: Floats  # (lanes,) shares after clipping to what remained; in the last step all of it
    filled: Floats  # (lanes, ticks_per_step) shares
    price: Floats  # (lanes, ticks_per_step) at which each tick fills; 0 beyond num_ticks; meaningless where volume is 0
    volume: Floats  # (lanes, ticks_per_step) shares that the market traded and we may share in; 0 beyond num_ticks
    num_ticks: Integers  # (lanes,) that the step spans: its window may start or end inside it
    is_last: NDArray[np.bool_]  # (lanes,) the step that reaches the end of the window
    step_quantity: Floats  # (lanes,) shares filled in this step
    step_value: Floats  # (lanes,) Σ shares · price of this step
    filled_quantity: Floats  # (lanes,) shares filled since the start of the order
    filled_value: Floats  # (lanes,) Σ shares · price since the start of the order
    remaining: Floats  # (lanes,) shares after this step

    @property
    def is_tick(self) -> NDArray[np.bool_]:
        """Which ticks belong to this step, shape (lanes, ticks_per_step)."""
        return ticks_of_step(self.num_ticks, self.filled.shape[1])

    @property
    def arrival_price(self) -> Floats:
        return self.benchmarks.arrival_price

    @property
    def end_price(self) -> Floats:
        return self.benchmarks.end_price

    @property
    def window_twap(self) -> Floats:
        return self.benchmarks.window_twap

    @property
    def window_vwap(self) -> Floats:
        return self.benchmarks.window_vwap


def ticks_of_step(num_ticks: Integers, ticks_per_step: int) -> NDArray[np.bool_]:
    """Return True for the first ``num_ticks`` of each lane, shape (lanes, ticks_per_step)."""
    is_tick: NDArray[np.bool_] = np.arange(ticks_per_step, dtype=np.int16) < num_ticks.astype(np.int16)[:, None]
    return is_tick
