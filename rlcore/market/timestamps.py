"""Stamps of a file → start of the bar in UTC. The host's own time zone is never asked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from rlcore.foundation.errors import ConfigError, DataError
from rlcore.market.calendars import check_timezone
from rlcore.market.schema import NANOSECONDS_PER_MINUTE, BarFormat, Booleans, Integers, line_word

_NUM_NAMED = 8
_OFFSET = r"(?:[zZ]|[+-]\d\d:?\d\d)$"


def bar_starts(
    stamps: pd.Series, instrument: Integers, path: Path, lines: Integers, bar_format: BarFormat, tick_minutes: int
) -> Integers:
    """Return (bars,) nanoseconds since 1970 UTC at which each bar starts.

    Args:
        stamps: timestamps or text, of one file.
        instrument: (bars,) used to tell repeated local times of two instruments apart.
        path: the file, for messages.
        lines: (bars,) line of each stamp, for messages.
        bar_format: declares zone and label of stamps that carry no offset.
        tick_minutes: what a label at the end of the bar is moved by.

    Raises:
        DataError: for a stamp that cannot be read, or that could mean two instants.
    """
    if bar_format.label not in (None, "start", "end"):
        raise ConfigError(f"label must be 'start' or 'end', was {bar_format.label!r}")
    times = stamps if isinstance(stamps.dtype, pd.DatetimeTZDtype) or stamps.dtype.kind == "M" else _parse(stamps, path, lines)
    _refuse(times.isna().to_numpy(), path, lines, stamps, "an ISO time such as 2021-04-01 09:15:00+05:30")
    if isinstance(times.dtype, pd.DatetimeTZDtype):
        utc = pd.DatetimeIndex(times).tz_convert("UTC")
    else:
        utc = _from_local(pd.DatetimeIndex(times), instrument, path, lines, bar_format)
    starts: Integers = utc.tz_localize(None).to_numpy().astype("datetime64[ns]").view(np.int64)
    return starts - (tick_minutes * NANOSECONDS_PER_MINUTE if bar_format.label == "end" else 0)


def _parse(stamps: pd.Series, path: Path, lines: Integers) -> pd.Series:
    text = stamps.astype("string").str.strip()
    has_offset = text.str.contains(_OFFSET, regex=True).fillna(False).to_numpy(bool)
    if has_offset.any():
        _refuse(~has_offset, path, lines, stamps, "a time with an offset like the others of the file")
    return pd.to_datetime(text, utc=bool(has_offset.any()), format="ISO8601", errors="coerce")


def _from_local(
    naive: pd.DatetimeIndex, instrument: Integers, path: Path, lines: Integers, bar_format: BarFormat
) -> pd.DatetimeIndex:
    if bar_format.timezone is None or bar_format.label is None:
        missing = " and ".join(name for name in ("timezone", "label") if getattr(bar_format, name) is None)
        raise DataError(
            f"datetime must carry an offset from UTC, was {naive[0]} in {path}, {line_word(path)} {lines[0]}: declare {missing}"
            " (timezone: an IANA name such as America/New_York; label: 'start' or 'end' of the bar)"
        )
    check_timezone(bar_format.timezone)
    utc = naive.tz_localize(bar_format.timezone, ambiguous="NaT", nonexistent="NaT")
    if utc.isna().any():
        is_first = _is_first_pass(naive, instrument, np.asarray(utc.isna()))
        utc = naive.tz_localize(bar_format.timezone, ambiguous=is_first == 1, nonexistent="NaT")
        unclear = np.flatnonzero((is_first < 0) | utc.isna())
        if len(unclear):
            numbers = ", ".join(str(lines[bar]) for bar in unclear[:_NUM_NAMED]) + (", …" if len(unclear) > _NUM_NAMED else "")
            raise DataError(
                f"a local time must name one instant in {bar_format.timezone}, {naive[unclear[0]]} names none or two in {path},"
                f" {line_word(path)} {numbers}: deliver stamps with an offset from UTC"
            )
    return utc.tz_convert("UTC")


def _is_first_pass(naive: pd.DatetimeIndex, instrument: Integers, is_unclear: Booleans) -> Integers:
    """Tell the two passes through the hour that a clock change repeats apart by the order of the rows.

    Returns:
        (bars,) 1 for the first pass and wherever the clock is clear, 0 for the second, -1 where the order does not tell.
    """
    is_first = np.ones(len(naive), np.int64)
    local = naive.to_numpy()
    for which in np.unique(instrument[is_unclear]):
        bars = np.flatnonzero(instrument == which)
        if local[bars[0]] > local[bars[-1]]:
            bars = bars[::-1]  # newest first
        unclear = np.flatnonzero(is_unclear[bars])
        for repeated in np.split(unclear, np.flatnonzero(np.diff(unclear) > 1) + 1):
            hour = bars[repeated]
            (back,) = np.nonzero(np.diff(local[hour]) <= np.timedelta64(0))
            is_first[hour] = -1 if len(back) != 1 else np.arange(len(hour)) <= back[0]
    return is_first


def _refuse(broken: Booleans, path: Path, lines: Integers, stamps: pd.Series, rule: str) -> None:
    if broken.any():
        first = int(np.flatnonzero(broken)[0])
        raise DataError(
            f"datetime must be {rule}, was {stamps.iloc[first]!r} in {path}, {line_word(path)} {lines[first]}"
            f" ({int(broken.sum())} such rows): mend the file"
        )
