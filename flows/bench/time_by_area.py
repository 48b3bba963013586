"""Where the time goes: the share of samples in each part of the code, taken by the profiling timer while the work runs."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

_INTERVAL_SECONDS = 0.001
_ROOT = Path(__file__).resolve().parents[2]
# File → area, the most specific first; what lies elsewhere counts for the nearest caller of ours.
AREAS = (
    ("rlcore/market/", "reading bars"),
    ("rlcore/execution/rewards", "reward"),
    ("rlcore/execution/benchmarks", "metrics and benchmarks"),
    ("rlcore/execution/metrics", "metrics and benchmarks"),
    ("rlcore/execution/observations", "interpreters"),
    ("rlcore/execution/actions", "interpreters"),
    ("rlcore/execution/learning/", "network"),
    ("rlcore/execution/", "fills and accounts"),
    ("rlcore/agents/", "network"),
    ("rlcore/environment/space_checks", "validation"),
    ("rlcore/foundation/random_streams", "random numbers"),
    ("rlcore/environment/", "bookkeeping"),
    ("rlcore/foundation/", "bookkeeping"),
    ("rlcore/contracts/", "reward"),
    ("rlcore/", "other"),
)


def time_by_area(work: Callable[[], object]) -> dict[str, float]:
    """Do the work once and return area → share of its CPU time, the largest first. Main thread only."""
    samples: Counter[str] = Counter()

    def sample(_signal: int, frame: FrameType | None) -> None:
        samples[_area(frame)] += 1

    before = signal.signal(signal.SIGPROF, sample)
    signal.setitimer(signal.ITIMER_PROF, _INTERVAL_SECONDS, _INTERVAL_SECONDS)
    try:
        work()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)
    total = samples.total() or 1
    return {area: count / total for area, count in samples.most_common()}


def _area(frame: FrameType | None) -> str:
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith(str(_ROOT)):
            inside = path[len(str(_ROOT)) + 1 :]
            for prefix, area in AREAS:
                if inside.startswith(prefix):
                    return area
        frame = frame.f_back
    return "other"
