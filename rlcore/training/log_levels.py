"""How much a logger wants to hear, and which figure has which level, by name.

The rule, for the names that ``rlcore.training.metrics`` describes (first line that fits):

- CRITICAL: what says that figures must not be taken for the whole: ``…/num_failed`` and ``…/num_missing``;
- DEBUG: spreads, ``…/std``;
- INFO: what a phase is judged by: ``…/return/mean``, ``…/reward_per_step``, ``…/num_episodes``, ``…/truncated_fraction``, and
  ``train/total_…``;
- PERIODIC: everything else: the means of reward terms, components, the simulator's metrics and auxiliary figures, how long
  episodes were, and what the agent says of its update.

A column of an episode table has the level of its mean; a column that is no figure (which seed, how it ended) is always there.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from rlcore.environment.episode_table import EpisodeTable

_CRITICAL_NAMES = frozenset({"num_failed", "num_missing"})
_INFO_NAMES = frozenset({"reward_per_step", "num_episodes", "truncated_fraction"})


class LogLevel(IntEnum):
    """A logger takes its own level and those above."""

    DEBUG = 10
    PERIODIC = 20
    INFO = 30
    CRITICAL = 40


def level_of(name: str) -> LogLevel:
    """Return the level of a metric, by the rule above."""
    last = name.rsplit("/", 1)[-1]
    if last in _CRITICAL_NAMES:
        return LogLevel.CRITICAL
    if last == "std":
        return LogLevel.DEBUG
    if last in _INFO_NAMES or name.endswith("/return/mean") or name.startswith("train/total_"):
        return LogLevel.INFO
    return LogLevel.PERIODIC


def metrics_from(level: LogLevel, metrics: Mapping[str, float]) -> dict[str, float]:
    """Return the metrics of a level and above, in their order."""
    return {name: value for name, value in metrics.items() if level_of(name) >= level}


def columns_from(level: LogLevel, phase: str, table: EpisodeTable) -> EpisodeTable:
    """Return an episode table with the columns of a level and above, in their order."""
    dropped = {name for name in table.figures if level_of(f"{phase}/{name}/mean") < level}
    return EpisodeTable(
        {name: column for name, column in table.columns.items() if name not in dropped},
        tuple(name for name in table.figures if name not in dropped),
    )
