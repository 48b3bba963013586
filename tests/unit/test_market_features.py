"""History features against a scalar oracle written from their definition."""

from __future__ import annotations

import math
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rlcore.market import BarFormat, MarketStore, build_store, history_features

CALENDAR = "10:00-10:08 UTC"
TICKS = 8


def random_bars(seed: int, num_days: int = 26, share: float = 0.7) -> pd.DataFrame:
    """Bars of two instruments with holes, zero volumes and missing quotes."""
    generator = np.random.default_rng(seed)
    frames = []
    for instrument in ("A", "B"):
        for day in range(num_days):
            ticks = np.flatnonzero(generator.random(TICKS) < share)
            price = generator.uniform(9, 11, len(ticks))
            frames.append(
                pd.DataFrame(
                    {
                        "datetime": pd.Timestamp("2024-03-01 10:00", tz="UTC") + pd.to_timedelta(day * 1440 + ticks, unit="min"),
                        "instrument": instrument,
                        "open": price,
                        "high": price,
                        "low": price,
                        "close": price,
                        "volume": generator.integers(0, 5, len(ticks)) * 100.0,
                        "bid": np.where(generator.random(len(ticks)) < 0.5, price - 0.1, np.nan),
                        "ask": price + 0.1,
                        "news": generator.normal(size=len(ticks)),
                    }
                )
            )
    return pd.concat(frames, ignore_index=True)


def build(frame: pd.DataFrame, folder: Path) -> MarketStore:
    folder.mkdir(exist_ok=True)
    frame.to_parquet(folder / "bars.parquet", index=False)
    bar_format = BarFormat(extra_fields=("news",))
    return build_store(folder / "bars.parquet", folder / "store", calendar=CALENDAR, tick_minutes=1, bar_format=bar_format)


def oracle(store: MarketStore, row: int) -> list[list[float]]:
    """The formulas of ``features.py``, one number at a time."""
    fields = {name: store.array(name).tolist() for name in store.fields}
    rows = [r for r in range(store.num_rows) if store.row_instrument[r] == store.row_instrument[row]]
    before = [r for r in rows if r < row]
    known = [price for r in before for price in fields["close"][r] if not math.isnan(price)]
    recent = before[-20:]
    usual = sum(sum(fields["tradable_volume"][r]) for r in recent) / (TICKS * len(recent)) if recent else 0.0
    out = []
    for tick in range(TICKS):
        today = [price for price in fields["close"][row][: tick + 1] if not math.isnan(price)]
        reference = known[-1] if known else (today[0] if today else math.nan)
        mark = today[-1] if today else (known[-1] if known else math.nan)
        so_far = sum(fields["tradable_volume"][row][: tick + 1]) / (tick + 1)
        scale = usual if usual > 0 else so_far
        values = []
        for name in ("open", "high", "low", "close"):
            price = fields[name][row][tick]
            values.append((mark if math.isnan(price) else price) / reference - 1)
        values.append(math.log(1 + fields["tradable_volume"][row][tick] / scale) if scale > 0 else math.nan)
        values.append((fields["ask"][row][tick] - fields["bid"][row][tick]) / reference)
        values.append(fields["news"][row][tick])
        out.append([0.0 if math.isnan(value) else value for value in values])
    return out


@pytest.mark.parametrize("seed", range(3))
def test_features_equal_the_oracle(tmp_path: Path, seed: int) -> None:
    store = build(random_bars(seed), tmp_path)
    features = history_features(store)
    assert features.names == ("open", "high", "low", "close", "volume", "spread", "news")
    assert features.array.dtype == np.float32
    expected = [oracle(store, row) for row in range(store.num_rows)]
    np.testing.assert_allclose(features.array, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("seed", range(5))
def test_no_feature_looks_ahead(tmp_path: Path, seed: int) -> None:
    """Change everything at and after an instant: earlier ticks and days keep their features, to the bit."""
    frame = random_bars(seed, num_days=4)
    now = pd.Timestamp("2024-03-03 10:04", tz="UTC")
    later = frame["datetime"] >= now
    assert later.any()
    columns = ["open", "high", "low", "close", "bid", "ask"]
    changed = frame.copy()
    changed.loc[later, columns] *= 1.5
    changed.loc[later, ["volume", "news"]] = changed.loc[later, ["volume", "news"]] * 3 + 1
    before, after = build(frame, tmp_path / "before"), build(changed, tmp_path / "after")
    num_changed = 0
    for row in range(before.num_rows):
        is_past = before.tick_start_utc(row) < now.tz_localize(None).to_datetime64()
        ours, theirs = history_features(before).array[row], history_features(after).array[row]
        np.testing.assert_array_equal(ours[is_past], theirs[is_past])
        np.testing.assert_array_equal(before.array("mark")[row, is_past], after.array("mark")[row, is_past])
        num_changed += not np.array_equal(ours, theirs)
    assert num_changed >= 2  # the perturbation is felt where it may be


def test_features_pickle_with_their_store(tmp_path: Path) -> None:
    features = history_features(build(random_bars(0, num_days=2), tmp_path))
    again = pickle.loads(pickle.dumps(features))
    assert len(pickle.dumps(features)) < 600
    np.testing.assert_array_equal(again.array, features.array)
