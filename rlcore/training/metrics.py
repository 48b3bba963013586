"""Names and rules of the metrics of a training.

Names: ``train/…``, ``validation/…``, ``test/…``. All three are made by one rule from a table with one row per episode
(``EpisodeTable.summary``):

- ``<phase>/<figure>/mean`` and ``/std`` over the episodes that have the figure; figures are ``num_steps``, ``return``,
  ``reward/<name>`` (the weighted sum over an episode: these add up to the return), ``component/<name>`` (unweighted) and the
  simulator's metrics;
- ``<phase>/<figure>/num_missing``: how many episodes do not have it; it is there only when some do not, and a figure that no
  episode has, has no mean;
- ``<phase>/num_episodes``, ``/num_failed``, ``/truncated_fraction``.

Of training besides: ``train/update/<name>``, what the agent says of its update, and ``train/total_episodes`` and
``train/total_steps``, sums over all iterations. Every value is finite. What a clock says is not a metric: it is never the same
twice (``FitResult.seconds``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from rlcore.environment.episode_table import EpisodeTable
from rlcore.foundation.errors import ContractError
from rlcore.training.results import Progress


def episode_metrics(phase: str, table: EpisodeTable) -> dict[str, float]:
    """Return what the episodes of a phase show."""
    return {f"{phase}/{name}": value for name, value in table.summary().items()}


def update_metrics(figures: Mapping[str, float]) -> dict[str, float]:
    """Return what an agent says of its update.

    Raises:
        ContractError: for a figure that is not finite: the parameters are spoilt, and must not reach a checkpoint.
    """
    for name, value in figures.items():
        if not math.isfinite(value):
            raise ContractError(
                f"figure {name!r} of the agent's update must be finite, was {value}: the training has diverged, "
                "lower the learning rate or scale the rewards; the last checkpoint stands"
            )
    return {f"train/update/{name}": float(value) for name, value in figures.items()}


def total_metrics(progress: Progress) -> dict[str, float]:
    """Return sums over all iterations so far."""
    return {"train/total_episodes": float(progress.num_episodes), "train/total_steps": float(progress.num_steps)}
