"""Names and rules of the metrics of a training.

Names: ``train/…``, ``validation/…`` (where there are several validation sets: ``validation/<name>/…``), ``test/…``. All are made
by one rule from a table with one row per episode (``EpisodeTable.summary``); a phase counts the episodes that ended in it:

- ``<phase>/<figure>/mean`` and ``/std`` (of the population: divided by n) over the episodes that have the figure. Figures are
  ``num_steps``, ``return``, ``reward/<name>`` (the weighted sum over an episode's steps: these add up to the return),
  ``component/<name>`` (the same unweighted), ``auxiliary/<name>`` (the mean over an episode's steps) and the simulator's metrics;
- ``<phase>/<figure>/num_missing``: how many episodes do not have it; it is there only when some do not, and a figure that no
  episode has, has no mean;
- ``<phase>/num_episodes``, and among them ``num_failed``, which take no part in any other figure; ``truncated_fraction`` of the
  others.

Of training besides: ``train/update/<name>``, what the agent says of its update; ``train/total_episodes`` and
``train/total_steps``, sums over all iterations; and, where it is counted in steps, ``train/reward_per_step``, the mean over the
iteration's steps, because an iteration in which no episode ends has no other figure of what was earned.

Every value is finite. What a clock says is not a metric: it is never the same twice (``FitResult.seconds``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from rlcore.environment.episode_table import EpisodeTable
from rlcore.foundation.errors import ContractError
from rlcore.training.collection import Collected
from rlcore.training.results import Progress


def episode_metrics(phase: str, table: EpisodeTable) -> dict[str, float]:
    """Return what the episodes of a phase show."""
    return {f"{phase}/{name}": value for name, value in table.summary().items()}


def train_metrics(collected: Collected, update_figures: Mapping[str, float], progress: Progress) -> dict[str, float]:
    """Return what an iteration's collection and update show.

    Raises:
        ContractError: for a figure of the update that is not finite.
    """
    return {
        **episode_metrics("train", collected.table),
        **{f"train/{name}": value for name, value in collected.figures.items()},
        **_update_metrics(update_figures),
        "train/total_episodes": float(progress.num_episodes),
        "train/total_steps": float(progress.num_steps),
    }


def _update_metrics(figures: Mapping[str, float]) -> dict[str, float]:
    # A figure that is not finite says that the parameters are spoilt: they must not reach a checkpoint.
    for name, value in figures.items():
        if not math.isfinite(value):
            raise ContractError(
                f"figure {name!r} of the agent's update must be finite, was {value}: the training has diverged, "
                "lower the learning rate or scale the rewards; the last checkpoint stands"
            )
    return {f"train/update/{name}": float(value) for name, value in figures.items()}
