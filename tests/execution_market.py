"""Small real market stores for tests of the execution side: built by the product, from random bars on the New York calendar.

2023-07-03 is a half day (close 13:00) and 2023-07-04 a holiday.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from rlcore.execution.orders import OrderSet
from rlcore.market.build_store import build_store

DAYS = ("2023-06-29", "2023-06-30", "2023-07-03", "2023-07-05", "2023-07-06")
HALF_DAY = "2023-07-03"
TICK_MINUTES = 15  # 26 ticks a day, 14 on the half day
NUM_TICKS = 26
NEAR_CLOSE = {"vwap": 1.0, "bid": 0.9995, "ask": 1.0005}


def random_bars(seed=0, num_instruments=3, days=DAYS, missing_fraction=0.0, zero_volume_fraction=0.0, extra=()):
    """Return tidy bars of random walks. ``extra``: vwap, bid, ask (near the close)."""
    rng = np.random.default_rng(seed)
    frames = []
    for number in range(num_instruments):
        price = 40.0 + 10.0 * number
        for day in days:
            closes = "13:00" if day == HALF_DAY else "16:00"
            times = pd.date_range(
                f"{day} 09:30", f"{day} {closes}", freq=f"{TICK_MINUTES}min", inclusive="left", tz="America/New_York"
            )
            close = price * np.exp(np.cumsum(rng.normal(0, 3e-3, len(times))))
            opening = np.append(price, close[:-1])
            volume = rng.integers(1, 5000, len(times)).astype(float)
            volume[rng.random(len(times)) < zero_volume_fraction] = 0.0
            columns = {
                "datetime": times.tz_convert("UTC"),
                "instrument": f"X.I{number}",
                "open": opening,
                "high": np.maximum(opening, close),
                "low": np.minimum(opening, close),
                "close": close,
                "volume": volume,
            }
            columns |= {name: close * NEAR_CLOSE[name] for name in extra}
            frames.append(pd.DataFrame(columns)[rng.random(len(times)) >= missing_fraction])
            price = close[-1]
    return pd.concat(frames, ignore_index=True)


def store_of(bars, folder):
    """Build the store of these bars in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    bars.to_parquet(folder / "bars.parquet")
    return build_store(folder / "bars.parquet", folder / "store", calendar="XNYS", tick_minutes=TICK_MINUTES)


def random_orders(store, count, seed=0, quantity_range=(1.0, 20000.0)):
    """Return orders with windows anywhere in their sessions, long and short, on any day that has a price by then."""
    rng = np.random.default_rng(seed)
    row = rng.integers(0, store.num_rows, count)
    start = (rng.random(count) * store.session_ticks[row]).astype(np.int64)
    end = start + 1 + (rng.random(count) * (store.session_ticks[row] - start)).astype(np.int64)
    is_known = np.isfinite(store.array("mark")[row, end - 1])
    columns = {
        "row": row,
        "side": rng.choice([-1.0, 1.0], count),
        "quantity": np.exp(rng.uniform(*np.log(quantity_range), count)),
        "start_tick": start,
        "end_tick": end,
    }
    return OrderSet(store, **{name: column[is_known] for name, column in columns.items()})


def planted_store(folder, instrument, days, calendar, session, *, close, volume, seed=0):
    """Build a store of one instrument's one-minute bars: noise, but for what is planted on each day.

    Args:
        session: (timezone, (start, end), …), the pieces of a day.
        close: of the first bar.
        volume: of the first bar, and of the first half hour.
    """
    rng = np.random.default_rng(seed)
    zone, *pieces = session
    frames = []
    for day in days:
        times = pd.DatetimeIndex(
            [
                moment
                for start, end in pieces
                for moment in pd.date_range(f"{day} {start}", f"{day} {end}", freq="1min", inclusive="left", tz=zone)
            ]
        )
        count = len(times)
        closes = close * np.exp(np.append(0.0, np.cumsum(rng.normal(0, 5e-4, count - 1))))
        opening = np.append(closes[0], closes[:-1])
        first, half_hour = volume
        volumes = rng.integers(1, half_hour // 40, count).astype(float)
        volumes[0] = first
        volumes[1] += half_hour - volumes[:30].sum()
        columns = {
            "open": opening,
            "high": np.maximum(opening, closes),
            "low": np.minimum(opening, closes),
            "close": closes,
            "volume": volumes,
        }
        frames.append(pd.DataFrame({"datetime": times.tz_convert("UTC"), "instrument": instrument} | columns))
    folder.mkdir(parents=True, exist_ok=True)
    pd.concat(frames).to_parquet(folder / "bars.parquet")
    return build_store(folder / "bars.parquet", folder / "store", calendar=calendar, tick_minutes=1)
