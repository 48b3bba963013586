"""The fast simulator against a slow one in plain Python floats, on random orders that reach every branch."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore.execution.orders import OrderSet
from rlcore.execution.simulator import FastSimulator
from tests.execution_market import DAYS, random_bars, store_of
from tests.reference.scalar_execution import Day, execute, judge

MARKETS = {
    "whole": {"extra": ("vwap", "bid", "ask")},
    "thin": {"extra": ("vwap", "bid", "ask"), "missing_fraction": 0.2, "zero_volume_fraction": 0.2, "seed": 1},
    "late": {"extra": ("vwap", "bid", "ask"), "days": DAYS[:1], "seed": 3},
    "barren": {"missing_fraction": 0.6, "zero_volume_fraction": 0.25, "seed": 2},
}


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    bars = {name: random_bars(**kind) for name, kind in MARKETS.items()}
    # Nothing is known of an instrument before noon of its first day.
    late = bars["late"]
    bars["late"] = late[late["datetime"] >= pd.Timestamp("2023-06-29 12:00", tz="America/New_York")]
    return {name: store_of(table, tmp_path_factory.mktemp(name)) for name, table in bars.items()}


def day_of(store, row):
    ticks = int(store.session_ticks[row])

    def known(field):
        if field not in store.fields:
            return None
        return [None if np.isnan(value) else float(value) for value in store.array(field)[row, :ticks]]

    before = None
    previous = int(store.previous_row[row])
    while previous >= 0 and before is None:
        closes = [value for value in store.array("close")[previous] if np.isfinite(value)]
        before = float(closes[-1]) if closes else None
        previous = int(store.previous_row[previous])
    return Day(known("close"), known("open"), known("volume"), known("vwap"), known("bid"), known("ask"), before)


@st.composite
def cases(draw):
    market = draw(st.sampled_from(sorted(MARKETS)))
    prices = ["close"] if market == "barren" else ["close", "vwap", "bid_or_ask"]
    return {
        "market": market,
        "row": draw(st.integers(0, 2 if market == "late" else 14)),
        "place": draw(st.floats(0, 0.999)),
        "length": draw(st.floats(0.001, 1)),
        "side": draw(st.sampled_from([1.0, -1.0])),
        "quantity": draw(st.floats(0.01, 30000.0)),
        "ticks_per_step": draw(st.integers(1, 26)),  # 26: the longest session
        "cap": draw(st.sampled_from([None, 0.001, 0.05, 0.3, 1.0])),
        "price": draw(st.sampled_from(prices)),
        "fractions": draw(st.lists(st.sampled_from([0.0, 0.05, 0.2, 0.5, 1.0, 3.0]), min_size=26, max_size=26)),
    }


def run_both(stores, case):
    store = stores[case["market"]]
    row, quantity, side = case["row"], case["quantity"], case["side"]
    session = int(store.session_ticks[row])
    start = int(case["place"] * session)
    end = start + max(1, round(case["length"] * (session - start)))
    if np.isnan(store.array("mark")[row, end - 1]):
        return None
    column = {"row": [row], "side": [side], "quantity": [quantity], "start_tick": [start], "end_tick": [end]}
    orders = OrderSet(store, **{name: np.array(values) for name, values in column.items()})
    day = day_of(store, row)
    k, cap = case["ticks_per_step"], case["cap"]
    wanted = [fraction * quantity for fraction in case["fractions"]]
    expected = execute(day, side, quantity, start, end, k, cap, case["price"], lambda step, remaining: wanted[step])
    simulator = FastSimulator(store, k, cap, case["price"])
    state, steps, is_over = simulator.start(orders.take(np.arange(1))), [], False
    assert int(state.num_steps[0]) == (end - 1) // k - start // k + 1
    while not is_over:
        stepped = simulator.step(state, np.array([wanted[len(steps)]]))
        state, is_over = stepped.state, bool(stepped.terminated[0])
        assert not stepped.truncated[0]
        steps.append(stepped.outcome)
    return simulator, state, steps, expected, judge(day, side, quantity, start, end, expected), (start, end, day)


def check(stores, case, branches):
    both = run_both(stores, case)
    if both is None:
        return
    simulator, state, steps, expected, metrics, (start, end, day) = both
    assert len(steps) == len(expected.steps) <= simulator.max_steps
    for outcome, (first, until), remaining in zip(steps, expected.steps, expected.remaining, strict=True):
        assert int(outcome.first_tick[0]) == first and int(outcome.is_tick.sum()) == until - first
        assert outcome.is_tick[0, : until - first].all()
        assert outcome.remaining[0] == pytest.approx(remaining, rel=1e-9, abs=1e-9 * case["quantity"])
        for offset in range(case["ticks_per_step"]):
            shares, price = expected.fills.get(first + offset, (0.0, 0.0)) if offset < until - first else (0.0, 0.0)
            assert outcome.filled[0, offset] == pytest.approx(shares, rel=1e-9, abs=1e-12 * case["quantity"])
            if shares > 0:
                assert outcome.price[0, offset] == price
    for name, value in simulator.metrics(state).items():
        assert value[0] == pytest.approx(metrics[name], rel=1e-9, abs=1e-7, nan_ok=True), name
    bars = list(zip(day.close, day.volume, strict=True))[start:end]
    branches["short first step"] += start % case["ticks_per_step"] != 0 and len(steps) > 1
    branches["half day"] += len(day.close) < 26
    branches["nothing filled"] += not expected.fills
    branches["part filled"] += bool(expected.fills) and expected.remaining[-1] > 0
    branches["completed early"] += expected.remaining[-1] == 0 and expected.steps[-1][1] < end
    branches["cap binds"] += case["cap"] is not None and expected.remaining[-1] > 0
    branches["no bar in the window"] += any(close is None for close, _ in bars)
    branches["bar without volume in the window"] += any(close is not None and not volume for close, volume in bars)
    branches["price unknown at arrival"] += (
        len({close for close, _ in bars if close}) > 1 and None in day.close[start : start + 1] and day.last_close_before is None
    )
    branches["quotes"] += case["price"] == "bid_or_ask" and bool(expected.fills)


def test_simulator_agrees_with_plain_python_in_every_branch(stores):
    branches = Counter()

    @settings(max_examples=400, derandomize=True, database=None)
    @given(case=cases())
    def agree(case):
        check(stores, case, branches)

    agree()
    assert len(branches) == 10 and min(branches.values()) >= 2, dict(branches)
