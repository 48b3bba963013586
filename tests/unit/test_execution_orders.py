"""Orders: rules, files of one's own, sampling, splits."""

from __future__ import annotations

import re
from datetime import date

import numpy as np
import pandas as pd
import pytest

from rlcore.execution.order_files import read_orders
from rlcore.execution.orders import OrderSet
from rlcore.execution.sampling import SamplingPlan, sample_orders
from rlcore.execution.splitting import split_by_date, walk_forward
from rlcore.foundation.errors import ConfigError, DataError
from rlcore.market.build_store import build_store
from tests.execution_market import DAYS, HALF_DAY, random_bars, random_orders, store_of


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    bars = random_bars(num_instruments=4)
    # An outage: X.I3 has nothing after the first hour of 2023-06-30.
    at = bars["datetime"].dt.tz_convert("America/New_York")
    is_out = (bars["instrument"] == "X.I3") & (at.dt.date.astype(str) == "2023-06-30") & (at.dt.hour >= 11)
    return store_of(bars[~is_out], tmp_path_factory.mktemp("market"))


@pytest.fixture(scope="module")
def long_store(tmp_path_factory):
    days = [str(day.date()) for day in pd.bdate_range("2023-01-03", "2023-01-31") if str(day.date()) != "2023-01-16"]
    return store_of(random_bars(days=days), tmp_path_factory.mktemp("long"))


def columns(**changes):
    return {"row": [0, 1], "side": [1.0, -1.0], "quantity": [10.0, 20.0], "start_tick": [0, 4], "end_tick": [26, 8]} | changes


def test_take_and_describe(store):
    orders = OrderSet(store, **columns())
    batch = orders.take(np.array([1, 0, 1]))
    assert batch.order_id.tolist() == [1, 0, 1] and batch.quantity.tolist() == [20.0, 10.0, 20.0]
    described = orders.describe(np.array([1, 0]))
    assert described["instrument"].tolist() == ["X.I0", "X.I0"]
    assert described["date"].astype(str).tolist() == ["2023-06-30", "2023-06-29"]
    assert described["side"].tolist() == ["sell", "buy"]
    assert described["start"].tolist() == ["10:30", "09:30"] and described["end"].tolist() == ["11:30", "16:00"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"quantity": [10.0, 0.0]}, "quantity must be .* above 0, was 0.0 for order 1"),
        ({"quantity": [np.nan, 1.0]}, "quantity must be .* was nan for order 0"),
        ({"side": [1.0, 0.0]}, r"side must be \+1 \(buy\) or -1 \(sell\), was 0.0 for order 1"),
        ({"row": [0, 99]}, r"row must lie in \[0, 20\), was 99 for order 1"),
        ({"start_tick": [-1, 4]}, "start_tick must be at least 0, was -1"),
        ({"end_tick": [26, 4]}, "end_tick must lie after start_tick, was 4 for order 1"),
        ({"row": [0, 2], "end_tick": [26, 15]}, "end_tick must lie inside the session .* was 15 for order 1"),
        ({"row": [0]}, "columns of an order set must have one length"),
    ],
)
def test_orders_that_break_a_rule_are_refused(store, changes, says):
    with pytest.raises(DataError, match=says):
        OrderSet(store, **columns(**changes))


def test_a_window_before_any_price_is_refused(tmp_path):
    bars = random_bars(num_instruments=1)
    first_day = bars["datetime"] < pd.Timestamp("2023-06-30", tz="UTC")
    store = store_of(bars[~(first_day & (bars.index < 10))], tmp_path)
    with pytest.raises(DataError, match="price must be known by the end of the order's window"):
        OrderSet(store, row=[0], side=[1.0], quantity=[1.0], start_tick=[0], end_tick=[5])
    OrderSet(store, row=[0], side=[1.0], quantity=[1.0], start_tick=[0], end_tick=[11])


def test_save_and_load(store, long_store, tmp_path):
    orders = random_orders(store, 40)
    orders.save(tmp_path / "orders.parquet")
    again = OrderSet.load(tmp_path / "orders.parquet", store)
    assert again.fingerprint == orders.fingerprint and len(again) == len(orders)
    np.testing.assert_array_equal(again.quantity, orders.quantity)
    assert orders.subset(np.arange(3)).fingerprint != orders.fingerprint
    assert {"instrument", "date", "start", "end"} <= set(pd.read_parquet(tmp_path / "orders.parquet").columns)
    with pytest.raises(DataError, match="must belong to the market store"):
        OrderSet.load(tmp_path / "orders.parquet", long_store)
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(DataError, match="must have the format"):
        OrderSet.load(tmp_path / "other.parquet", store)
    (tmp_path / "text.parquet").write_text("no parquet")
    with pytest.raises(DataError, match="must be a parquet file"):
        OrderSet.load(tmp_path / "text.parquet", store)


HEADER = "instrument,date,side,quantity,start,end\n"


def read(tmp_path, store, text, **kind):
    path = tmp_path / "orders.csv"
    path.write_text(text)
    return read_orders(path, store, **kind)


def test_orders_from_csv(tmp_path, store):
    text = HEADER + "X.I0,2023-06-29,buy,100,09:30,16:00\nX.I1,2023-07-03,SELL,2.5,,\nX.I2,2023-07-05,-1,7,10:15,11:30\n"
    orders = read(tmp_path, store, text)
    assert orders.side.tolist() == [1.0, -1.0, -1.0] and orders.quantity.tolist() == [100.0, 2.5, 7.0]
    assert orders.start_tick.tolist() == [0, 0, 3] and orders.end_tick.tolist() == [26, 14, 8]
    assert orders.row.tolist() == [store.row_of("X.I0", DAYS[0]), store.row_of("X.I1", HALF_DAY), store.row_of("X.I2", DAYS[3])]


def test_orders_of_days_after_the_as_of_date_are_not_seen(tmp_path, store):
    text = HEADER + "X.I0,2023-06-29,buy,100,09:30,16:00\nX.I0,2031-01-02,buy,100,,\n"
    assert len(read(tmp_path, store, text, through=date(2023, 6, 29))) == 1
    with pytest.raises(DataError, match="line 3"):
        read(tmp_path, store, text)
    with pytest.raises(DataError, match="at least one order up to 2023-06-28"):
        read(tmp_path, store, text, through=date(2023, 6, 28))


def test_orders_from_parquet_by_fraction_of_day_volume(tmp_path, store):
    path = tmp_path / "orders.parquet"
    frame = {"instrument": ["X.I0"], "date": [pd.Timestamp("2023-06-29")], "side": [1], "fraction_of_day_volume": [0.1]}
    pd.DataFrame(frame).to_parquet(path)
    orders = read_orders(path, store)
    assert orders.quantity[0] == pytest.approx(0.1 * np.nansum(store.array("volume")[0]), rel=1e-12)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("X.I0,2023-06-29,buy,100,08:00,16:00", "line 3: start of an order must lie inside the session .* 09:30-16:00"),
        ("X.I0,2023-07-03,buy,100,09:30,15:00", "line 3: end of an order must lie inside the session .* 09:30-13:00"),
        ("X.I0,2023-06-29,buy,100,09:37,16:00", "line 3: start of an order must .* 15-minute grid"),
        ("X.I0,2023-06-29,buy,100,16:00,", "line 3: start of an order must lie before the close"),
        ("X.I0,2023-06-29,buy,100,11:00,10:00", "line 3: end must lie after start"),
        ("X.I0,2023-06-29,buy,100,half past,10:00", "line 3: start of an order must"),
        ("X.I9,2023-06-29,buy,100,,", "line 3: instrument must be in the store.*did you mean"),
        ("X.I0,2023-07-04,buy,100,,", "line 3: date must be a day of X.I0"),
        ("X.I0,yesterday?,buy,100,,", "line 3: date must read YYYY-MM-DD"),
        ("X.I0,2023-06-29,bye,100,,", "line 3: side must be buy or sell.*did you mean 'buy'"),
        ("X.I0,2023-06-29,buy,-5,,", "line 3: quantity must be a finite number above 0, was -5"),
        ("X.I0,2023-06-29,buy,many,,", "line 3: quantity must be a number, was 'many'"),
        ("X.I3,2023-06-30,buy,100,,", "line 3: day of an order must be complete"),
    ],
)
def test_a_bad_order_names_file_line_and_remedy(tmp_path, store, line, says):
    with pytest.raises(DataError, match=rf"orders\.csv, {says}"):
        read(tmp_path, store, HEADER + "X.I0,2023-06-29,buy,100,,\n" + line + "\n")


def test_an_order_on_a_day_with_an_outage_can_be_kept(tmp_path, store):
    assert len(read(tmp_path, store, HEADER + "X.I3,2023-06-30,buy,100,,\n", incomplete_days="keep")) == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("instrument,date,quantity\nX.I0,2023-06-29,1\n", "columns must include .* lacked side"),
        ("instrument,date,side,quantity,strat\n", "had 'strat' .did you mean 'start'"),
        ("instrument,date,side\n", "exactly one of the columns quantity and fraction_of_day_volume"),
        (HEADER, "must hold at least one order"),
        ("", "must be readable as csv"),
    ],
)
def test_a_bad_orders_file_names_the_column(tmp_path, store, text, says):
    with pytest.raises(DataError, match=says):
        read(tmp_path, store, text)


def test_an_orders_file_must_exist_and_have_a_known_suffix(tmp_path, store):
    with pytest.raises(DataError, match="must be readable as csv"):
        read_orders(tmp_path / "none.csv", store)
    with pytest.raises(DataError, match=re.escape("must end in .csv or .parquet")):
        read_orders(tmp_path / "orders.xlsx", store)


def test_sampling_is_seeded_and_balanced(store):
    plan = SamplingPlan(num_orders=76, fraction_of_day_volume=(0.01, 0.1), windows=(("09:30", "12:00"), ("10:00", "16:00")))
    orders, again, other = (sample_orders(store, plan, seed) for seed in (0, 0, 1))
    assert orders.fingerprint == again.fingerprint != other.fingerprint
    # 20 instrument-days less the outage: each 4 times.
    rows, counts = np.unique(orders.row, return_counts=True)
    assert len(rows) == 19 and set(counts.tolist()) == {4}
    assert (orders.side > 0).sum() == 38
    assert (orders.start_tick == 0).sum() == 38
    is_half = store.session_ticks[orders.row] == 14
    assert set(orders.end_tick[~is_half].tolist()) == {10, 26} and set(orders.end_tick[is_half].tolist()) == {10, 14}
    fraction = orders.quantity / store.array("tradable_volume")[orders.row].sum(axis=-1)
    quantile = np.sort(np.log(fraction / 0.01) / np.log(10.0))
    # One order in each of 76 equal slices.
    assert (np.floor(quantile * 76) == np.arange(76)).all()


@pytest.mark.parametrize(("stratum", "column", "size"), [("instrument", "row_instrument", 3), ("date", "row_date", 5)])
def test_sampling_balances_one_of_instrument_and_date(store, stratum, column, size):
    plan = SamplingPlan(30, (0.01, 0.1), sides=("buy",), instruments=("X.I0", "X.I1", "X.I2"), strata=(stratum,))
    orders = sample_orders(store, plan, 5)
    _, counts = np.unique(getattr(store, column)[orders.row], return_counts=True)
    assert counts.tolist() == [30 // size] * size
    assert (orders.side == 1.0).all() and (orders.end_tick == store.session_ticks[orders.row]).all()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"num_orders": 0}, "num_orders must be at least 1"),
        ({"fraction_of_day_volume": (0.2, 0.1)}, "fraction_of_day_volume must be"),
        ({"sides": ()}, "sides must be"),
        ({"strata": ("sides",)}, "strata must be.*did you mean 'side'"),
        ({"windows": (("9:30", "16:00"),)}, "windows must be pairs of HH:MM"),
        ({"windows": (("12:00", "10:00"),)}, "windows must start before they end"),
    ],
)
def test_a_bad_sampling_plan_is_refused(changes, says):
    with pytest.raises(ConfigError, match=says):
        SamplingPlan(**({"num_orders": 5, "fraction_of_day_volume": (0.1, 0.2)} | changes))


def test_sampling_needs_days_that_fit(store):
    with pytest.raises(ConfigError, match=r"instruments must be in the store.*did you mean"):
        sample_orders(store, SamplingPlan(5, (0.1, 0.2), instruments=("X.I7",)), 0)
    with pytest.raises(ConfigError, match="fits none"):
        sample_orders(store, SamplingPlan(5, (0.1, 0.2), windows=(("17:00", "18:00"),)), 0)


def test_split_by_date_keeps_an_embargo(long_store):
    orders = sample_orders(long_store, SamplingPlan(300, (0.01, 0.1)), 0)
    split = split_by_date(orders, validation_days=3, test_days=4, embargo_days=2)
    days = [np.unique(long_store.row_date[part.row]) for part in (split.train, split.validation, split.test)]
    assert [len(part) for part in days] == [len(long_store.dates) - 11, 3, 4]
    assert days[1][0] - days[0][-1] == 3 and days[2][0] - days[1][-1] == 3
    assert days[2][-1] == len(long_store.dates) - 1
    with pytest.raises(ConfigError, match=r"orders must span at least 26 trading days .* spanned 20"):
        split_by_date(orders, validation_days=3, test_days=20, embargo_days=1)


def test_walk_forward_tests_every_late_day_once(long_store):
    orders = sample_orders(long_store, SamplingPlan(300, (0.01, 0.1)), 0)
    folds = walk_forward(orders, num_folds=3, train_days=5, validation_days=2, test_days=3, embargo_days=1)
    tested = np.concatenate([np.unique(long_store.row_date[fold.test.row]) for fold in folds])
    assert tested.tolist() == list(range(len(long_store.dates) - 9, len(long_store.dates)))
    for fold in folds:
        train, validation, test = (np.unique(long_store.row_date[part.row]) for part in (fold.train, fold.validation, fold.test))
        assert len(train) == 5 and train[-1] + 2 == validation[0] and validation[-1] + 2 == test[0]
    expanding = walk_forward(orders, num_folds=2, train_days=None, validation_days=2, test_days=3, embargo_days=0)
    assert [long_store.row_date[fold.train.row].min() for fold in expanding] == [0, 0]
    with pytest.raises(ConfigError, match="num_folds must be at least 1"):
        walk_forward(orders, num_folds=0, train_days=5, validation_days=2, test_days=3, embargo_days=1)


def test_windows_around_a_lunch_break(tmp_path):
    times = pd.date_range("2018-01-03 09:30", "2018-01-03 15:00", freq="1min", inclusive="left", tz="Asia/Shanghai")
    minute = times.hour * 60 + times.minute
    times = times[(minute < 690) | (minute >= 780)].tz_convert("UTC")
    prices = dict.fromkeys(("open", "high", "low", "close"), 10.0)
    pd.DataFrame({"datetime": times, "instrument": "S.A", "volume": 100.0} | prices).to_parquet(tmp_path / "bars.parquet")
    store = build_store(tmp_path / "bars.parquet", tmp_path / "store", calendar="XSHG", tick_minutes=1)
    morning = read(tmp_path, store, HEADER + "S.A,2018-01-03,buy,1,10:00,11:30\n")
    assert (morning.start_tick[0], morning.end_tick[0]) == (30, 120)
    with pytest.raises(DataError, match="must lie inside the session"):
        read(tmp_path, store, HEADER + "S.A,2018-01-03,buy,1,12:00,14:00\n")
