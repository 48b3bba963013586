"""The market and the orders that every figure is measured on: those of the rival's benchmark.

50 instruments, 60 days of 240 one-minute bars, one whole-day order of 1,000 shares for each of the 3,000 instrument-days, sides
in turn. The price is a random walk with a little reversion from minute to minute, so that there is something to learn.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlcore.execution.orders import OrderSet
from rlcore.market.store import MarketStore

NUM_INSTRUMENTS, NUM_DAYS, NUM_TICKS = 50, 60, 240
TICKS_PER_STEP = 30
QUANTITY = 1000.0
CALENDAR = "09:30-11:30,13:00-15:00 Asia/Shanghai"
_STORE = "store"


@dataclass(frozen=True, slots=True)
class Scenario:
    """The benchmark's market and orders, opened."""

    store: MarketStore
    orders: OrderSet

    def orders_for(self, count: int) -> OrderSet:
        """Return ``count`` orders: the 3,000, as often as needed."""
        return self.orders.subset(np.arange(count) % len(self.orders))


def write_scenario(folder: Path) -> None:
    """Write the store, and ``bars.npz`` and ``orders.npz``, from which the rival writes its own files."""
    from rlcore.market.build_store import build_store

    close, volume = _prices(np.random.default_rng(0))
    np.savez(folder / "bars.npz", close=close, volume=volume, features=_rival_features(close, volume))
    day = np.tile(np.arange(NUM_DAYS), NUM_INSTRUMENTS)
    instrument = np.repeat(np.arange(NUM_INSTRUMENTS), NUM_DAYS)
    side = np.where((instrument + day) % 2 == 0, 1.0, -1.0)
    np.savez(folder / "orders.npz", instrument=instrument, day=day, side=side, quantity=np.full(len(day), QUANTITY))
    source = folder / "bars.parquet"
    _tidy(close, volume).to_parquet(source)
    build_store(source, folder / _STORE, calendar=CALENDAR, tick_minutes=1)


def open_scenario(folder: Path) -> Scenario:
    """Open what ``write_scenario`` wrote."""
    store = MarketStore.open(folder / _STORE)
    table = np.load(folder / "orders.npz")
    # Rows of the store are sorted by (instrument, date), and so are the orders.
    row = table["instrument"] * NUM_DAYS + table["day"]
    count = len(row)
    orders = OrderSet(
        store,
        row=row,
        side=table["side"],
        quantity=table["quantity"],
        start_tick=np.zeros(count, np.int64),
        end_tick=np.full(count, NUM_TICKS, np.int64),
    )
    return Scenario(store, orders)


def _prices(generator: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return close and volume, each (instruments, days, ticks)."""
    count = NUM_DAYS * NUM_TICKS
    change = generator.normal(0.0, 8e-4, (NUM_INSTRUMENTS, count))
    change[:, 1:] -= 0.15 * change[:, :-1]
    shape = (NUM_INSTRUMENTS, NUM_DAYS, NUM_TICKS)
    close = 20.0 * np.exp(np.cumsum(change, axis=1)).reshape(shape)
    return close, np.round(generator.lognormal(9.0, 0.5, shape))


def _rival_features(close: NDArray[np.float64], volume: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the ten columns that QlibRL's history observation reads: five of today, five of yesterday."""
    relative = close / close[:, :, :1]
    today = np.stack([relative * 1.001, relative * 0.999, relative, relative, np.log1p(volume) / 10.0], axis=-1)
    previous = np.concatenate([today[:, :1], today[:, :-1]], axis=1)
    return np.concatenate([today, previous], axis=-1).astype(np.float32)


def _tidy(close: NDArray[np.float64], volume: NDArray[np.float64]) -> pd.DataFrame:
    """Return the bars as a tidy table in UTC, labelled at the start."""
    days = pd.bdate_range("2021-01-04", periods=NUM_DAYS)
    minutes = np.concatenate([np.arange(120) + 9 * 60 + 30, np.arange(120) + 13 * 60]).astype("timedelta64[m]")
    stamps = (days.to_numpy()[:, None] + minutes[None, :]).ravel()
    utc = pd.DatetimeIndex(stamps).tz_localize("Asia/Shanghai").tz_convert("UTC")
    flat = close.ravel()
    return pd.DataFrame(
        {
            "datetime": np.tile(utc, NUM_INSTRUMENTS),
            "instrument": np.repeat([f"SH{600000 + index}" for index in range(NUM_INSTRUMENTS)], len(stamps)),
            "open": flat,
            "high": flat * 1.001,
            "low": flat * 0.999,
            "close": flat,
            "volume": volume.ravel(),
        }
    )
