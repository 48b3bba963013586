"""The store on random bars: nothing is lost or invented, and derived fields equal a scalar reading of their definition."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlcore.market import build_store

CALENDAR = "10:00-10:03,11:00-11:02 UTC"
MINUTES = (600, 601, 602, 660, 661)
number = st.floats(1.0, 100.0).map(lambda x: round(x, 2))
bar = st.tuples(
    st.sampled_from(["A", "B"]),
    st.integers(0, 3),
    st.integers(0, 4),
    st.one_of(st.none(), number),
    st.one_of(st.none(), st.just(0.0), number),
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    bars=st.lists(bar, min_size=1, max_size=25, unique_by=lambda b: b[:3]).filter(lambda bars: any(b[3] for b in bars)),
    start=st.integers(0, 5),
    length=st.integers(1, 5),
)
def test_store_holds_what_was_delivered(
    bars: list[tuple[str, int, int, float | None, float | None]], start: int, length: int
) -> None:
    frame = pd.DataFrame(
        [
            {
                "datetime": pd.Timestamp("2024-03-01", tz="UTC") + pd.Timedelta(days=day, minutes=MINUTES[tick]),
                "instrument": instrument,
                **dict.fromkeys(("open", "high", "low", "close"), price),
                "volume": volume,
            }
            for instrument, day, tick, price, volume in bars
        ]
    ).astype(dict.fromkeys(("open", "high", "low", "close", "volume"), float))
    with tempfile.TemporaryDirectory() as folder:
        frame.to_parquet(Path(folder) / "bars.parquet", index=False)
        store = build_store(Path(folder) / "bars.parquet", Path(folder) / "store", calendar=CALENDAR, tick_minutes=1)
        given_bars = {(i, day, tick): (price, volume) for i, day, tick, price, volume in bars}
        assert store.num_rows == len({(i, day) for i, day, _, _, _ in bars})
        previous: dict[str, float] = {}
        for row in range(store.num_rows):
            instrument = store.instruments[store.row_instrument[row]]
            day = int((store.dates[store.row_date[row]] - np.datetime64("2024-03-01")).astype(int))
            assert store.row_of(instrument, store.dates[store.row_date[row]]) == row
            mark = previous.get(instrument, math.nan)
            num_bars = 0
            for tick in range(5):
                price, volume = given_bars.get((instrument, day, tick), (None, None))
                mark = mark if price is None else price
                num_bars += price is not None
                same(store.array("close")[row, tick], price)
                same(store.array("volume")[row, tick], volume)
                same(store.array("mark")[row, tick], mark)
                assert store.array("tradable_volume")[row, tick] == (volume if price and volume else 0.0)
            previous[instrument] = mark
            assert store.coverage[row] == num_bars / 5
        row = np.arange(store.num_rows)
        window = store.window("mark", row, np.full(len(row), start), length)
        inside = np.arange(start, start + length) < 5
        np.testing.assert_array_equal(window[:, inside], store.array("mark")[:, start : start + length])


def same(stored: float, expected: float | None) -> None:
    """Equal, with None for unknown."""
    assert math.isnan(stored) if expected is None or math.isnan(expected) else stored == expected
