"""Benchmark prices of order windows as differences of running sums: a window costs two look-ups and no pass over its ticks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rlcore.execution.states import Benchmarks

if TYPE_CHECKING:
    from rlcore.execution.orders import OrderBatch
    from rlcore.market.store import MarketStore

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class WindowBenchmarks:
    """Running sums along each day, made when an order first needs that day.

    Sums run over differences from the day's first known price: they stay small, and a window's mean keeps about 1e-15 relative
    accuracy wherever in the day it lies. Days that no order uses take no memory (their pages are never touched).
    """

    def __init__(self, store: MarketStore) -> None:
        self._store = store
        self._is_ready = np.zeros(store.num_rows, bool)
        self._base = np.zeros(store.num_rows)  # first known price of the day
        self._first_known = np.zeros(store.num_rows, np.int64)  # its tick
        # Before each tick: Σ (mark − base), Σ volume, Σ (price − base) · volume. Together, because they are read together.
        self._sums = np.empty((store.num_rows, store.num_ticks + 1, 3))

    def __reduce__(self) -> tuple[type[WindowBenchmarks], tuple[MarketStore]]:
        return WindowBenchmarks, (self._store,)  # another process makes its own sums

    def of(self, order: OrderBatch) -> Benchmarks:
        """Return the benchmarks of each order's window, in which the price must be known at the last tick."""
        row, start, end = order.row, order.start_tick, order.end_tick
        self._prepare(row)
        base, mark = self._base[row], self._store.array("mark")
        num_known = end - np.maximum(start, self._first_known[row])
        opening, known = self._store.array("open")[row, start], mark[row, start]
        arrival = np.where(np.isfinite(opening) & (opening > 0.0), opening, np.where(np.isnan(known), base, known))
        mark_sum, volume, amount = (self._sums[row, end] - self._sums[row, start]).T
        return Benchmarks(
            arrival_price=arrival,
            end_price=mark[row, end - 1],
            window_twap=base + mark_sum / num_known,
            window_vwap=base + np.divide(amount, volume, out=np.full(len(row), np.nan), where=volume > 0.0),
        )

    def market_volume(self, row: Integers, start: Integers, end: Integers) -> Floats:
        """Return the volume of the ticks in [start, end), shape (lanes,)."""
        self._prepare(row)
        volume: Floats = self._sums[row, end, 1] - self._sums[row, start, 1]
        return volume

    def _prepare(self, row: Integers) -> None:
        is_missing = ~self._is_ready[row]
        if not is_missing.any():
            return
        missing = np.unique(row[is_missing])
        store = self._store
        mark, volume = store.array("mark")[missing], store.array("tradable_volume")[missing]
        is_known = np.isfinite(mark)
        first = is_known.argmax(axis=-1)
        base = np.take_along_axis(mark, first[:, None], axis=-1)
        deviation = np.where(is_known, mark - base, 0.0)
        price_deviation = deviation
        if "vwap" in store.fields:
            vwap = store.array("vwap")[missing]
            price_deviation = np.where(np.isfinite(vwap) & (vwap > 0.0), vwap - base, deviation)
        self._base[missing], self._first_known[missing] = base[:, 0], first
        sums = np.zeros((len(missing), store.num_ticks + 1, 3))
        np.cumsum(np.stack([deviation, volume, price_deviation * volume], axis=-1), axis=1, out=sums[:, 1:])
        self._sums[missing] = sums
        self._is_ready[missing] = True
