"""Which columns of an episode table become figures of a run."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from rlcore.config.execution_experiment import ExecutionExperiment
from rlcore.config.experiment import ExperimentSpec

# Neither names nor numbers of order are figures, and a mean of prices or of shares over several instruments says nothing.
_NOT_TELLING = re.compile(r"seed_id|fold|training_seed|quantity|notional|filled_quantity|.*_price|window_twap|window_vwap")
_STATISTIC = re.compile(r"/(mean|std|num_missing)$")


def is_telling(name: str) -> bool:
    """Return whether a column, or a metric made of it (``train/shortfall_bps/mean``), says something over all orders."""
    return _NOT_TELLING.fullmatch(_STATISTIC.sub("", name).rpartition("/")[2]) is None


def telling(figures: Mapping[str, float]) -> dict[str, float]:
    """Return the figures that say something over all orders."""
    return {name: value for name, value in figures.items() if is_telling(name)}


def shown_figures(experiment: ExperimentSpec) -> Callable[[Mapping[str, float]], dict[str, float]]:
    """Return what chooses an experiment's figures: in order execution those that are telling, in a task of one's own all."""
    return telling if isinstance(experiment, ExecutionExperiment) else dict
