"""The figures by name, each measured in a process of its own: one thread, and a peak of memory that is its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlcore.foundation.errors import ConfigError, FillwrightError, nearest_name

# Module of flows.bench → its function.
MODULES = {
    "environment": "measure_environment",
    "rollout": "measure_rollout",
    "fit": "measure_fit",
    "env_wrapper_step": "measure_env_wrapper_step",
}
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


class BenchError(FillwrightError):
    """A benchmark did not run to its end."""


def check_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the figures to measure: those named, or all.

    Raises:
        ConfigError: for an unknown name.
    """
    for name in names:
        if name not in MODULES:
            raise ConfigError(f"benchmark must be one of {', '.join(MODULES)}, was {name!r}{nearest_name(name, MODULES)}")
    return tuple(names) or tuple(MODULES)


def measure_in_own_process(folder: Path, name: str) -> list[dict[str, Any]]:
    """Measure one figure on the scenario in ``folder``.

    Raises:
        BenchError: when the process fails; with the end of what it said.
    """
    command = [sys.executable, "-m", "flows.bench", str(folder), name]
    ended = subprocess.run(command, env={**os.environ, **ONE_THREAD}, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        said = ended.stderr[-2000:]
        raise BenchError(f"benchmark {name} must run to its end, ended with exit code {ended.returncode}:\n{said}")
    return [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
