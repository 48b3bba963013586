"""The store: what it holds, how it is opened, shared, rebuilt and refused."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rlcore.foundation.atomic_files import folder_written_atomically
from rlcore.foundation.errors import DataError
from rlcore.market import BarFormat, MarketStore, build_store

CALENDAR = "09:30-11:30,13:00-15:00 Asia/Shanghai"
TICKS = 240


def day_of_bars(instrument: str, day: str, prices: dict[int, float], volume: float = 100.0) -> pd.DataFrame:
    """Flat bars at the given ticks."""
    starts = [pd.Timestamp(f"{day} {'01:30' if tick < 120 else '05:00'}", tz="UTC") for tick in prices]
    offsets = [pd.Timedelta(minutes=tick % 120) for tick in prices]
    price = list(prices.values())
    return pd.DataFrame(
        {
            "datetime": [start + offset for start, offset in zip(starts, offsets, strict=True)],
            "instrument": instrument,
            **dict.fromkeys(("open", "high", "low", "close"), price),
            "volume": volume,
        }
    )


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Two instruments: B on two days with holes, A on the second day only."""
    frame = pd.concat(
        [
            day_of_bars("B", "2024-03-01", {1: 10.0, 3: 11.0, 239: 12.0}),
            day_of_bars("B", "2024-03-04", {2: 13.0, 120: 14.0}),
            day_of_bars("A", "2024-03-04", {0: 20.0}),
        ]
    ).sample(frac=1.0, random_state=1)
    path = tmp_path / "bars.parquet"
    frame.to_parquet(path, index=False)
    return path


@pytest.fixture
def store(source: Path, tmp_path: Path) -> MarketStore:
    return build_store(source, tmp_path / "store", calendar=CALENDAR, tick_minutes=1)


def test_rows_are_instrument_days_in_order(store: MarketStore) -> None:
    assert store.instruments == ("A", "B")
    assert store.dates.tolist() == [date(2024, 3, 1), date(2024, 3, 4)]
    assert store.row_instrument.tolist() == [0, 1, 1]
    assert store.row_date.tolist() == [1, 0, 1]
    assert store.previous_row.tolist() == [-1, -1, 1]
    assert store.session_ticks.tolist() == [TICKS] * 3
    assert store.coverage.tolist() == [1 / TICKS, 3 / TICKS, 2 / TICKS]
    assert store.num_ticks == TICKS
    assert store.fields == ("open", "high", "low", "close", "volume", "mark", "tradable_volume")


def test_bars_stand_at_their_ticks_and_lunch_is_no_gap(store: MarketStore) -> None:
    close = store.array("close")
    assert np.flatnonzero(np.isfinite(close[1])).tolist() == [1, 3, 239]
    assert np.flatnonzero(np.isfinite(close[2])).tolist() == [2, 120]
    assert close[1, [1, 3, 239]].tolist() == [10.0, 11.0, 12.0]


def test_mark_carries_the_last_close_forward_within_and_across_days(store: MarketStore) -> None:
    mark = store.array("mark")
    assert np.isnan(mark[1, 0])
    assert mark[1, 1:5].tolist() == [10.0, 10.0, 11.0, 11.0]
    assert mark[2, :3].tolist() == [12.0, 12.0, 13.0]
    assert mark[2, [119, 120, 239]].tolist() == [13.0, 14.0, 14.0]
    assert mark[0, 0] == 20.0  # another instrument's price never reaches over


def test_tradable_volume_is_zero_without_a_bar(store: MarketStore) -> None:
    volume = store.array("tradable_volume")
    assert np.flatnonzero(volume[1]).tolist() == [1, 3, 239]
    assert volume.sum() == 600.0


def test_arrays_are_read_only_and_memory_mapped(store: MarketStore) -> None:
    close = store.array("close")
    with pytest.raises(ValueError, match="read-only"):
        close[0, 0] = 1.0
    owner = close
    while isinstance(owner.base, np.ndarray) and not isinstance(owner, np.memmap):
        owner = owner.base
    assert isinstance(owner, np.memmap)


def test_window_equals_indexing_and_is_a_copy(store: MarketStore) -> None:
    row, start = np.array([2, 0, 1]), np.array([118, 0, 210])
    window = store.window("mark", row, start, 30)
    np.testing.assert_array_equal(window, store.array("mark")[row[:, None], start[:, None] + np.arange(30)])
    window[:] = 0.0
    assert store.array("mark")[0, 0] == 20.0


def test_window_may_reach_beyond_the_last_row(store: MarketStore) -> None:
    window = store.window("close", np.array([2]), np.array([TICKS]), TICKS)
    assert window.shape == (1, TICKS)
    assert np.isnan(window).all()


def test_times_of_ticks(store: MarketStore) -> None:
    row = store.row_of("B", "2024-03-01")
    assert [store.tick_of(row, time) for time in ("09:30", "09:31", "11:29", "13:00", "14:59")] == [0, 1, 119, 120, 239]
    assert store.tick_of(row, "11:30") == 120  # exclusive end of the morning
    assert store.tick_of(row, "15:00") == TICKS
    assert [store.tick_label(row, tick) for tick in (0, 119, 120, TICKS)] == ["09:30", "11:29", "13:00", "15:00"]
    starts = store.tick_start_utc(row)
    assert starts[120] == np.datetime64("2024-03-01T05:00")
    for time in ("12:00", "09:29", "15:01", "9:30", "noon"):
        with pytest.raises(DataError, match="09:30-11:30,13:00-15:00"):
            store.tick_of(row, time)


def test_round_the_clock_closes_at_24(source: Path, tmp_path: Path) -> None:
    store = build_store(source, tmp_path / "round", calendar="24/7", tick_minutes=1)
    assert store.num_ticks == 1440
    assert store.tick_of(0, "00:00") == 0
    assert store.tick_of(0, "24:00") == 1440
    assert store.tick_label(0, 1440) == "24:00"


@pytest.mark.parametrize("day", ["2024-03-04", date(2024, 3, 4), np.datetime64("2024-03-04")])
def test_row_of(store: MarketStore, day: str | date | np.datetime64) -> None:
    assert store.row_of("B", day) == 2


def test_row_of_names_what_is_near(store: MarketStore) -> None:
    with pytest.raises(DataError, match="nearest 2024-03-01, 2024-03-04"):
        store.row_of("B", "2024-03-02")
    with pytest.raises(DataError, match="did you mean 'B'"):
        store.row_of("BB", "2024-03-04")
    with pytest.raises(DataError, match="ISO date"):
        store.row_of("B", "the fourth")
    with pytest.raises(DataError, match="did you mean 'close'"):
        store.array("closee")


def test_a_store_pickles_as_its_path(store: MarketStore) -> None:
    data = pickle.dumps(store)
    assert len(data) < 500
    assert pickle.loads(data).fingerprint == store.fingerprint
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer).array('mark')[1, 3])"
    shown = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True)
    assert shown.stdout.decode().strip() == "11.0"


def test_a_pickled_store_that_was_rebuilt_differently_is_refused(source: Path, store: MarketStore) -> None:
    data = pickle.dumps(store)
    build_store(source, store.path, calendar="24/7", tick_minutes=1)
    with pytest.raises(DataError, match="built anew"):
        pickle.loads(data)


def test_an_open_store_outlives_its_replacement(source: Path, store: MarketStore) -> None:
    before = store.array("mark")
    build_store(source, store.path, calendar="24/7", tick_minutes=1)
    assert before[1, 3] == 11.0


def test_same_input_gives_same_fingerprint_and_other_input_another(source: Path, store: MarketStore, tmp_path: Path) -> None:
    again = build_store(source, tmp_path / "again", calendar=CALENDAR, tick_minutes=1)
    assert again.fingerprint == store.fingerprint
    shuffled = tmp_path / "shuffled.csv"
    pd.read_parquet(source).sample(frac=1.0, random_state=2).to_csv(shuffled, index=False)
    assert build_store(shuffled, tmp_path / "csv", calendar=CALENDAR, tick_minutes=1).fingerprint == store.fingerprint
    other = build_store(source, tmp_path / "other", calendar="09:30-15:00 Asia/Shanghai", tick_minutes=1)
    assert other.fingerprint != store.fingerprint


def test_an_equal_build_is_not_repeated(source: Path, store: MarketStore) -> None:
    before = (store.path / "store.json").stat().st_ino
    build_store(source, store.path, calendar=CALENDAR, tick_minutes=1)
    assert (store.path / "store.json").stat().st_ino == before


def test_files_of_a_list_and_of_a_folder_are_joined(source: Path, store: MarketStore, tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    for name, part in pd.read_parquet(source).groupby("instrument"):
        part.to_csv(folder / f"{name}.csv", index=False)
    by_folder = build_store(folder, tmp_path / "by_folder", calendar=CALENDAR, tick_minutes=1)
    by_list = build_store(sorted(folder.iterdir(), reverse=True), tmp_path / "by_list", calendar=CALENDAR, tick_minutes=1)
    assert by_folder.fingerprint == by_list.fingerprint == store.fingerprint


def test_through_keeps_what_was_known_that_evening(source: Path, tmp_path: Path) -> None:
    frame = pd.read_parquet(source)
    broken = frame["close"].where(frame["datetime"] < "2024-03-02", -1.0)  # a later error must not matter
    frame.assign(close=broken).to_parquet(source, index=False)
    store = build_store(source, tmp_path / "early", calendar=CALENDAR, tick_minutes=1, through=date(2024, 3, 2))
    assert store.instruments == ("B",)
    assert store.dates.tolist() == [date(2024, 3, 1)]
    with pytest.raises(DataError, match="must not lie before the first"):
        build_store(source, tmp_path / "none", calendar=CALENDAR, tick_minutes=1, through=date(2024, 2, 1))


def test_own_columns_become_fields(source: Path, tmp_path: Path) -> None:
    pd.read_parquet(source).assign(news=2.5, unused="x").to_parquet(source, index=False)
    store = build_store(source, tmp_path / "own", calendar=CALENDAR, tick_minutes=1, bar_format=BarFormat(extra_fields=("news",)))
    assert store.fields == ("open", "high", "low", "close", "volume", "news", "mark", "tradable_volume")
    assert store.array("news")[1, 3] == 2.5


def test_another_version_and_damage_are_refused_and_rebuilt(source: Path, store: MarketStore) -> None:
    manifest = store.path / "store.json"
    whole = manifest.read_text()
    manifest.write_text(json.dumps({**json.loads(whole), "format_version": 0}))
    with pytest.raises(DataError, match=r"format_version of a market store must be 1, was 0.*build it again"):
        MarketStore.open(store.path)
    manifest.write_text(whole[:100])
    with pytest.raises(DataError, match="damaged"):
        MarketStore.open(store.path)
    assert build_store(source, store.path, calendar=CALENDAR, tick_minutes=1).fingerprint == store.fingerprint
    field = store.path / "close.field.npy"
    field.write_bytes(field.read_bytes()[:-8])
    with pytest.raises(DataError, match=r"close.field.npy of a market store must have \d+ bytes"):
        MarketStore.open(store.path)
    field.unlink()
    with pytest.raises(DataError, match="missing"):
        MarketStore.open(store.path)
    with pytest.raises(DataError, match="build it"):
        MarketStore.open(store.path.parent)


def test_builders_at_once_do_not_disturb_each_other(source: Path, tmp_path: Path) -> None:
    """Two processes replace one store by different ones again and again: none fails, and a whole store is left, nothing else."""
    destination = tmp_path / "contested" / "store"
    code = (
        "import sys; from pathlib import Path; from rlcore.market import build_store\n"
        "for turn in range(15):\n"
        f"    calendar = ({CALENDAR!r}, '24/7')[(turn + int(sys.argv[3])) % 2]\n"
        "    build_store(Path(sys.argv[1]), Path(sys.argv[2]), calendar=calendar, tick_minutes=1)\n"
    )
    builders = [
        subprocess.Popen([sys.executable, "-c", code, str(source), str(destination), str(which)], stderr=subprocess.PIPE)
        for which in range(2)
    ]
    errors = [builder.communicate()[1].decode() for builder in builders]
    assert [builder.returncode for builder in builders] == [0, 0], errors
    assert MarketStore.open(destination).num_rows == 3
    assert [entry.name for entry in destination.parent.iterdir()] == ["store"]


def test_a_folder_may_be_replaced_by_many_at_once(tmp_path: Path) -> None:
    target = tmp_path / "target"

    def replace(content: int) -> None:
        with folder_written_atomically(target) as folder:
            (folder / "content").write_text(str(content))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(replace, range(200)))  # list: an error of a thread is raised here
    assert 0 <= int((target / "content").read_text()) < 200
    assert [entry.name for entry in tmp_path.iterdir()] == ["target"]
