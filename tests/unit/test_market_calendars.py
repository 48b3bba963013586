"""Sessions of calendars: published opening hours, half days, holidays and clock changes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from rlcore.foundation.errors import DataError
from rlcore.market.calendars import SessionSchedule, locate_ticks, schedule_sessions


def schedule(calendar: str, first: str, last: str, tick_minutes: int = 1) -> SessionSchedule:
    days = pd.date_range(first, last, freq="D") + pd.Timedelta(hours=12)
    return schedule_sessions(calendar, tick_minutes, days.to_numpy().astype("datetime64[ns]").view(np.int64))


def utc(*instants: str) -> np.ndarray:
    return np.array(instants, "datetime64[ns]").view(np.int64)


@pytest.mark.parametrize(("calendar", "opens"), [("XNYS", "14:30"), ("09:30-16:00 America/New_York", "14:30")])
def test_new_york_moves_against_utc(calendar: str, opens: str) -> None:
    winter = schedule(calendar, "2026-03-06", "2026-03-06")
    summer = schedule(calendar, "2026-03-09", "2026-03-09")
    day = list(winter.dates).index(np.datetime64("2026-03-06"))
    assert winter.tick_start[day, 0] == np.datetime64(f"2026-03-06T{opens}")
    day = list(summer.dates).index(np.datetime64("2026-03-09"))
    assert summer.tick_start[day, 0] == np.datetime64("2026-03-09T13:30")


def test_half_days_and_holidays_of_new_york() -> None:
    found = schedule("XNYS", "2025-12-22", "2025-12-29")
    ticks = dict(zip(found.dates.astype(str), found.session_ticks.tolist(), strict=True))
    assert ticks["2025-12-24"] == 210
    assert ticks["2025-12-26"] == 390
    assert "2025-12-25" not in ticks
    assert found.is_day_expected


@pytest.mark.parametrize(
    "calendar", ["XSHG", "XSHE", "09:30-11:30,13:00-15:00 Asia/Shanghai", "09:30-11:30, 13:00-15:00 Asia/Shanghai"]
)
def test_shanghai_has_lunch(calendar: str) -> None:
    found = schedule(calendar, "2018-01-02", "2018-01-03")
    day = list(found.dates).index(np.datetime64("2018-01-02"))
    assert found.session_ticks[day] == 240
    assert found.tick_start[day, [0, 119, 120, 239]].tolist() == [
        np.datetime64(f"2018-01-02T{time}", "ns").item() for time in ("01:30", "03:29", "05:00", "06:59")
    ]


def test_nse_shares_the_holidays_of_bombay() -> None:
    dates = set(schedule("XNSE", "2021-04-10", "2021-05-20").dates.astype(str))
    assert not dates & {"2021-04-14", "2021-04-21", "2021-05-13"}
    assert {"2021-04-13", "2021-04-15", "2021-05-14"} <= dates


def test_round_the_clock_has_weekends() -> None:
    found = schedule("24/7", "2024-03-01", "2024-03-04")
    assert found.session_ticks.tolist() == [1440] * 4
    assert found.is_day_expected


def test_clock_change_inside_a_day_of_24_hours() -> None:
    found = schedule("00:00-24:00 Europe/Zurich", "2024-03-30", "2024-03-31", 60)
    assert found.session_ticks.tolist() == [24, 23]
    assert schedule("00:00-24:00 Europe/Zurich", "2024-10-27", "2024-10-27", 60).session_ticks.tolist() == [25]


def test_instants_find_their_ticks() -> None:
    found = schedule("09:30-11:30,13:00-15:00 Asia/Shanghai", "2018-01-02", "2018-01-03", 5)
    instants = utc(
        "2018-01-02T01:30", "2018-01-02T03:25", "2018-01-02T03:30", "2018-01-03T05:00", "2018-01-03T05:02", "2018-01-01T00:00"
    )
    day, tick, is_on_grid = locate_ticks(found, instants, 5)
    assert day.tolist() == [0, 0, -1, 1, 1, -1]
    assert tick.tolist() == [0, 23, -1, 24, 24, -1]
    assert is_on_grid.tolist() == [True, True, True, True, False, True]


def test_bars_on_no_session_that_the_calendar_knows() -> None:
    with pytest.raises(DataError, match=r"sessions that calendar XBOM knows.*explicit sessions"):
        schedule("XBOM", "1985-01-01", "1985-01-05")
