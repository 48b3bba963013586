"""QlibRL on the same bars and orders, in a Python of its own: one figure beside each of ours that it has."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flows.bench.agreement import NUM_ORDERS, check_agreement, write_actions
from flows.bench.figures import ONE_THREAD, BenchError
from flows.bench.measure import REPEATS

# Figure of ours → (mode of the rival's script, episodes): enough for some seconds each.
_MODES = {"environment": ("env", 300), "rollout": ("rollout", 300), "fit": ("fit", 1_000)}
_SCRIPT = Path(__file__).with_name("qlib_rival.py")


def agree(python: Path, folder: Path) -> dict[str, float]:
    """Run both on the same scripted actions and hold the fills to each other; see ``check_agreement``."""
    write_actions(folder)
    _run(python, folder, "fills", NUM_ORDERS)
    return check_agreement(folder)


def measure_rival(python: Path, folder: Path, name: str) -> dict[str, Any] | None:
    """Run the rival ``REPEATS`` times, a fresh process each, for one figure of ours; None where it has none.

    Args:
        python: an interpreter that has pyqlib.
        folder: of the scenario.
        name: a figure of ours.

    Raises:
        BenchError: when the rival's process fails; with the end of what it said.
    """
    if name not in _MODES:
        return None
    runs = [_run(python, folder, *_MODES[name]) for _ in range(REPEATS)]
    cpu, wall = ([run[key] for run in runs] for key in ("cpu_seconds", "seconds"))
    count = runs[0]["count"]
    return {
        "name": name,
        "count": count,
        "cpu_seconds": statistics.median(cpu),
        "cpu_seconds_spread": (min(cpu), max(cpu)),
        "wall_seconds": statistics.median(wall),
        "peak_memory_mib": max(run["peak_memory_mb"] for run in runs),
        "per_cpu_second": count / statistics.median(cpu),
        "per_wall_second": count / statistics.median(wall),
    }


def compare(figures: Sequence[dict[str, Any]], rival: dict[str, Any]) -> dict[str, Any]:
    """Return the ratios of the fastest of our figures of the same work to the rival's.

    ``by_cpu`` compares CPU seconds; ``by_wall`` compares our CPU seconds, one thread, with its wall seconds, in which its
    rollouts may use a second core: the stricter of the two is the one to quote.
    """
    ours = max(
        (f for f in figures if f["name"].split(",")[0] == rival["name"]), key=lambda figure: float(figure["per_cpu_second"])
    )
    return {
        "name": rival["name"],
        "ours": ours["name"],
        "by_cpu": ours["per_cpu_second"] / rival["per_cpu_second"],
        "by_wall": ours["per_cpu_second"] / rival["per_wall_second"],
        "memory": ours["peak_memory_mib"] / rival["peak_memory_mib"],
    }


def _run(python: Path, folder: Path, mode: str, num_episodes: int) -> dict[str, Any]:
    command = [str(python), str(_SCRIPT), str(folder), mode, "--episodes", str(num_episodes)]
    environment = {**os.environ, **ONE_THREAD}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=folder)
    lines = [line for line in ended.stdout.splitlines() if line.startswith("{")]
    if ended.returncode != 0 or not lines:
        raise BenchError(f"rival {mode} must run to its end, ended with exit code {ended.returncode}:\n{ended.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(lines[-1])
    return result
