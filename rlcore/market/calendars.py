"""Trading sessions of a calendar as a grid of ticks in UTC.

A calendar is one of

* the name of an exchange known to ``exchange_calendars`` (``XNYS``, ``XSHG``, ``XBOM``): holidays, half days, lunch breaks and
  clock changes come from there; ``XNSE`` and ``XSHE`` share the sessions of ``XBOM`` and ``XSHG``;
* ``24/7``: every day from 00:00 to 24:00 UTC;
* explicit sessions with a zone, ``09:15-15:30 Asia/Kolkata`` or ``09:30-11:30,13:00-15:00 Asia/Shanghai``: the same on every day
  that has bars, since no holidays are known.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlcore.foundation.errors import ConfigError, DataError, nearest_name
from rlcore.market.schema import NANOSECONDS_PER_MINUTE, Booleans, Integers

# One trading system's members keep one timetable; exchange_calendars carries each under one name only.
_SAME_SESSIONS = {"XNSE": "XBOM", "XSHE": "XSHG"}
_EXPLICIT = re.compile(r"^(\d\d:\d\d-\d\d:\d\d(?:\s*,\s*\d\d:\d\d-\d\d:\d\d)*)\s+(\S+)$")

Dates = NDArray[np.datetime64]


@dataclass(frozen=True, slots=True)
class SessionSchedule:
    """The ticks of each trading day."""

    zone: str
    dates: Dates
    """(days,) datetime64[D], ascending: the exchange's name of the session."""
    tick_start: NDArray[np.datetime64]
    """(days, ticks of the longest session) datetime64[ns] UTC; NaT after the session. Ticks of a lunch break do not exist."""
    session_ticks: Integers
    """(days,) number of ticks of the session."""
    is_day_expected: bool
    """True where the calendar knows holidays, so that a day without bars is missing."""

    def keep(self, days: Booleans) -> SessionSchedule:
        """Return the schedule of some days only, as narrow as they allow."""
        ticks = self.session_ticks[days]
        width = int(ticks.max(initial=0))
        return replace(self, dates=self.dates[days], tick_start=self.tick_start[days, :width], session_ticks=ticks)


def schedule_sessions(calendar: str, tick_minutes: int, start_utc: Integers) -> SessionSchedule:
    """Return the sessions around the given instants.

    Args:
        calendar: see the module.
        tick_minutes: length of a tick; must divide every part of a session.
        start_utc: (bars,) nanoseconds since 1970 UTC; exchange calendars give all sessions between the first and the last,
            explicit sessions those of the local dates that occur.

    Raises:
        ConfigError: for a calendar or a tick length that cannot be understood.
    """
    if tick_minutes < 1:
        raise ConfigError(f"tick_minutes must be at least 1, was {tick_minutes}: give the length of a bar in minutes")
    explicit = _EXPLICIT.match("00:00-24:00 UTC" if calendar == "24/7" else calendar.strip())
    if explicit:
        zone, dates, segments = _explicit_segments(explicit[1], explicit[2], start_utc)
    else:
        zone, dates, segments = _exchange_segments(calendar, start_utc)
    tick_start, session_ticks = _ticks(calendar, segments, tick_minutes)
    return SessionSchedule(zone, dates, tick_start, session_ticks, not explicit or calendar == "24/7")


def locate_ticks(schedule: SessionSchedule, start_utc: Integers, tick_minutes: int) -> tuple[Integers, Integers, Booleans]:
    """Return (day, tick, is_on_grid) of each instant.

    ``day`` is -1 outside every session. An instant inside a tick but not at its start has ``is_on_grid`` False.
    """
    flat = schedule.tick_start.view(np.int64).ravel()
    exists = ~np.isnat(schedule.tick_start).ravel()
    starts, places = flat[exists], np.flatnonzero(exists)
    if not len(starts):
        outside = np.full(len(start_utc), -1)
        return outside, outside, np.ones(len(start_utc), bool)
    nearest = np.maximum(np.searchsorted(starts, start_utc, side="right") - 1, 0)
    since = start_utc - starts[nearest]
    inside = (since >= 0) & (since < tick_minutes * NANOSECONDS_PER_MINUTE)
    day, tick = np.divmod(places[nearest], schedule.tick_start.shape[1])
    return np.where(inside, day, -1), np.where(inside, tick, -1), ~inside | (since == 0)


def check_timezone(zone: str) -> ZoneInfo:
    """Return the zone.

    Raises:
        ConfigError: for a name that is not in the IANA data base.
    """
    if zone not in available_timezones():
        hint = nearest_name(zone, available_timezones())
        raise ConfigError(f"timezone must be an IANA name such as Asia/Kolkata, was {zone!r}{hint}")
    return ZoneInfo(zone)


def _explicit_segments(text: str, zone: str, start_utc: Integers) -> tuple[str, Dates, Integers]:
    check_timezone(zone)
    bounds = [[_minutes(clock) for clock in part.strip().split("-")] for part in text.split(",")]
    flat = [minute for pair in bounds for minute in pair]
    if any(late <= early for early, late in pairwise(flat)):
        raise ConfigError(
            f"sessions of a calendar must be ascending within one day, were {text!r}:"
            " name an exchange_calendars code for sessions over midnight"
        )
    local = pd.DatetimeIndex(start_utc.view("datetime64[ns]"), tz="UTC").tz_convert(zone)
    dates = np.unique(local.tz_localize(None).to_numpy().astype("datetime64[D]"))
    segments = np.empty((len(dates), len(bounds), 2), np.int64)
    for part, pair in enumerate(bounds):
        for end, minute in enumerate(pair):
            naive = pd.DatetimeIndex(dates.astype("datetime64[ns]") + np.timedelta64(minute, "m"))
            # At a clock change a session spans the repeated hour and skips the missing one: opens early, closes late.
            is_first = np.full(len(dates), end == 0)
            instants = naive.tz_localize(zone, ambiguous=is_first, nonexistent="shift_forward")
            segments[:, part, end] = instants.tz_convert("UTC").tz_localize(None).to_numpy().view(np.int64)
    return zone, dates, segments


def _minutes(clock: str) -> int:
    hours, minutes = int(clock[:2]), int(clock[3:])
    if hours * 60 + minutes > 24 * 60 or minutes > 59:
        raise ConfigError(f"time of a session must be between 00:00 and 24:00, was {clock!r}")
    return hours * 60 + minutes


def _exchange_segments(calendar: str, start_utc: Integers) -> tuple[str, Dates, Integers]:
    import exchange_calendars  # imported here because it takes half a second

    code = _SAME_SESSIONS.get(calendar, calendar)
    known = [*exchange_calendars.get_calendar_names(), *_SAME_SESSIONS, "24/7"]
    if code not in known:
        raise ConfigError(
            "calendar must be an exchange_calendars name, '24/7' or sessions such as '09:15-15:30 Asia/Kolkata',"
            f" was {calendar!r}{nearest_name(calendar, known)}"
        )
    first, last = (pd.Timestamp(int(f(start_utc)), unit="ns").normalize() for f in (np.min, np.max))
    table = _exchange_table(exchange_calendars, code, first, last)
    opens, closes, pauses, resumes = (
        pd.DatetimeIndex(table[name]).tz_convert("UTC").tz_localize(None).to_numpy().astype("datetime64[ns]")
        for name in ("open", "close", "break_start", "break_end")
    )
    # A day without a break has an empty second part; NaT breaks are replaced by the close.
    pauses, resumes = (np.where(np.isnat(instant), closes, instant) for instant in (pauses, resumes))
    segments = np.stack([np.stack([opens, pauses], axis=1), np.stack([resumes, closes], axis=1)], axis=1)
    dates = table.index.to_numpy().astype("datetime64[D]")
    return str(table.attrs["zone"]), dates, segments.view(np.int64)


def _exchange_table(library: Any, code: str, first: pd.Timestamp, last: pd.Timestamp) -> pd.DataFrame:
    day = pd.Timedelta(days=1)
    problem: Exception | None = None
    # The session named D may hold instants of the UTC days D-1 and D+1; at the edge of the calendar the margin is given up.
    for margin in (day, 0 * day):
        try:
            exchange = library.get_calendar(code, start=first - margin, end=last + margin)
        except library.errors.NoSessionsError:
            continue
        except ValueError as error:
            problem = error
            continue
        table: pd.DataFrame = exchange.schedule
        table.attrs["zone"] = str(exchange.tz)
        return table
    reason = f": {problem}" if problem else ""
    raise DataError(
        f"bars must lie on sessions that calendar {code} knows, were from {first.date()} to {last.date()}{reason}."
        " Give explicit sessions such as '09:15-15:30 Asia/Kolkata' or another calendar"
    )


def _ticks(calendar: str, segments: Integers, tick_minutes: int) -> tuple[NDArray[np.datetime64], Integers]:
    tick = tick_minutes * NANOSECONDS_PER_MINUTE
    counts, rest = np.divmod(segments[:, :, 1] - segments[:, :, 0], tick)
    if rest.any():
        day, part = np.argwhere(rest)[0]
        minutes = (segments[day, part, 1] - segments[day, part, 0]) // NANOSECONDS_PER_MINUTE
        raise ConfigError(
            f"tick_minutes must divide every part of a session of calendar {calendar!r} ({minutes} minutes), was {tick_minutes}"
        )
    session_ticks = counts.sum(axis=1)
    tick_start = np.full((len(segments), int(session_ticks.max(initial=0))), np.datetime64("NaT", "ns"))
    for day, (parts, lengths) in enumerate(zip(segments, counts, strict=True)):
        starts = [begin + tick * np.arange(length) for (begin, _), length in zip(parts, lengths, strict=True)]
        tick_start[day, : session_ticks[day]] = np.concatenate(starts).view("datetime64[ns]")
    return tick_start, session_ticks
