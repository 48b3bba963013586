"""QlibRL on the same bars and orders, in a Python of its own: one figure beside each of ours that it has."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flows.bench.figures import ONE_THREAD, BenchError

# Figure of ours → (mode of the rival's script, episodes): enough for some seconds each.
_MODES = {"environment": ("env", 300), "rollout": ("rollout", 300), "fit": ("fit", 1_000)}
_SCRIPT = Path(__file__).with_name("qlib_rival.py")


def measure_rival(python: Path, folder: Path, names: Sequence[str]) -> list[dict[str, Any]]:
    """Run the rival for each figure that it has; returns what its script prints, with our name of the figure.

    Args:
        python: an interpreter that has pyqlib.
        folder: of the scenario.
        names: figures of ours.

    Raises:
        BenchError: when the rival's process fails; with the end of what it said.
    """
    return [{"name": name, **_run(python, folder, *_MODES[name])} for name in names if name in _MODES]


def _run(python: Path, folder: Path, mode: str, num_episodes: int) -> dict[str, Any]:
    command = [str(python), str(_SCRIPT), str(folder), mode, "--episodes", str(num_episodes)]
    environment = {**os.environ, **ONE_THREAD}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=folder)
    lines = [line for line in ended.stdout.splitlines() if line.startswith("{")]
    if ended.returncode != 0 or not lines:
        raise BenchError(f"rival {mode} must run to its end, ended with exit code {ended.returncode}:\n{ended.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(lines[-1])
    return {**result, "per_cpu_second": result["count"] / result["cpu_seconds"]}
