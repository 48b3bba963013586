"""When an instrument usually trades: the volume curve of earlier days, as of any day."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from rlcore.market.store import MarketStore

NUM_CURVE_DAYS = 20  # about a month: the usual length of a desk's volume curve


class VolumeCurve:
    """The mean, over up to 20 earlier days of the same instrument, of each tick's share of its day's volume.

    A day's own volume and everything later stay out of its curve. A day without earlier volume has an even curve. Curves are made
    when an order first needs them.
    """

    def __init__(self, store: MarketStore) -> None:
        self._store = store
        self._is_ready = np.zeros(store.num_rows, bool)
        self._before = np.empty((store.num_rows, store.num_ticks + 1))  # share expected before each tick

    def __reduce__(self) -> tuple[type[VolumeCurve], tuple[MarketStore]]:
        return VolumeCurve, (self._store,)  # another process makes its own curves

    def expected_share(self, row: NDArray[np.int64], start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the share of the day's volume expected in ticks [start, end), shape (lanes,)."""
        missing = np.unique(row[~self._is_ready[row]])
        if len(missing):
            self._before[missing, 0] = 0.0
            self._before[missing, 1:] = np.cumsum(self._curves(missing), axis=-1)
            self._is_ready[missing] = True
        return self._before[row, end] - self._before[row, start]

    def _curves(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        store = self._store
        total, num_days = np.zeros((len(rows), store.num_ticks)), np.zeros(len(rows))
        earlier = rows
        for _ in range(NUM_CURVE_DAYS):
            earlier = np.where(earlier >= 0, store.previous_row[earlier], -1)
            if (earlier < 0).all():
                break
            volume = np.where((earlier >= 0)[:, None], store.array("tradable_volume")[earlier], 0.0)
            of_day = volume.sum(axis=-1)
            has_traded = of_day > 0.0
            total[has_traded] += volume[has_traded] / of_day[has_traded, None]
            num_days += has_traded
        return np.where((num_days > 0)[:, None], total / np.maximum(num_days, 1.0)[:, None], 1.0 / store.num_ticks)
