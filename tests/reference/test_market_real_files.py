"""Stores of real bars: sizes are those that ``shared/data/README.md`` states, values those of the files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rlcore.market import MarketStore, build_store, history_features


def store_of(shared_folder: Path, tmp_path: Path, name: str, calendar: str) -> tuple[MarketStore, pd.DataFrame]:
    path = shared_folder / "data" / "bars" / f"{name}.parquet"
    store = build_store(path, tmp_path / "store", calendar=calendar, tick_minutes=1)
    assert np.isfinite(history_features(store).array).all()
    return store, pd.read_parquet(path)


@pytest.mark.parametrize("calendar", ["09:15-15:30 Asia/Kolkata", "XNSE"])
def test_nse(shared_folder: Path, tmp_path: Path, calendar: str) -> None:
    store, frame = store_of(shared_folder, tmp_path, "nse_1min_22names_20210401_20210609", calendar)
    assert (len(store.instruments), store.num_rows, store.num_ticks) == (22, 455, 375)
    assert store.is_complete.all()
    assert store.coverage.min() >= 358 / 375
    assert store.array("tradable_volume").sum() == frame["volume"].sum()
    assert np.isfinite(store.array("close")).sum() == len(frame)
    bar = frame[(frame["instrument"] == "NSE.RELIANCE")].iloc[500]
    local = bar["datetime"].tz_convert("Asia/Kolkata")
    row = store.row_of("NSE.RELIANCE", local.date())
    assert store.array("close")[row, store.tick_of(row, local.strftime("%H:%M"))] == bar["close"]


@pytest.mark.parametrize("calendar", ["09:30-11:30,13:00-15:00 Asia/Shanghai", "XSHE"])
def test_szse_has_a_lunch_break(shared_folder: Path, tmp_path: Path, calendar: str) -> None:
    store, frame = store_of(shared_folder, tmp_path, "szse_000001_1min_201801", calendar)
    assert (store.num_rows, store.num_ticks) == (21, 240)
    assert (store.coverage == 1.0).all()
    np.testing.assert_array_equal(store.array("close").ravel(), frame["close"])
    closing_auction = store.tick_of(0, "14:58")
    assert (store.array("tradable_volume")[:, closing_auction] == 0).all()


def test_us_half_day_and_extended_hours(shared_folder: Path, tmp_path: Path) -> None:
    store, _ = store_of(shared_folder, tmp_path, "us_equity_1min_trade_quote", "XNYS")
    assert len(store.instruments) == 10
    half = store.row_of("equity.usa.GOOG", "2015-12-24")
    assert store.session_ticks[half] == 210
    assert np.unique(store.session_ticks).tolist() == [210, 390]
    assert store.quality is not None
    assert store.quality.num_outside_session > 0
    assert {"bid", "ask"} <= set(store.fields)
    # Both sides of the DST change of 2008 open at 09:30 local.
    rows = np.flatnonzero(store.row_instrument == store.instruments.index("equity.usa.SHY"))
    assert {store.tick_label(int(row), 0) for row in rows} == {"09:30"}


@pytest.mark.parametrize(("name", "num_whole_days"), [("crypto_1min_trade_quote", 21), ("btc_perp_1min_202201", 31)])
def test_round_the_clock(shared_folder: Path, tmp_path: Path, name: str, num_whole_days: int) -> None:
    store, frame = store_of(shared_folder, tmp_path, name, "24/7")
    assert store.num_ticks == 1440
    assert store.is_complete.sum() == num_whole_days
    assert store.num_rows == frame.groupby(["instrument", frame["datetime"].dt.date]).ngroups
