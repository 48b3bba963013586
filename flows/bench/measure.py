"""CPU seconds of repeated work: the median of five, and how far the five lie apart."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from flows.bench.time_by_area import time_by_area

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
    shares: dict[str, float]  # area of the code → share of the CPU time, the largest first
    floor: str  # the part of the work that no code could leave out
    floor_seconds: float | None  # CPU seconds of that part alone, median; None: not measured

    @property
    def per_cpu_second(self) -> float:
        return self.count / self.cpu_seconds

    def named(self, name: str) -> Measurement:
        """Return the same figure under another name."""
        return replace(self, name=name)

    def to_plain(self) -> dict[str, Any]:
        return {**asdict(self), "per_cpu_second": self.per_cpu_second}


def measure(
    name: str, unit: str, work: Callable[[], int], *, floor: str = "", floor_work: Callable[[], object] | None = None
) -> Measurement:
    """Do the work once to warm up (compilation, page cache), then ``REPEATS`` times, then once more to see where the time goes.

    Args:
        name: what the figure is called.
        unit: what ``work`` counts.
        work: does it and returns how much it did, the same every time.
        floor: what part of the work no code could leave out.
        floor_work: does that part alone.
    """
    count = work()
    seconds = cpu_seconds_of(work)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    floor_seconds = None if floor_work is None else statistics.median(cpu_seconds_of(floor_work))
    spread = (min(seconds), max(seconds))
    return Measurement(name, unit, count, statistics.median(seconds), spread, peak, time_by_area(work), floor, floor_seconds)


def cpu_seconds_of(work: Callable[[], object]) -> list[float]:
    """Return the CPU seconds of ``REPEATS`` repetitions."""
    seconds = []
    for _ in range(REPEATS):
        before = time.process_time()
        work()
        seconds.append(time.process_time() - before)
    return seconds
