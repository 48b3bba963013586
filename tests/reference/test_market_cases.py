"""Small inputs that go wrong in practice (``shared/cases/cases.json`` says what is wrong and what is right)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rlcore.foundation.errors import DataError
from rlcore.market import BarFormat, MarketStore, build_store

Build = Callable[..., MarketStore]
NEW_YORK_END = {"timezone": "America/New_York", "label": "end", "instrument": "X"}


@pytest.fixture
def build(shared_folder: Path, tmp_path: Path) -> Build:
    def build_case(number: str, calendar: str, tick_minutes: int, **bar_format: object) -> MarketStore:
        path = next((shared_folder / "cases").glob(f"{number}_*.csv"))
        chosen = BarFormat(**bar_format)  # type: ignore[arg-type]  # keywords of each case
        return build_store(path, tmp_path / "store", calendar=calendar, tick_minutes=tick_minutes, bar_format=chosen)

    return build_case


def test_01_a_missing_minute_is_no_trade_and_no_data_loss(build: Build) -> None:
    store = build("01", "XNYS", 1, **NEW_YORK_END)
    assert store.coverage[0] == 55 / 390
    assert store.is_complete[0]
    # The file: 09:37 at 25.0501, nothing until 09:47 at 25.0666, and 16:00 with volume 0.
    row, first, second = 0, store.tick_of(0, "09:36"), store.tick_of(0, "09:46")
    assert store.array("mark")[row, [first, first + 1, second - 1, second]].tolist() == [25.0501, 25.0501, 25.0501, 25.0666]
    assert store.array("tradable_volume")[row, [first, first + 1, second, 389]].tolist() == [3268, 0, 697, 0]
    assert np.isnan(store.array("volume")[row, first + 1])


def test_02_naive_end_labels(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")  # the host's zone must not matter
    with pytest.raises(DataError, match="declare timezone and label"):
        build("02", "XNYS", 1, instrument="X")
    store = build("02", "XNYS", 1, **NEW_YORK_END)
    assert store.coverage[0] == 1.0
    assert store.session_ticks[0] == 390
    assert store.tick_start_utc(0)[0] == np.datetime64("2019-02-15T14:30")
    assert store.array("volume")[0, 0] == 2869663  # labelled 09:31
    assert store.array("volume")[0, 389] == 427888  # labelled 16:00


def test_03_clock_change_keeps_the_session_whole(build: Build) -> None:
    store = build("03", "XNYS", 5, instrument="X")
    assert store.session_ticks.tolist() == [78, 78]
    assert store.coverage.tolist() == [1.0, 1.0]
    opens = [store.tick_start_utc(row)[0] for row in range(2)]
    assert opens == [np.datetime64("2026-03-06T14:30"), np.datetime64("2026-03-09T13:30")]
    assert [store.tick_label(row, 0) for row in range(2)] == ["09:30", "09:30"]


def test_04_a_half_day_ends_early(build: Build) -> None:
    store = build("04", "XNYS", 5, instrument="X")
    assert store.session_ticks.tolist() == [78, 42, 78]
    assert store.coverage.tolist() == [1.0, 1.0, 1.0]
    assert store.is_complete.all()
    half = store.row_of("X", "2025-12-24")
    assert store.tick_of(half, "13:00") == 42
    with pytest.raises(DataError, match="09:30-13:00"):
        store.tick_of(half, "13:05")
    assert np.isnan(store.array("mark")[half, 42:]).all()
    assert (store.array("tradable_volume")[half, 42:] == 0).all()
    assert np.isnat(store.tick_start_utc(half)[42:]).all()


def test_05_an_outage_is_no_half_day(build: Build) -> None:
    store = build("05", "XNYS", 5, instrument="X")
    assert store.session_ticks.tolist() == [78, 78, 78]
    assert store.is_complete.tolist() == [True, False, False]
    assert store.quality is not None
    assert [(day.date, day.num_bars) for day in store.quality.incomplete_days] == [("2026-01-30", 13), ("2026-02-02", 24)]


def test_06_zero_volume_beside_a_moving_price_is_unknown(build: Build) -> None:
    store = build("06", "XNYS", 5, instrument="X")
    assert store.quality is not None
    assert store.quality.instruments[0].num_contradictory == 12
    assert np.isnan(store.array("volume")).sum() == 12
    assert (store.array("tradable_volume") == 0).sum() == 12
    assert np.isfinite(store.array("close")).all()


def test_07_volume_that_is_mostly_zero_is_called_useless(build: Build) -> None:
    store = build("07", "24/7", 5, instrument="X")
    assert store.instruments_without_usable_volume == ("X",)
    assert store.quality is not None
    assert any("zero volume" in warning and "cannot limit execution" in warning for warning in store.quality.warnings())


def test_08_suspended_days_have_no_price_and_no_order(build: Build) -> None:
    store = build("08", "XSHG", 15, timezone="Asia/Shanghai", label="end", columns={"symbol": "instrument"})
    assert store.coverage.tolist() == [1.0, 1.0, 0.0, 0.0, 0.0]
    assert store.is_complete.tolist() == [True, True, False, False, False]
    assert np.isnan(store.array("close")[2:]).all()
    assert (store.array("tradable_volume")[2:] == 0).all()
    last_real = store.array("close")[1, 15]
    assert (store.array("mark")[2:] == last_real).all()
    assert store.quality is not None
    assert store.quality.instruments[0].num_suspended == 48


def test_10_an_open_of_zero_is_refused(build: Build) -> None:
    headers = {"时间": "datetime", "开盘": "open", "收盘": "close", "最高": "high", "最低": "low", "成交量": "volume"}
    with pytest.raises(DataError, match=r"open must be positive, was 0 in .*line 2"):
        build("10", "XSHE", 1, timezone="Asia/Shanghai", label="end", instrument="X", columns=headers)


def test_11_missing_volume_is_unknown_not_zero(build: Build) -> None:
    headers = {"ts_code": "instrument", "trade_time": "datetime", "vol": "volume"}
    store = build("11", "XSHE", 5, timezone="Asia/Shanghai", label="start", columns=headers)
    ticks = [store.tick_of(0, time) for time in ("13:00", "13:05", "13:10", "13:15", "13:55")]
    assert np.isnan(store.array("volume")[0, ticks]).tolist() == [False, True, True, True, False]
    assert store.array("tradable_volume")[0, ticks].tolist() == [1520300, 0, 0, 0, 880100]
    assert store.quality is not None
    assert store.quality.instruments[0].num_unknown_volume == 3


def test_12_a_missing_1130_bar_does_not_shift_the_afternoon(build: Build) -> None:
    store = build("12", "XSHE", 1, timezone="Asia/Shanghai", label="end", columns={"code": "instrument"})
    assert store.instruments == ("003035",)  # not 3035
    assert store.session_ticks[0] == 240
    assert np.flatnonzero(np.isfinite(store.array("close")[0])).tolist() == [116, 117, 118, 120]
    assert store.tick_label(0, 119) == "11:29"
    assert store.array("mark")[0, 119] == 7.70


def test_13_twins(build: Build) -> None:
    with pytest.raises(DataError, match=r"line 7, .*line 8, "):
        build("13", "09:15-15:30 Asia/Kolkata", 1, instrument="X")
    store = build("13", "09:15-15:30 Asia/Kolkata", 1, instrument="X", duplicates="keep_last")
    assert store.array("close")[0, :4].tolist() == [5450.10, 5460.30, 5459.00, 5461.00]
    assert store.array("volume")[0, :4].tolist() == [12035, 8230, 5120, 6900]  # never summed
    assert store.quality is not None
    assert (store.quality.num_copies_dropped, store.quality.num_empty_twins_dropped, store.quality.num_revised) == (1, 1, 1)


def test_14_the_repeated_hour_is_nine_different_bars(build: Build) -> None:
    store = build("14", "00:00-24:00 Europe/Zurich", 15, timezone="Europe/Zurich", label="start", instrument="X")
    assert store.session_ticks[0] == 100  # 25 hours
    present = np.flatnonzero(np.isfinite(store.array("close")[0]))
    assert present.tolist() == list(range(8, 17))
    assert store.tick_start_utc(0)[8] == np.datetime64("2013-10-27T00:00")
    assert store.array("open")[0, present] == pytest.approx(100 + np.arange(9) / 10)
