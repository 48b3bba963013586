"""One row per seed: how its episode went, what it earned, and what it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.reward import WeightedReward
from rlcore.contracts.seeds import SeedSet
from rlcore.environment.episode_jobs import JobResult
from rlcore.foundation.errors import ContractError, nearest_name

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, slots=True)
class EpisodeTable:
    """Columns by name, each (rows,), in the order of the evaluation.

    ``seed_id``; ``status`` ("ok" or "failed"); ``error`` (one line, or ""); ``num_steps``; ``return``; ``is_truncated``;
    ``reward/<name>`` (weighted sums over the episode, which add up to the return) and ``component/<name>`` (unweighted sums);
    ``auxiliary/<name>`` (means over those of the episode's steps that know it, of the auxiliary information that is numbers);
    the simulator's metrics; and what the seed set says of each seed. In a failed row every figure is NaN.
    """

    columns: Mapping[str, NDArray[Any]]
    figures: tuple[str, ...]  # the numeric columns that ``summary`` speaks of

    def __len__(self) -> int:
        return len(self.columns["seed_id"])

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self.columns:
            raise KeyError(f"column must be one of {', '.join(self.columns)}, was {name!r}{nearest_name(name, self.columns)}")
        return self.columns[name]

    @property
    def is_failed(self) -> NDArray[np.bool_]:
        """Which rows are failed, (rows,)."""
        return np.asarray(self.columns["status"] == "failed", bool)

    def to_frame(self) -> pandas.DataFrame:
        import pandas  # half a second that acting and training do not need

        return pandas.DataFrame(dict(self.columns))

    def summary(self) -> dict[str, float]:
        """Return finite figures of the whole table.

        ``num_episodes``, ``num_failed``, ``truncated_fraction``, and for each figure ``<name>/mean`` and ``<name>/std`` over the
        rows that have it; ``<name>/num_missing`` says how many successful rows do not, where some do not (a mean of survivors
        must not pass for a mean of all).
        """
        is_ok = ~self.is_failed
        result = {"num_episodes": float(len(self)), "num_failed": float(len(self) - is_ok.sum())}
        if is_ok.any():
            result["truncated_fraction"] = float(self.columns["is_truncated"][is_ok].mean())
        for name in self.figures:
            values = np.asarray(self.columns[name][is_ok], np.float64)
            present = values[np.isfinite(values)]
            if len(present):
                result[f"{name}/mean"], result[f"{name}/std"] = float(present.mean()), float(present.std())
            if len(present) < len(values):
                result[f"{name}/num_missing"] = float(len(values) - len(present))
        return result


def build_episode_table(
    result: JobResult, reward: WeightedReward[Any], seeds: SeedSet[Any], seed_id: NDArray[np.int64]
) -> EpisodeTable:
    """Return the table of a job's episodes.

    Raises:
        ContractError: a metric or a column of the seed set takes a name that is taken.
    """
    episodes, failures, count = result.episodes, result.failures, len(seed_id)
    if len(episodes.num_steps) != count:
        raise ContractError(
            f"a result must have one row for each of {count} seeds, had {len(episodes.num_steps)}: the backend lost episodes"
        )
    error = np.full(count, "", object)
    status = np.full(count, "ok", object)
    for position, failure in failures.items():
        error[position], status[position] = failure.error, "failed"
    sums = {name: episodes.component_sums.get(name, np.full(count, np.nan)) for name in reward.weights}
    table: dict[str, NDArray[Any]] = {
        "seed_id": seed_id,
        "status": status,
        "error": error,
        "num_steps": episodes.num_steps,
        "return": episodes.episode_return,
        "is_truncated": episodes.is_truncated,
    }
    table |= {f"reward/{name}": reward.weights[name] * value for name, value in sums.items()}
    table |= {f"component/{name}": value for name, value in sums.items()}
    with np.errstate(invalid="ignore"):  # what no step of an episode knows: 0 / 0, hence NaN
        means = {name: value / episodes.auxiliary_counts[name] for name, value in episodes.auxiliary_sums.items()}
    table |= {f"auxiliary/{name}": value for name, value in means.items()}
    figures = ["num_steps", "return", *(name for name in table if "/" in name), *episodes.metrics]
    _add(table, episodes.metrics, count, "metric of the simulator")
    _add(table, seeds.describe(seed_id), count, "column of the seed set")
    return EpisodeTable(table, tuple(figures))


def _add(table: dict[str, NDArray[Any]], columns: Mapping[str, NDArray[Any]], count: int, what: str) -> None:
    for name, column in columns.items():
        if name in table:
            raise ContractError(f"{what} must have a name of its own in the episode table, was {name!r}: rename it")
        if len(column) != count:
            raise ContractError(f"{what} {name!r} must have {count} rows, had {len(column)}")
        table[name] = column
