"""Is a day whole? Thin trading and a collector's outage both leave minutes without a bar; only an outage makes a day unusable."""

from __future__ import annotations

import numpy as np

from rlcore.market.schema import Booleans, Floats, Integers

# With nine ticks in ten present a day is worth trading on, whatever the reason. Its last minutes may be missing all the same: the
# backtest counts the orders for which they are.
_SUFFICIENT_COVERAGE = 0.9
# A silence is an outage where random trading would show one so long in fewer than one day in a million.
_IMPLAUSIBLE = 1e-6


def coverage_of(has_bar: Booleans, session_ticks: Integers) -> Floats:
    """Return (rows,) share of the session's ticks that have a bar; shape of ``has_bar`` (rows, ticks)."""
    share: Floats = has_bar.sum(axis=1) / session_ticks
    return share


def is_complete_day(has_bar: Booleans, session_ticks: Integers) -> Booleans:
    """Return (rows,) False for a day with an outage.

    A day is complete with a coverage of at least 0.9, or where its longest silence of g ticks is plausible for thin trading:
    with n bars in the T - g other ticks the rate is p = n / (T - g), and about n (1 - p)^g silences as long as g are expected
    in a day. Each day is judged by itself: no later day changes the verdict.
    """
    num_bars = has_bar.sum(axis=1)
    silence = longest_silence(has_bar, session_ticks)
    rate = num_bars / np.maximum(session_ticks - silence, 1)
    expected = num_bars * (1 - rate) ** silence
    is_complete: Booleans = (coverage_of(has_bar, session_ticks) >= _SUFFICIENT_COVERAGE) | (expected >= _IMPLAUSIBLE)
    return is_complete


def longest_silence(has_bar: Booleans, session_ticks: Integers) -> Integers:
    """Return (rows,) the longest run of session ticks without a bar, the start and the end of the day included."""
    ticks = np.arange(has_bar.shape[1])
    # After the session counts as sounding, so that the run which ends there ends with the session.
    sounds = has_bar | (ticks >= session_ticks[:, None])
    last_sound = np.maximum.accumulate(np.where(sounds, ticks, -1), axis=1)
    silence: Integers = (ticks - last_sound).max(axis=1, initial=0)
    return silence
