"""Ticks of a day ↔ local wall-clock times."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray


class SessionLabels:
    """The local times of one day's ticks.

    Args:
        tick_start: (session ticks,) datetime64[ns] UTC.
        tick_minutes: length of a tick.
        zone: IANA name.
    """

    def __init__(self, tick_start: NDArray[np.datetime64], tick_minutes: int, zone: str) -> None:
        starts = _local_labels(tick_start, zone)
        ends = _local_labels(tick_start + np.timedelta64(tick_minutes, "m"), zone)
        if ends[-1] == "00:00":
            ends[-1] = "24:00"
        self.of_tick = (*starts, ends[-1])
        """Label at the start of each tick, and of the close."""
        self._ends = ends
        self._resumes = list(np.flatnonzero(np.diff(tick_start) > np.timedelta64(tick_minutes, "m")) + 1)
        # Where one part of the session ends as another begins, or a clock change repeats a time, the first tick counts.
        self._tick = {label: tick + 1 for tick, label in reversed(list(enumerate(ends)))}
        self._tick |= {label: tick for tick, label in reversed(list(enumerate(starts)))}

    def tick(self, label: str) -> int | None:
        """Return the tick that starts at a local time; for the end of a part of the session, the tick after it; else None."""
        return self._tick.get(label)

    @property
    def description(self) -> str:
        """Open and close of every part, e.g. ``09:30-11:30,13:00-15:00``."""
        parts = [[0, *self._resumes], [*self._resumes, len(self._ends)]]
        return ",".join(f"{self.of_tick[first]}-{self._ends[end - 1]}" for first, end in zip(*parts, strict=True))


def _local_labels(instants: NDArray[np.datetime64], zone: str) -> list[str]:
    return list(pd.DatetimeIndex(instants, tz="UTC").tz_convert(zone).strftime("%H:%M"))
