"""Finding and loading the experiment that a command names, and setting its threads before torch is imported."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcore.foundation.errors import ConfigError, nearest_name

if TYPE_CHECKING:
    from rlcore.config.experiment import ExperimentSpec

# What OpenMP, MKL, OpenBLAS and numba read once, when they are loaded.
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


def shipped_experiments() -> dict[str, Path]:
    """Return name → file of the experiments that are installed with Fillwright."""
    folder = Path(str(resources.files("flows") / "experiments"))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def find_experiment(name: str) -> Path:
    """Return the file that ``name`` means: a path, else a shipped experiment.

    Raises:
        ConfigError: when neither is there.
    """
    path = Path(name).expanduser()
    if path.is_file():
        return path
    shipped = shipped_experiments()
    if name.removesuffix(".yaml") in shipped:
        return shipped[name.removesuffix(".yaml")]
    hint = nearest_name(path.stem, shipped)
    raise ConfigError(f"experiment must be a YAML file or one of {', '.join(shipped)}, was {name!r}, which is not there{hint}")


def load(name: str, overrides: Sequence[str] | None) -> ExperimentSpec:
    """Return the experiment, with the threads that it asks for set in this process and in those that it starts."""
    from rlcore.config.loading import load_experiment

    experiment = load_experiment(find_experiment(name), overrides or ())
    set_threads(experiment.runtime.threads)
    return experiment


def open_experiment(experiment: str | dict[str, Any], overrides: Sequence[str] | None) -> ExperimentSpec:
    """Return the experiment that a flow was given: a file, a shipped one's name, or plain data. Threads are set."""
    from rlcore.config.loading import parse_experiment

    if isinstance(experiment, str):
        return load(experiment, overrides)
    spec = parse_experiment(experiment)
    set_threads(spec.runtime.threads)
    return spec


def set_threads(count: int) -> None:
    """Set the number of threads of all arithmetic; here and nowhere else."""
    import sys

    for variable in _THREAD_VARIABLES:
        os.environ[variable] = str(count)
    torch = sys.modules.get("torch")
    if torch is not None:  # it read the variables when it was imported
        torch.set_num_threads(count)
