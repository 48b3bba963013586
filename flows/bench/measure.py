"""CPU seconds of repeated work: the median of five, and how far the five lie apart."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

REPEATS = 5


@dataclass(frozen=True, slots=True)
class Measurement:
    """One figure. CPU seconds, because wall seconds mean little on a shared machine."""

    name: str
    unit: str  # what was counted: steps of living lanes, episodes, …
    count: int  # of one repetition
    cpu_seconds: float  # median of the repetitions
    cpu_seconds_spread: tuple[float, float]  # smallest and largest
    peak_memory_mib: float  # of the process so far, what was loaded before included
    parts_seconds: dict[str, float]  # wall seconds by phase of the last repetition, as far as the work says so; may be empty

    @property
    def per_cpu_second(self) -> float:
        return self.count / self.cpu_seconds

    def to_plain(self) -> dict[str, Any]:
        return {**asdict(self), "per_cpu_second": self.per_cpu_second}


def measure(name: str, unit: str, work: Callable[[], int], parts_seconds: dict[str, float] | None = None) -> Measurement:
    """Do the work once to warm up (compilation, page cache), then ``REPEATS`` times.

    Args:
        name: what the figure is called.
        unit: what ``work`` counts.
        work: does it and returns how much it did, the same every time.
        parts_seconds: filled by the work with where the time of its last repetition went.
    """
    work()
    seconds, count = [], 0
    for _ in range(REPEATS):
        before = time.process_time()
        count = work()
        seconds.append(time.process_time() - before)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    spread = (min(seconds), max(seconds))
    return Measurement(name, unit, count, statistics.median(seconds), spread, peak, dict(parts_seconds or {}))
