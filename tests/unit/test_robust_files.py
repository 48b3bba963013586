"""Odd and damaged files: refused with one message, never read as something else."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rlcore.config.yaml_files import parse_yaml, read_yaml
from rlcore.execution.order_files import read_orders
from rlcore.execution.simulator import FastSimulator
from rlcore.foundation.csv_files import csv_rows
from rlcore.foundation.errors import ConfigError, DataError
from rlcore.market import check_source
from rlcore.market.array_files import create_array
from rlcore.market.store import MarketStore
from tests.execution_market import DAYS, random_bars, store_of

CALENDAR = "09:30-11:30,13:00-15:00 Asia/Shanghai"
BARS = """\
datetime,instrument,open,high,low,close,volume
2024-03-01T01:30:00Z,A,10,11,9,10,1500
2024-03-01T01:31:00Z,A,10,11,9,10,1500
"""
ORDERS = f"""\
instrument,date,side,quantity
X.I0,{DAYS[0]},buy,100
X.I0,{DAYS[0]},sell,200
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> MarketStore:
    return store_of(random_bars(), tmp_path_factory.mktemp("market"))


@pytest.fixture
def own_store(tmp_path: Path) -> MarketStore:
    return store_of(random_bars(), tmp_path)


def refused_bars(tmp_path: Path, text: str) -> str:
    path = tmp_path / "bars.csv"
    path.write_text(text)
    with pytest.raises(DataError) as error:
        check_source(path, calendar=CALENDAR, tick_minutes=1)
    return str(error.value)


def refused_orders(tmp_path: Path, store: MarketStore, text: str) -> str:
    path = tmp_path / "orders.csv"
    path.write_text(text)
    with pytest.raises(DataError) as error:
        read_orders(path, store)
    return str(error.value)


@pytest.mark.parametrize("line", [2, 3])  # pandas treats a first row that is too long in another way than a later one
def test_a_thousands_separator_does_not_cut_a_volume(tmp_path: Path, line: int) -> None:
    lines = BARS.splitlines()
    lines[line - 1] = lines[line - 1].replace("1500", "1,500")
    message = refused_bars(tmp_path, "\n".join(lines))
    assert f"line {line}" in message
    assert "bars.csv" in message


def test_rows_that_are_all_too_long_do_not_shift(tmp_path: Path) -> None:
    assert "more cells than the header" in refused_bars(tmp_path, BARS.replace("1500", "1,500"))


def test_two_columns_of_one_name_are_refused_unless_nobody_wants_them(tmp_path: Path) -> None:
    header, *rows = BARS.splitlines()
    twice = "\n".join([f"{header},Close", *(f"{row},99" for row in rows)])
    assert "'Close' stands twice" in refused_bars(tmp_path, twice) or "'close' stands twice" in refused_bars(tmp_path, twice)
    (tmp_path / "bars.csv").write_text("\n".join([f"{header},note,note", *(f"{row},a,b" for row in rows)]))
    assert check_source(tmp_path / "bars.csv", calendar=CALENDAR, tick_minutes=1).num_bars == 2


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_rows_bear_the_line_that_an_editor_shows(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "some.csv").write_text("a,b\r\n1,2\r\n\r\n3,4\r\n", encoding=encoding, newline="")
    rows = csv_rows(tmp_path / "some.csv").dropna()
    assert rows.columns.tolist() == ["a", "b"]
    assert rows["a"].to_dict() == {2: 1.0, 4: 3.0}


def test_an_order_is_not_read_from_a_shifted_row(tmp_path: Path, store: MarketStore) -> None:
    header, *rows = ORDERS.splitlines()
    assert "more cells than the header" in refused_orders(tmp_path, store, "\n".join([header, *(f"{row},9" for row in rows)]))
    twice = "\n".join([f"{header},quantity", *(f"{row},9" for row in rows)])
    assert "'quantity' stands twice" in refused_orders(tmp_path, store, twice)


@pytest.mark.parametrize("text", ["06/29/2023", "29.06.2023", "June 29, 2023", "5"])
def test_a_date_of_an_order_is_never_guessed(tmp_path: Path, store: MarketStore, text: str) -> None:
    message = refused_orders(tmp_path, store, ORDERS.replace(DAYS[0], f'"{text}"'))
    assert "line 2: date must read YYYY-MM-DD" in message


def test_blank_lines_between_orders_are_no_orders_and_are_counted(tmp_path: Path, store: MarketStore) -> None:
    lines = ORDERS.splitlines()
    (tmp_path / "orders.csv").write_text("\n".join([lines[0], "", *lines[1:], "", ""]))
    assert read_orders(tmp_path / "orders.csv", store).quantity.tolist() == [100.0, 200.0]
    assert "line 4: quantity must be" in refused_orders(
        tmp_path, store, "\n".join([*lines[:2], "", lines[2].replace("200", "0")])
    )


def test_days_and_times_of_a_parquet_are_taken_as_they_are(tmp_path: Path, store: MarketStore) -> None:
    for day in (pd.Timestamp(DAYS[0]), date.fromisoformat(DAYS[0])):
        pd.DataFrame({"instrument": ["X.I0"], "date": [day], "side": [1], "quantity": [5.0]}).to_parquet(tmp_path / "o.parquet")
        assert len(read_orders(tmp_path / "o.parquet", store)) == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name: " + "[" * 3000 + "]" * 3000, "nested at most 50 levels"),
        ("a: &a\n  b: *a\n", "nested at most 50 levels"),
        (
            "\n".join(["a0: &a0 [x, x, x, x]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12))]),
            "100000",
        ),
        ("name: " + "9" * 5000, "line 1: number has too many digits"),
        ("name: '\0'", "must be YAML"),
    ],
    ids=["deep", "endless", "anchors", "digits", "nul"],
)
def test_yaml_without_end_is_refused_in_one_line(text: str, says: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_yaml(text, "some.yaml")
    assert says in str(error.value)
    assert str(error.value).startswith("some.yaml")
    assert "\n" not in str(error.value)


def test_yaml_with_the_mark_of_a_spreadsheet_and_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("name: x\n", encoding="utf-8-sig")
    assert read_yaml(tmp_path / "a.yaml") == ({"name": "x"}, {("name",): 1})
    (tmp_path / "b.yaml").write_text("# nothing\n")
    with pytest.raises(ConfigError, match="was empty"):
        read_yaml(tmp_path / "b.yaml")


def test_a_store_that_lacks_a_part_of_its_description_is_damaged(own_store: MarketStore) -> None:
    file = own_store.path / "store.json"
    whole = json.loads(file.read_text())
    for name in ("files", "fields", "calendar"):
        file.write_text(json.dumps({key: value for key, value in whole.items() if key != name}))
        with pytest.raises(DataError, match=r"must be whole, .* build it again"):
            MarketStore.open(own_store.path)


@pytest.mark.parametrize("name", ["index.npz", "mark.field.npy"])
def test_a_file_of_a_store_with_the_right_size_and_other_content_is_damaged(own_store: MarketStore, name: str) -> None:
    file = own_store.path / name
    file.write_bytes(bytes(file.stat().st_size))
    with pytest.raises(DataError, match=r"must be whole, .* build it again"):
        MarketStore.open(own_store.path).array("mark")


def test_a_step_longer_than_the_session_is_refused(store: MarketStore) -> None:
    assert FastSimulator(store, store.num_ticks, None, "close").max_steps == 1
    with pytest.raises(ConfigError, match=f"ticks_per_step must be at most {store.num_ticks}, .* was {store.num_ticks + 1}"):
        FastSimulator(store, store.num_ticks + 1, None, "close")


def test_an_array_has_its_room_on_disk_before_it_is_filled(tmp_path: Path) -> None:
    # In a file with holes a full disk shows as SIGBUS in the middle of a sum.
    create_array(tmp_path / "a.npy", np.float64, (1000, 100))
    facts = (tmp_path / "a.npy").stat()
    assert facts.st_blocks * 512 >= facts.st_size >= 800_000
