"""Fields that every store has: the last known price and the volume that could have been traded."""

from __future__ import annotations

import numpy as np

from rlcore.market.schema import Booleans, Floats, Integers


def carry_forward(values: Floats) -> Floats:
    """Return the values with each NaN replaced by the last number before it on the last axis; leading NaNs stay."""
    places = np.where(np.isnan(values), 0, np.arange(values.shape[-1]))
    return np.take_along_axis(values, np.maximum.accumulate(places, axis=-1), axis=-1)


def last_known(values: Floats) -> Floats:
    """Return the last number on the last axis, NaN where there is none."""
    return carry_forward(values)[..., -1]


def opening_mark(last_close: Floats, row_instrument: Integers) -> Floats:
    """Return (rows,) the last close that an instrument had before each row; NaN on its first day.

    Args:
        last_close: (rows,) last known close of the row's own day, NaN for a day without one.
        row_instrument: (rows,) ascending.
    """
    opening = np.full(len(last_close), np.nan)
    edges = np.flatnonzero(np.diff(row_instrument)) + 1
    for rows in np.split(np.arange(len(last_close)), edges):
        opening[rows[1:]] = carry_forward(last_close[rows])[:-1]
    return opening


def mark(close: Floats, opening: Floats, is_session: Booleans) -> Floats:
    """Return the last known close at the end of each tick, (rows, ticks); NaN after the session and before anything is known.

    Args:
        close: (rows, ticks), NaN where there is no price.
        opening: (rows,) see ``opening_mark``.
        is_session: (rows, ticks) False after the session.
    """
    carried = carry_forward(close)
    return np.where(is_session, np.where(np.isnan(carried), opening[:, None], carried), np.nan)


def tradable_volume(close: Floats, volume: Floats) -> Floats:
    """Return the volume where a trade could have taken part: a known positive price and a known positive volume; else 0."""
    is_tradable = np.isfinite(close) & (close > 0) & np.isfinite(volume) & (volume > 0)
    return np.where(is_tradable, volume, 0.0)
