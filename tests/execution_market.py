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
