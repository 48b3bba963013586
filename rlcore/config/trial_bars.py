"""Made-up bars on a real calendar, for estimates only."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from rlcore.foundation.random_streams import key_generator
from rlcore.market.calendars import schedule_sessions

_NUM_INSTRUMENTS, _NUM_DAYS = 4, 5
_FIRST_MONDAY = "2023-05-08"  # a week without holidays on the large exchanges
_COLUMNS = ("open", "high", "low", "close", "vwap", "bid", "ask")


def write_trial_bars(path: Path, calendar: str, tick_minutes: int, extra_fields: tuple[str, ...]) -> None:
    """Write a few days of a few instruments with every column that bars can have."""
    days = np.datetime64(_FIRST_MONDAY) + np.arange(_NUM_DAYS)
    schedule = schedule_sessions(calendar, tick_minutes, (days + np.timedelta64(12, "h")).astype("datetime64[ns]").view(np.int64))
    stamps = schedule.tick_start[~np.isnat(schedule.tick_start)]
    generator = key_generator(0, "trial bars")
    frames = []
    for index in range(_NUM_INSTRUMENTS):
        price = 100.0 * np.exp(np.cumsum(generator.normal(0.0, 1e-4, len(stamps))))
        frame = pd.DataFrame({"datetime": pd.DatetimeIndex(stamps).tz_localize("UTC"), "instrument": f"TRIAL.{index}"})
        for column in _COLUMNS:
            frame[column] = price
        for column in ("volume", "amount", "bid_size", "ask_size"):
            frame[column] = 10_000.0
        for column in extra_fields:
            frame[column] = generator.standard_normal(len(stamps))
        frames.append(frame)
    pd.concat(frames).to_parquet(path)
