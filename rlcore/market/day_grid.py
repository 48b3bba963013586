"""Puts checked bars on the grid of their sessions: one row per instrument and day, one column per tick."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import numpy as np

from rlcore.foundation.errors import DataError
from rlcore.market.calendars import SessionSchedule, locate_ticks, schedule_sessions
from rlcore.market.schema import BarTable, Booleans, Floats, Integers

# Spacings of fewer bars than this may share a divisor by chance.
_MIN_SPACINGS = 20


@dataclass(frozen=True, slots=True)
class DayGrid:
    """Where each bar belongs. A row is one instrument on one day, sorted by (instrument, date)."""

    schedule: SessionSchedule
    """Only the days that have a row."""
    instruments: tuple[str, ...]
    row_instrument: Integers
    row_date: Integers
    bar_row: Integers
    """(bars in a session,) row of each bar."""
    bar_tick: Integers
    is_in_session: Booleans
    """(bars,) False for a bar outside every session, which is left out."""
    missing_days: Integers
    """(instruments,) days that the calendar expects between an instrument's first and last row and that have no row."""

    def dense(self, column: Floats) -> Floats:
        """Return (rows, ticks) of one column of the bars; NaN where there is no bar."""
        grid = np.full((len(self.row_date), self.schedule.tick_start.shape[1]), np.nan)
        grid[self.bar_row, self.bar_tick] = column[self.is_in_session]
        return grid


def bars_through(bars: BarTable, calendar: str, tick_minutes: int, through: date) -> BarTable:
    """Return the bars up to the close of a trading day, as somebody had them on its evening.

    Raises:
        DataError: where no session is left.
    """
    schedule = schedule_sessions(calendar, tick_minutes, bars.start_utc)
    days = np.flatnonzero(schedule.dates <= np.datetime64(through))
    if not len(days):
        raise DataError(f"the last day to keep must not lie before the first of the bars ({schedule.dates[0]}), was {through}")
    last_tick = schedule.tick_start[days[-1], schedule.session_ticks[days[-1]] - 1]
    return bars.take(bars.start_utc <= last_tick.astype(np.int64))


def grid_bars(bars: BarTable, calendar: str, tick_minutes: int) -> DayGrid:
    """Return the grid of bars that are sorted by instrument and time, and free of duplicates.

    Raises:
        DataError: for a bar off the tick grid, bars of another length than ``tick_minutes``, or no bar inside any session.
    """
    every_day = schedule_sessions(calendar, tick_minutes, bars.start_utc)
    day, tick, is_on_grid = locate_ticks(every_day, bars.start_utc, tick_minutes)
    if not is_on_grid.all():
        first = int(np.flatnonzero(~is_on_grid)[0])
        raise DataError(
            f"datetime must lie on the grid of {tick_minutes}-minute ticks of calendar {calendar!r},"
            f" did not in {bars.place(first)} ({int((~is_on_grid).sum())} such rows):"
            " set tick_minutes to the length of the file's bars, or mend the stamps"
        )
    is_in_session = day >= 0
    if not is_in_session.any():
        raise DataError(
            f"bars must lie inside the sessions of calendar {calendar!r} (zone {every_day.zone}), all {len(bars)} lie outside,"
            f" the first of them in {bars.place(0)}: check calendar, timezone and label"
        )
    day, tick, instrument = day[is_in_session], tick[is_in_session], bars.instrument[is_in_session]
    _check_bar_length(instrument, day, tick, tick_minutes)
    has_row = np.zeros(len(every_day.dates), bool)
    has_row[day] = True
    rows, bar_row = np.unique(instrument * len(every_day.dates) + day, return_inverse=True)
    row_instrument, row_day = np.divmod(rows, len(every_day.dates))
    present = np.unique(row_instrument)
    expected = np.arange(len(has_row)) if every_day.is_day_expected else np.flatnonzero(has_row)
    return DayGrid(
        schedule=every_day.keep(has_row),
        instruments=tuple(bars.instruments[index] for index in present),
        row_instrument=np.asarray(np.searchsorted(present, row_instrument), np.int64),
        row_date=(np.cumsum(has_row) - 1)[row_day],
        bar_row=bar_row,
        bar_tick=tick,
        is_in_session=is_in_session,
        missing_days=np.array([_num_missing(row_day[row_instrument == index], expected) for index in present]),
    )


def _check_bar_length(instrument: Integers, day: Integers, tick: Integers, tick_minutes: int) -> None:
    same_row = (np.diff(instrument) == 0) & (np.diff(day) == 0)
    spacings = np.diff(tick)[same_row]
    common = int(np.gcd.reduce(spacings)) if len(spacings) >= _MIN_SPACINGS else 1
    if common > 1:
        raise DataError(
            f"tick_minutes must be the length of the bars, was {tick_minutes}; all stand {common * tick_minutes} minutes apart:"
            f" set tick_minutes to {common * tick_minutes}"
        )


def _num_missing(days: Integers, expected: Integers) -> int:
    between = (expected >= days[0]) & (expected <= days[-1])
    return int(between.sum()) - len(days)
