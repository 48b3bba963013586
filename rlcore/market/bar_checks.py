"""Validation of bars, once, before anything is stored.

Refused, since no reading of it is right: a price that is negative, zero or infinite, a quantity that is negative or infinite,
a high below its low, two different bars of one instrument and time. Turned into unknown and counted: a suspended row (every
price and the volume zero), a volume of zero in a bar whose price moved, a crossed quote. Dropped and counted: exact copies,
rows without a value beside a real twin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from rlcore.foundation.errors import DataError
from rlcore.market.schema import PRICE_FIELDS, QUANTITY_FIELDS, TRADE_PRICE_FIELDS, BarTable, Booleans, Floats, Integers

# Vendors write high and low with fewer digits than open and close; a smaller difference is no contradiction.
_RELATIVE_PRICE_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class CheckedBars:
    """Bars that passed, sorted by instrument and time, and what was found on the way; masks have shape (bars,)."""

    bars: BarTable
    is_suspended: Booleans
    is_contradictory: Booleans
    num_copies_dropped: int
    num_empty_twins_dropped: int
    num_revised: int


def check_bars(bars: BarTable, duplicates: str) -> CheckedBars:
    """Return the bars in order, without copies, with what is unknown made NaN.

    Args:
        bars: as read.
        duplicates: ``refuse`` or ``keep_last``, for different bars of one instrument and time.

    Raises:
        DataError: naming file, row, column and remedy.
    """
    bars = bars.take(np.lexsort((np.arange(len(bars)), bars.start_utc, bars.instrument)))
    bars, num_empty, num_copies, num_revised = _drop_duplicates(bars, duplicates)
    values = dict(bars.values)
    is_suspended = _suspended(values)
    _make_unknown(values, (*PRICE_FIELDS, *QUANTITY_FIELDS), is_suspended)
    # An average over nothing is written as 0 by some vendors; it is unknown, not a price.
    _make_unknown(values, ("vwap",), (values["volume"] == 0) & (values.get("vwap", values["volume"]) == 0))
    _refuse_impossible(bars, values)
    is_contradictory = _contradictory(values)
    return CheckedBars(
        bars=BarTable(bars.instruments, bars.instrument, bars.start_utc, values, bars.files, bars.file, bars.line),
        is_suspended=is_suspended,
        is_contradictory=is_contradictory,
        num_copies_dropped=num_copies,
        num_empty_twins_dropped=num_empty,
        num_revised=num_revised,
    )


def _drop_duplicates(bars: BarTable, duplicates: str) -> tuple[BarTable, int, int, int]:
    table = np.stack(list(bars.values.values()), axis=1)
    is_empty = np.isnan(table).all(axis=1)
    group = _groups(bars)
    has_values = np.bincount(group, weights=~is_empty) > 0
    empty = is_empty & has_values[group]
    bars, table = bars.take(~empty), table[~empty]
    same_key = _same_as_before(bars)
    copy = same_key & np.r_[False, ((table[1:] == table[:-1]) | (np.isnan(table[1:]) & np.isnan(table[:-1]))).all(axis=1)]
    bars = bars.take(~copy)
    conflict = _same_as_before(bars)
    num_revised = int(conflict.sum())
    if num_revised and duplicates == "refuse":
        _refuse_conflict(bars, int(np.flatnonzero(conflict)[0]), num_revised)
    # The bars are sorted stably, so the last of a group is the one that stands last in the files.
    return bars.take(np.r_[~conflict[1:], True]), int(empty.sum()), int(copy.sum()), num_revised


def _same_as_before(bars: BarTable) -> Booleans:
    is_same: Booleans = np.r_[False, (np.diff(bars.instrument) == 0) & (np.diff(bars.start_utc) == 0)]
    return is_same


def _groups(bars: BarTable) -> Integers:
    return np.cumsum(~_same_as_before(bars)) - 1


def _refuse_conflict(bars: BarTable, second: int, count: int) -> NoReturn:
    pairs = {name: column[second - 1 : second + 1] for name, column in bars.values.items()}
    name = next(name for name, pair in pairs.items() if not np.array_equal(pair[:1], pair[1:], equal_nan=True))
    raise DataError(
        f"a bar must be given once, {name} was {pairs[name][0]:g} and {pairs[name][1]:g}"
        f" in {bars.place(second - 1)} and in {bars.place(second)} ({count} such pairs):"
        " remove one of them, or set duplicates to keep_last where later rows are revisions"
    )


def _suspended(values: dict[str, Floats]) -> Booleans:
    is_suspended: Booleans = np.logical_and.reduce([values[name] == 0 for name in (*TRADE_PRICE_FIELDS, "volume")])
    return is_suspended


def _make_unknown(values: dict[str, Floats], names: tuple[str, ...], where: Booleans) -> None:
    for name in names:
        if name in values:
            values[name] = np.where(where, np.nan, values[name])


def _refuse_impossible(bars: BarTable, values: dict[str, Floats]) -> None:
    for name, column in values.items():
        _refuse(bars, name, column, np.isinf(column), "finite", "mend the file; leave the cell empty where it is unknown")
        if name in PRICE_FIELDS:
            remedy = "leave the cell empty where the price is unknown (a suspended bar has every price and the volume 0)"
            _refuse(bars, name, column, column <= 0, "positive", remedy)
        if name in QUANTITY_FIELDS:
            _refuse(bars, name, column, column < 0, "zero or positive", "leave the cell empty where it is unknown")
    swapped = values["high"] < values["low"] * (1 - _RELATIVE_PRICE_TOLERANCE)
    _refuse(bars, "high", values["high"], swapped, "at least low", "look whether the columns high and low are exchanged")


def _refuse(bars: BarTable, name: str, column: Floats, broken: Booleans, rule: str, remedy: str) -> None:
    if broken.any():
        first = int(np.flatnonzero(broken)[0])
        more = f" ({int(broken.sum())} such rows)" if broken.sum() > 1 else ""
        raise DataError(f"{name} must be {rule}, was {column[first]:g} in {bars.place(first)}{more}: {remedy}")


def _contradictory(values: dict[str, Floats]) -> Booleans:
    """Find bars that contradict themselves, and make unknown what cannot be believed in them."""
    low, high = values["low"] * (1 - _RELATIVE_PRICE_TOLERANCE), values["high"] * (1 + _RELATIVE_PRICE_TOLERANCE)
    is_moving = (values["high"] > values["low"]) | (np.abs(values["close"] - values["open"]) > 0)
    is_traded_unseen = (values["volume"] == 0) & is_moving
    _make_unknown(values, ("volume",), is_traded_unseen)
    is_priceless_trade = (values["volume"] > 0) & np.isnan(values["close"])
    is_outside = np.logical_or.reduce([(values[n] < low) | (values[n] > high) for n in ("open", "close")])
    is_crossed = np.zeros(len(low), bool)
    if "bid" in values and "ask" in values:
        is_crossed = values["bid"] > values["ask"]
        _make_unknown(values, ("bid", "ask", "bid_size", "ask_size"), is_crossed)
    is_contradictory: Booleans = is_traded_unseen | is_priceless_trade | is_outside | is_crossed
    return is_contradictory
