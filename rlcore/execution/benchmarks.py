"""Benchmark prices of order windows as differences of running sums: a window costs two look-ups and no pass over its ticks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rlcore.execution.metrics import ratio
from rlcore.execution.states import Benchmarks

if TYPE_CHECKING:
    from rlcore.execution.orders import OrderBatch
    from rlcore.market.store import MarketStore

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_ZERO, _ONE = np.array(0.0), np.array(1)  # arrays, because NumPy takes half as long again to take in a number


class WindowBenchmarks:
    """Running sums along each day, made when an order first needs that day.

    Sums run over differences from the day's first known price: they stay small, and a window's mean keeps about 1e-15 relative
    accuracy wherever in the day it lies. Days that no order uses take no memory (their pages are never touched).
    """

    def __init__(self, store: MarketStore) -> None:
        self._store = store
        self._open, self._mark = (store.array(field).reshape(-1) for field in ("open", "mark"))
        self._row_length = np.array(store.num_ticks)
        self._is_ready = np.zeros(store.num_rows, bool)
        self._base = np.zeros(store.num_rows)  # first known price of the day
        self._first_known = np.zeros(store.num_rows, np.int64)  # its tick
        # Before each tick: Σ (mark − base), Σ volume, Σ (price − base) · volume. Together, because they are read together.
        # Flat, as the fields are: one index for each lane is looked up several times as fast as two.
        self._sums = np.empty((store.num_rows * (store.num_ticks + 1), 3))

    def __reduce__(self) -> tuple[type[WindowBenchmarks], tuple[MarketStore]]:
        return WindowBenchmarks, (self._store,)  # another process makes its own sums

    def of(self, order: OrderBatch) -> Benchmarks:
        """Return the benchmarks of each order's window, in which the price must be known at the last tick."""
        row, start, end = order.row, order.start_tick, order.end_tick
        self._prepare(row)
        base, first_cell = self._base[row], row * self._row_length
        num_known = end - np.maximum(start, self._first_known[row])
        arrival = self._open[first_cell + start]
        is_unknown = ~(np.isfinite(arrival) & (arrival > _ZERO))
        if np.count_nonzero(is_unknown):
            known = self._mark[first_cell + start]
            arrival = np.where(is_unknown, np.where(np.isnan(known), base, known), arrival)
        mark_sum, volume, amount = self._sums_between(row, start, end).T
        return Benchmarks(
            arrival_price=arrival,
            end_price=self._mark[first_cell + (end - _ONE)],
            window_twap=base + mark_sum / num_known,
            window_vwap=base + ratio(amount, volume),
        )

    def market_volume(self, row: Integers, start: Integers, end: Integers) -> Floats:
        """Return the volume of the ticks in [start, end), shape (lanes,)."""
        self._prepare(row)
        return self._sums_between(row, start, end)[:, 1]

    def _sums_between(self, row: Integers, start: Integers, end: Integers) -> Floats:
        first = row * (self._row_length + _ONE)
        # take, because indexing copies the three numbers of a place one by one.
        sums: Floats = self._sums.take(first + end, axis=0) - self._sums.take(first + start, axis=0)
        return sums

    def _prepare(self, row: Integers) -> None:
        is_ready = self._is_ready[row]
        if np.count_nonzero(is_ready) == len(row):
            return
        missing = np.array([*set(row[~is_ready].tolist())])  # each once; np.unique takes ten times as long for one lane
        store, midnight = self._store, np.zeros_like(missing)
        mark, volume = store.windows(("mark", "tradable_volume"), missing, midnight, store.num_ticks)
        is_known = np.isfinite(mark)
        first = is_known.argmax(axis=-1)
        base = mark[np.arange(len(missing)), first][:, None]
        deviation = np.where(is_known, mark - base, 0.0)
        price_deviation = deviation
        if "vwap" in store.fields:
            vwap = store.array("vwap")[missing]
            price_deviation = np.where(np.isfinite(vwap) & (vwap > 0.0), vwap - base, deviation)
        self._base[missing], self._first_known[missing] = base[:, 0], first
        sums = np.zeros((len(missing), store.num_ticks + 1, 3))
        for column, values in enumerate((deviation, volume, price_deviation * volume)):
            np.cumsum(values, axis=1, out=sums[:, 1:, column])
        self._sums.reshape(store.num_rows, -1, 3)[missing] = sums
        self._is_ready[missing] = True
