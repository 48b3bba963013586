"""Bad market data: one clear message that names file, row, column and remedy, and nothing left behind."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from rlcore.foundation.errors import ConfigError, DataError, InputError
from rlcore.market import BarFormat, build_store, check_source

CALENDAR = "09:30-11:30,13:00-15:00 Asia/Shanghai"


def bars(num_bars: int = 30) -> pd.DataFrame:
    """Whole minutes from the open on one day."""
    times = pd.date_range("2024-03-01 01:30", periods=num_bars, freq="min", tz="UTC")
    return pd.DataFrame(
        {"datetime": times, "instrument": "A", "open": 10.0, "high": 11.0, "low": 9.0, "close": 10.5, "volume": 100.0}
    )


def refusal(tmp_path: Path, frame: pd.DataFrame, name: str = "bars.csv", **options: object) -> str:
    """Build from the frame, expect an error, check that nothing was left, return the message."""
    path = tmp_path / name
    frame.to_csv(path, index=False) if name.endswith("csv") else frame.to_parquet(path)
    arguments = {"calendar": CALENDAR, "tick_minutes": 1, **options}
    with pytest.raises(InputError) as error:
        build_store(path, tmp_path / "out" / "store", **arguments)  # type: ignore[arg-type]  # varied on purpose
    assert not list((tmp_path / "out").glob("*")) if (tmp_path / "out").exists() else True
    return str(error.value)


@pytest.mark.parametrize(
    ("column", "value", "rule"),
    [
        ("close", 0.0, "positive, was 0"),
        ("open", -1.0, "positive, was -1"),
        ("high", float("inf"), "finite, was inf"),
        ("volume", -5.0, "zero or positive, was -5"),
        ("low", 12.0, "at least low, was 11"),
    ],
)
def test_impossible_value_names_file_line_and_column(tmp_path: Path, column: str, value: float, rule: str) -> None:
    frame = bars()
    frame.loc[3, column] = value
    message = refusal(tmp_path, frame)
    assert rule in message
    assert "bars.csv, line 5" in message  # row 3 of the frame: the header is line 1
    assert ("high" if column == "low" else column) in message
    assert "2024-03-01T01:33 UTC" in message


def test_parquet_rows_are_counted_from_zero(tmp_path: Path) -> None:
    frame = bars()
    frame.loc[3, "close"] = -1.0
    assert "bars.parquet, row 3" in refusal(tmp_path, frame, "bars.parquet")


def test_line_is_that_of_the_file_when_rows_are_unsorted_and_blank_lines_stand_between(tmp_path: Path) -> None:
    frame = bars()
    frame.loc[3, "close"] = -1.0
    lines = frame.iloc[::-1].to_csv(index=False).splitlines()
    lines.insert(5, "")
    path = tmp_path / "bars.csv"
    path.write_text("\n".join(lines) + "\n")
    expected = next(number for number, line in enumerate(lines, start=1) if ",-1.0," in line)
    with pytest.raises(DataError, match=f"line {expected}, "):
        check_source(path, calendar=CALENDAR, tick_minutes=1)


@pytest.mark.parametrize("column", ["datetime", "instrument", "open", "high", "low", "close", "volume"])
def test_missing_column_is_named_with_those_present(tmp_path: Path, column: str) -> None:
    message = refusal(tmp_path, bars().drop(columns=column))
    assert f"must include '{column}'" in message
    assert "bars.csv" in message


def test_cell_that_is_no_number(tmp_path: Path) -> None:
    frame = bars().astype({"close": object})
    frame.loc[7, "close"] = "n/a?"
    message = refusal(tmp_path, frame)
    assert "close must be a number or empty, was 'n/a?'" in message
    assert "line 9" in message


def test_conflicting_duplicate_names_both_rows(tmp_path: Path) -> None:
    frame = pd.concat([bars(), bars().iloc[[4]].assign(close=10.4)], ignore_index=True)
    message = refusal(tmp_path, frame)
    assert "close was 10.5 and 10.4" in message
    assert "line 6" in message
    assert "line 32" in message
    assert "keep_last" in message


def test_stamp_without_zone_is_refused_until_zone_and_label_are_declared(tmp_path: Path) -> None:
    frame = bars().assign(datetime=lambda f: f["datetime"].dt.tz_convert("Asia/Shanghai").dt.tz_localize(None))
    assert "declare timezone and label" in refusal(tmp_path, frame)
    assert "declare label" in refusal(tmp_path, frame, bar_format=BarFormat(timezone="Asia/Shanghai"))
    store = build_store(
        tmp_path / "bars.csv",
        tmp_path / "store",
        calendar=CALENDAR,
        tick_minutes=1,
        bar_format=BarFormat(timezone="Asia/Shanghai", label="start"),
    )
    assert store.coverage[0] == 30 / 240


def test_stamps_with_and_without_offset_in_one_file(tmp_path: Path) -> None:
    frame = bars().assign(datetime=lambda f: f["datetime"].astype(str))
    frame.loc[2, "datetime"] = "2024-03-01 01:32:00"
    assert "line 4" in refusal(tmp_path, frame)


def test_unreadable_stamp(tmp_path: Path) -> None:
    frame = bars().assign(datetime=lambda f: f["datetime"].astype(str))
    frame.loc[2, "datetime"] = "yesterday"
    message = refusal(tmp_path, frame)
    assert "'yesterday'" in message
    assert "line 4" in message


def test_local_time_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    frame = bars(3).assign(datetime=["2024-03-31 01:59:00", "2024-03-31 02:10:00", "2024-03-31 03:00:00"])
    bar_format = BarFormat(timezone="Europe/Zurich", label="start")
    message = refusal(tmp_path, frame, calendar="00:00-24:00 Europe/Zurich", bar_format=bar_format)
    assert "line 3" in message


def test_repeated_local_hour_without_its_second_pass_is_refused(tmp_path: Path) -> None:
    frame = bars(3).assign(datetime=["2024-10-27 02:00:00", "2024-10-27 02:15:00", "2024-10-27 02:30:00"])
    bar_format = BarFormat(timezone="Europe/Zurich", label="start")
    message = refusal(tmp_path, frame, calendar="00:00-24:00 Europe/Zurich", tick_minutes=15, bar_format=bar_format)
    assert "names none or two" in message
    assert "line 2, 3, 4" in message


def test_stamp_between_two_ticks(tmp_path: Path) -> None:
    frame = bars()
    frame.loc[5, "datetime"] += pd.Timedelta(seconds=20)
    message = refusal(tmp_path, frame)
    assert "grid of 1-minute ticks" in message
    assert "line 7" in message


def test_bars_longer_than_a_tick(tmp_path: Path) -> None:
    frame = bars().assign(datetime=pd.date_range("2024-03-01 01:30", periods=30, freq="3min", tz="UTC"))
    assert "set tick_minutes to 3" in refusal(tmp_path, frame)


def test_no_bar_inside_a_session(tmp_path: Path) -> None:
    message = refusal(tmp_path, bars(), calendar="09:30-16:00 America/New_York")
    assert "all 30 lie outside" in message
    assert "check calendar, timezone and label" in message


@pytest.mark.parametrize(
    ("calendar", "said"),
    [
        ("XNYT", "was 'XNYT'"),
        ("09:30-16:00 America/New_Yorkk", "did you mean 'America/New_York'"),
        ("15:00-09:30 UTC", "ascending within one day"),
        ("09:30-25:00 UTC", "between 00:00 and 24:00"),
        ("nine to five", "exchange_calendars name"),
    ],
)
def test_calendar_that_cannot_be_understood(tmp_path: Path, calendar: str, said: str) -> None:
    assert said in refusal(tmp_path, bars(), calendar=calendar)


def test_tick_that_does_not_divide_the_session(tmp_path: Path) -> None:
    assert "120 minutes), was 7" in refusal(tmp_path, bars(), tick_minutes=7)
    assert "at least 1, was 0" in refusal(tmp_path, bars(), tick_minutes=0)


def test_source_that_is_not_there_or_of_another_kind(tmp_path: Path) -> None:
    bars().to_csv(tmp_path / "bars.csv", index=False)
    with pytest.raises(DataError, match=re.escape("did you mean 'bars.csv'")):
        check_source(tmp_path / "bras.csv", calendar=CALENDAR, tick_minutes=1)
    (tmp_path / "bars.feather").write_bytes(b"")
    with pytest.raises(DataError, match=r"must end with .csv or .parquet"):
        check_source(tmp_path / "bars.feather", calendar=CALENDAR, tick_minutes=1)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 but not really")
    with pytest.raises(DataError, match="readable parquet"):
        check_source(tmp_path / "broken.parquet", calendar=CALENDAR, tick_minutes=1)
    (tmp_path / "broken.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="readable UTF-8 CSV"):
        check_source(tmp_path / "broken.csv", calendar=CALENDAR, tick_minutes=1)
    (tmp_path / "empty.csv").write_text("datetime,instrument,open,high,low,close,volume\n")
    with pytest.raises(DataError, match="at least one row"):
        check_source(tmp_path / "empty.csv", calendar=CALENDAR, tick_minutes=1)
    (tmp_path / "nothing").mkdir()
    with pytest.raises(DataError, match=r"at least one .csv or .parquet"):
        check_source(tmp_path / "nothing", calendar=CALENDAR, tick_minutes=1)


def test_header_mapping_that_names_no_header(tmp_path: Path) -> None:
    message = refusal(tmp_path, bars(), bar_format=BarFormat(columns={"vol": "volume"}))
    assert "named 'vol'" in message


def test_destination_that_is_something_else_is_never_replaced(tmp_path: Path) -> None:
    bars().to_csv(tmp_path / "bars.csv", index=False)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("years of work")
    with pytest.raises(DataError, match="holds something else"):
        build_store(tmp_path / "bars.csv", tmp_path / "home", calendar=CALENDAR, tick_minutes=1)
    assert (tmp_path / "home" / "thesis.tex").read_text() == "years of work"


def test_destination_that_cannot_be_written(tmp_path: Path) -> None:
    bars().to_csv(tmp_path / "bars.csv", index=False)
    with pytest.raises(DataError, match="destination must be a folder that can be written"):
        build_store(tmp_path / "bars.csv", tmp_path / "bars.csv" / "store", calendar=CALENDAR, tick_minutes=1)


def test_label_must_be_known(tmp_path: Path) -> None:
    bars().to_csv(tmp_path / "bars.csv", index=False)
    with pytest.raises(ConfigError, match="label must be 'start' or 'end', was 'middle'"):
        check_source(
            tmp_path / "bars.csv",
            calendar=CALENDAR,
            tick_minutes=1,
            bar_format=BarFormat(label="middle"),  # type: ignore[arg-type]  # wrong on purpose
        )
