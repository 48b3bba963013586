"""Causal features of the market: at tick t they use the bars of ticks up to t of the same day, and whole earlier days.

    P   last known close before the day; on an instrument's first day the first known close of the day
    V   mean volume per session tick of up to 20 earlier days; without earlier volume the mean of the day so far
    m   ``mark``, the last known close at the end of the tick

    open, high, low, close    x / P - 1, with m in place of an unknown x
    volume                    log(1 + v / V), v the tradable volume
    spread                    (ask - bid) / P, where the store has quotes
    own fields                as they are

Everything is 0 where it is not known, and after the session.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rlcore.market.array_files import create_array
from rlcore.market.derived_fields import last_known, opening_mark
from rlcore.market.schema import DERIVED_FIELDS, OPTIONAL_FIELDS, REQUIRED_FIELDS, TRADE_PRICE_FIELDS, Floats
from rlcore.market.store import MarketStore

HISTORY_FILE = "history_features.npy"
# Rows handled at once: bounds memory, not the result.
BLOCK_ROWS = 2048
# About a month of trading: long enough to be steady, short enough to follow a change.
_VOLUME_DAYS = 20


class HistoryFeatures:
    """The features of every day of a store; pickles as the store does. Open it with ``history_features``."""

    names: tuple[str, ...]
    array: NDArray[np.float32]
    """(rows, ticks, features), read-only and memory-mapped; finite everywhere."""

    def __init__(self, store: MarketStore) -> None:
        self._store = store
        self.names = _names(store)
        self.array = np.asarray(np.load(store.path / HISTORY_FILE, mmap_mode="r"))

    def __reduce__(self) -> tuple[type[HistoryFeatures], tuple[MarketStore]]:
        return HistoryFeatures, (self._store,)


def history_features(store: MarketStore) -> HistoryFeatures:
    """Return the features, which every store has on disk."""
    return HistoryFeatures(store)


def write_history(store: MarketStore, path: Path) -> None:
    """Compute the features of a store and write them to ``path``."""
    names = _names(store)
    out = create_array(path, np.float32, (store.num_rows, store.num_ticks, len(names)))
    blocks = [slice(first, first + BLOCK_ROWS) for first in range(0, store.num_rows, BLOCK_ROWS)]
    volume, close = store.array("tradable_volume"), store.array("close")
    last_close = np.concatenate([last_known(close[rows]) for rows in blocks])
    day_volume = np.concatenate([volume[rows].sum(axis=1) for rows in blocks])
    previous_close = opening_mark(last_close, store.row_instrument)
    usual_volume = _usual_volume(day_volume, store)
    for rows in blocks:
        reference = reference_price(previous_close[rows], close[rows])
        scale = volume_scale(usual_volume[rows], volume[rows])
        for place, name in enumerate(names):
            out[rows, :, place] = np.nan_to_num(_feature(store, name, rows, reference, scale))


def reference_price(previous_close: Floats, close: Floats) -> Floats:
    """Return P, (rows, ticks): the previous close, or from its tick on the day's first known close; NaN before.

    Args:
        previous_close: (rows,) NaN where there is none.
        close: (rows, ticks).
    """
    is_known = np.isfinite(close)
    first = close[np.arange(len(close)), is_known.argmax(axis=1)]
    first_known = np.where(np.logical_or.accumulate(is_known, axis=1), first[:, None], np.nan)
    return np.where(np.isnan(previous_close)[:, None], first_known, previous_close[:, None])


def volume_scale(usual_volume: Floats, volume: Floats) -> Floats:
    """Return V, (rows, ticks): the usual volume per tick, or the mean of the day up to and with the tick; NaN where that is 0.

    Args:
        usual_volume: (rows,) NaN where no earlier volume is known.
        volume: (rows, ticks) tradable volume.
    """
    so_far = np.cumsum(volume, axis=1) / np.arange(1, volume.shape[1] + 1)
    scale = np.where(np.isnan(usual_volume)[:, None], so_far, usual_volume[:, None])
    return np.where(scale > 0, scale, np.nan)


def _names(store: MarketStore) -> tuple[str, ...]:
    spread = ("spread",) if {"bid", "ask"} <= set(store.fields) else ()
    own = tuple(name for name in store.fields if name not in (*REQUIRED_FIELDS, *OPTIONAL_FIELDS, *DERIVED_FIELDS))
    return (*TRADE_PRICE_FIELDS, "volume", *spread, *own)


def _feature(store: MarketStore, name: str, rows: slice, reference: Floats, scale: Floats) -> Floats:
    if name in TRADE_PRICE_FIELDS:
        price = store.array(name)[rows]
        return np.where(np.isnan(price), store.array("mark")[rows], price) / reference - 1.0
    if name == "volume":
        return np.log1p(store.array("tradable_volume")[rows] / scale)
    if name == "spread":
        return (store.array("ask")[rows] - store.array("bid")[rows]) / reference
    return store.array(name)[rows]


def _usual_volume(day_volume: Floats, store: MarketStore) -> Floats:
    """Return (rows,) mean volume per tick of up to 20 earlier days, NaN where they had none."""
    usual = np.full(store.num_rows, np.nan)
    edges = np.flatnonzero(np.diff(store.row_instrument)) + 1
    for rows in np.split(np.arange(store.num_rows), edges):
        volume = np.r_[0.0, np.cumsum(day_volume[rows])]
        ticks = np.r_[0, np.cumsum(store.session_ticks[rows])]
        day = np.arange(1, len(rows))
        first = np.maximum(day - _VOLUME_DAYS, 0)
        mean = (volume[day] - volume[first]) / (ticks[day] - ticks[first])
        usual[rows[1:]] = np.where(mean > 0, mean, np.nan)
    return usual
