"""Fill parent orders against recorded bars, all lanes at once: QlibRL's simple simulator, corrected.

A step spans ``ticks_per_step`` ticks on the day's own grid, so that the first and the last step of a window can be shorter. The
shares of a step are split evenly over its ticks and capped by each tick's volume; what a tick cannot take stays unfilled. In the
last step of the window the action does not count: the whole remainder is spread by water filling, and what still finds no room
stays unfilled when the episode terminates.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.simulator import LaneSimulator, LaneStep
from rlcore.execution import fills, metrics
from rlcore.execution.benchmarks import WindowBenchmarks
from rlcore.execution.orders import NOTHING_LEFT, OrderBatch
from rlcore.execution.states import Benchmarks, ExecutionState, ExecutionView, StepOutcome, ticks_of_step
from rlcore.foundation.errors import ConfigError, ContractError, DataError

if TYPE_CHECKING:
    from rlcore.market.store import MarketStore

__all__ = ["Benchmarks", "ExecutionState", "ExecutionView", "FastSimulator", "FillPrice", "StepOutcome"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
FillPrice = Literal["close", "vwap", "bid_or_ask"]
# Arrays, because NumPy takes half as long again to take in a number.
_ZERO, _ONE, _NOTHING_LEFT = np.array(0.0), np.array(1), np.array(NOTHING_LEFT)
_PRICE_FIELDS: dict[str, tuple[str, ...]] = {"close": ("close",), "vwap": ("vwap",), "bid_or_ask": ("bid", "ask")}


class FastSimulator(LaneSimulator[OrderBatch, ExecutionState, ExecutionView, Floats, StepOutcome]):
    """Orders of one instrument and one day each, filled against bars.

    A command is a number of shares per lane, at least 0; more than what remains is clipped.

    Args:
        store: the market data.
        ticks_per_step: ticks that one decision spans, at least 1.
        participation_cap: the largest share of each tick's volume that an order may take, in (0, 1]; None: no cap, but a tick
            without volume still fills nothing.
        price: what a tick fills at: its close, its vwap, or the ask for buys and the bid for sells. A tick without that price
            fills nothing.
    """

    def __init__(self, store: MarketStore, ticks_per_step: int, participation_cap: float | None, price: FillPrice) -> None:
        if ticks_per_step < 1:
            raise ConfigError(f"ticks_per_step must be at least 1, was {ticks_per_step}")
        if ticks_per_step > store.num_ticks:
            raise ConfigError(f"ticks_per_step must be at most {store.num_ticks}, the ticks of a session, was {ticks_per_step}")
        if participation_cap is not None and not 0.0 < participation_cap <= 1.0:
            raise ConfigError(f"participation_cap must lie in (0, 1] or be null for no cap, was {participation_cap}")
        if price not in _PRICE_FIELDS:
            raise ConfigError(f"price must be one of {', '.join(_PRICE_FIELDS)}, was {price!r}")
        lacking = [field for field in _PRICE_FIELDS[price] if field not in store.fields]
        if lacking:
            raise ConfigError(
                f"price must be one that the market store can give, was {price!r} but the store at {store.path} has no "
                f"{' and no '.join(lacking)}: use price 'close' or build the store from data with these columns"
            )
        self.store = store
        self.ticks_per_step = ticks_per_step
        self.participation_cap = participation_cap
        self.price: FillPrice = price
        self._k = np.array(ticks_per_step)
        self._benchmarks = WindowBenchmarks(store)
        unusable = store.instruments_without_usable_volume if participation_cap is not None else ()
        self._is_uncappable = np.isin(np.array(store.instruments, np.str_), np.array(unusable, np.str_))

    @property
    def max_steps(self) -> int:
        return -(-self.store.num_ticks // self.ticks_per_step)

    def start(self, seeds: OrderBatch) -> ExecutionState:
        """Start one lane for each order.

        Raises:
            DataError: for an order with a participation cap in an instrument whose volume says nothing.
        """
        count, k = len(seeds.row), self._k
        if self.participation_cap is not None:
            self._refuse_uncappable(seeds)
        history = np.zeros((count, self.max_steps + 1))
        history[:, 0] = seeds.quantity
        return ExecutionState(
            order=seeds,
            benchmarks=self._benchmarks.of(seeds),
            now=seeds.start_tick,
            step=np.zeros(count, np.int64),
            num_steps=(seeds.end_tick - _ONE) // k - seeds.start_tick // k + _ONE,
            remaining=seeds.quantity,
            remaining_history=history,
            filled_quantity=np.zeros(count),
            filled_value=np.zeros(count),
        )

    def view(self, state: ExecutionState) -> ExecutionView:
        return ExecutionView(
            state.order,
            state.now,
            state.step,
            state.num_steps,
            state.remaining,
            state.remaining_history,
            self.ticks_per_step,
            self.store,
        )

    def step(self, state: ExecutionState, command: Floats) -> LaneStep[ExecutionState, StepOutcome]:
        """Carry out one step.

        Raises:
            ContractError: for a command that is negative, not a number, or not of shape (lanes,).
        """
        order, now, k = state.order, state.now, self._k
        count = len(now)
        _check_command(command, count)
        until = np.minimum((now // k + _ONE) * k, order.end_tick)
        is_last = until == order.end_tick
        num_ticks = until - now
        price, volume = self._market(order, now, num_ticks)
        intended, filled = self._fill(command, state.remaining, num_ticks, volume, is_last)
        step_quantity = np.einsum("lt->l", filled)
        step_value = np.einsum("lt,lt->l", filled, price)
        if np.count_nonzero(np.isnan(step_value)):  # a price nobody knows yet; it fills nothing, but 0 · NaN is NaN
            price = np.where(volume > 0.0, price, 0.0)
            step_value = np.einsum("lt,lt->l", filled, price)
        remaining = state.remaining - step_quantity
        is_complete = remaining <= order.quantity * _NOTHING_LEFT
        remaining[is_complete] = 0.0
        step = state.step + _ONE
        history = state.remaining_history.copy()
        history.ravel()[_first_cells(*history.shape) + step] = remaining
        total_quantity, total_value = state.filled_quantity + step_quantity, state.filled_value + step_value
        after = ExecutionState(
            order=order,
            benchmarks=state.benchmarks,
            now=until,
            step=step,
            num_steps=state.num_steps,
            remaining=remaining,
            remaining_history=history,
            filled_quantity=total_quantity,
            filled_value=total_value,
        )
        outcome = StepOutcome(
            order=order,
            benchmarks=state.benchmarks,
            first_tick=now,
            intended=intended,
            filled=filled,
            price=price,
            volume=volume,
            num_ticks=num_ticks,
            is_last=is_last,
            step_quantity=step_quantity,
            step_value=step_value,
            filled_quantity=total_quantity,
            filled_value=total_value,
            remaining=remaining,
        )
        return LaneStep(after, outcome, is_last | is_complete, np.zeros(count, bool))

    def metrics(self, state: ExecutionState) -> Mapping[str, Floats]:
        """Return the execution quality of finished orders; nothing filled gives NaN prices and the whole opportunity cost."""
        order, marks = state.order, state.benchmarks
        average = metrics.ratio(state.filled_value, state.filled_quantity)
        # Work begins when the order is decided, and nothing is charged: shortfall has no other parts.
        trading = metrics.trading_cost(order.side, state.filled_quantity, state.filled_value, marks.arrival_price)
        opportunity = metrics.opportunity_cost(order.side, state.remaining, marks.arrival_price, marks.end_price)
        # All at once: for few orders the number of calls is what costs.
        benchmark = np.array([marks.arrival_price, marks.window_twap, marks.window_vwap])
        slippage_arrival_bps, slippage_twap_bps, slippage_vwap_bps = metrics.slippage_bps(order.side, average, benchmark)
        market_volume = self._benchmarks.market_volume(order.row, order.start_tick, state.now)
        return {
            "fill_rate": 1.0 - state.remaining / order.quantity,
            "price_advantage_bps": -slippage_twap_bps,
            "shortfall_bps": metrics.shortfall_in_bps(trading + opportunity, order.quantity, marks.arrival_price),
            "slippage_arrival_bps": slippage_arrival_bps,
            "slippage_twap_bps": slippage_twap_bps,
            "slippage_vwap_bps": slippage_vwap_bps,
            "participation": metrics.participation(state.filled_quantity, market_volume),
            "filled_quantity": state.filled_quantity,
            "average_price": average,
            "arrival_price": marks.arrival_price,
            "end_price": marks.end_price,
            "window_twap": marks.window_twap,
            "window_vwap": marks.window_vwap,
        }

    def _refuse_uncappable(self, order: OrderBatch) -> None:
        is_bad = self._is_uncappable[self.store.row_instrument[order.row]]
        if is_bad.any():
            instrument = self.store.instruments[self.store.row_instrument[order.row[is_bad][0]]]
            raise DataError(
                f"volume must be usable for a participation cap, that of {instrument} in {self.store.path} is not: leave the "
                "instrument out, or set participation_cap to null"
            )

    def _market(self, order: OrderBatch, now: Integers, num_ticks: Integers) -> tuple[Floats, Floats]:
        """Return price and tradable volume of the step's ticks, each (lanes, ticks_per_step); 0 beyond the step."""
        k, row = self.ticks_per_step, order.row
        if self.price == "close":
            # "mark" equals the close wherever the tick is tradable, and is known where a bar is missing.
            price, volume = self.store.windows(("mark", "tradable_volume"), row, now, k)
        else:
            if self.price == "vwap":
                price, volume = self.store.windows(("vwap", "tradable_volume"), row, now, k)
            else:
                bid, ask, volume = self.store.windows(("bid", "ask", "tradable_volume"), row, now, k)
                price = np.where((order.side > 0.0)[:, None], ask, bid)
            is_priced = np.isfinite(price) & (price > 0.0)
            price, volume = np.where(is_priced, price, 0.0), np.where(is_priced, volume, 0.0)
        if np.count_nonzero(num_ticks < self._k):
            is_tick = ticks_of_step(num_ticks, k)
            price, volume = np.where(is_tick, price, 0.0), np.where(is_tick, volume, 0.0)
        return price, volume

    def _fill(
        self, command: Floats, remaining: Floats, num_ticks: Integers, volume: Floats, is_last: NDArray[np.bool_]
    ) -> tuple[Floats, Floats]:
        """Return the shares intended, (lanes,), and filled, (lanes, ticks_per_step)."""
        tick_capacity = fills.capacity(volume, self.participation_cap)
        num_last = np.count_nonzero(is_last)
        if num_last == len(is_last):
            return remaining, fills.water_fill(remaining, tick_capacity)
        intended = np.minimum(command, remaining)
        filled = fills.equal_split(intended, num_ticks, tick_capacity)
        if num_last:
            intended[is_last] = remaining[is_last]
            filled[is_last] = fills.water_fill(intended[is_last], tick_capacity[is_last])
        return intended, filled


@lru_cache(maxsize=8)  # the number of lanes seldom changes
def _first_cells(num_lanes: int, width: int) -> Integers:
    """Return where each lane's row starts in the flat array."""
    cells = np.arange(num_lanes) * width
    cells.flags.writeable = False
    return cells


def _check_command(command: Floats, num_lanes: int) -> None:
    if command.shape != (num_lanes,):
        raise ContractError(f"command must have shape (lanes,) = ({num_lanes},), was {command.shape}")
    if np.count_nonzero(command >= _ZERO) < num_lanes:  # also where it is NaN
        lane = int(np.flatnonzero(~(command >= 0.0))[0])
        raise ContractError(
            f"command must be a number of shares ≥ 0 (the side says whether they are bought or sold), was {command[lane]} "
            f"in lane {lane}"
        )
