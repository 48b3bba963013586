"""What an experiment will cost in memory and time: measured on a small trial of it, and scaled up.

The trial builds the experiment's own parts and agent on a few days of made-up bars of the same calendar and columns, and runs
one small iteration. So it also finds what a schema cannot: an agent that cannot have these actions, a feature that is not there.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rlcore.config.build import build_parts, build_vessel
from rlcore.config.experiment import ExperimentSpec
from rlcore.foundation.lanes import map_lanes

if TYPE_CHECKING:
    from rlcore.execution.orders import OrderSet
    from rlcore.market.store import MarketStore
    from rlcore.training.vessel import Collected

Result = TypeVar("Result")

TRIAL_EPISODES = 256
_MIB = 2.0**20


@dataclass(frozen=True, slots=True)
class Estimate:
    """Rough: within a factor of two on a quiet machine like this one."""

    num_trainings: int  # seeds × folds
    steps_per_iteration: int
    collect_seconds: float  # of one iteration
    update_seconds: float  # of one iteration
    validation_seconds: float  # of one validation
    training_seconds: float  # of one training
    total_seconds: float  # of all trainings, one after the other
    rollout_mib: float  # of one iteration
    peak_memory_mib: float  # of the training process; market data in the page cache not counted

    def to_plain(self) -> dict[str, Any]:
        return asdict(self)

    def rows(self) -> list[tuple[str, str]]:
        """Return the figures for people."""
        return [
            ("  steps in an iteration", f"{self.steps_per_iteration:,}"),
            ("  collect + update", f"{self.collect_seconds:.2f} s + {self.update_seconds:.2f} s an iteration"),
            ("  validation", f"{self.validation_seconds:.2f} s each"),
            ("  one training", _duration(self.training_seconds)),
            (
                "  all",
                f"{_duration(self.total_seconds)} for {self.num_trainings} trainings, one after the other, without the backtest",
            ),
            ("  memory", f"about {self.peak_memory_mib:,.0f} MiB, {self.rollout_mib:,.0f} MiB of it the steps of an iteration"),
        ]


def estimate(experiment: ExperimentSpec) -> Estimate | None:
    """Run the trial and scale it up; None where the market (a plugin's) offers none.

    Raises:
        ConfigError: where the parts do not fit together.
    """
    with tempfile.TemporaryDirectory(prefix="fillwright-trial-") as folder:
        store = experiment.market.build_trial_store(Path(folder))
        if store is None:
            return None
        collected, collect_seconds, update_seconds = _run_trial(experiment, store)
    training = experiment.training
    scale = training.episodes_per_iteration / TRIAL_EPISODES
    trial_mib = _num_bytes(collected.rollout) / _MIB
    validation_seconds = collect_seconds * _num_validation_orders(experiment) / TRIAL_EPISODES
    num_validations = training.iterations // training.validate_every
    training_seconds = training.iterations * (collect_seconds + update_seconds) * scale + num_validations * validation_seconds
    num_trainings = len(experiment.seeds) * experiment.split.num_folds
    # Rows, and what the update makes of them, are there beside the rollout.
    grown_mib = 2.0 * trial_mib * max(scale - 1.0, 0.0)
    return Estimate(
        num_trainings=num_trainings,
        steps_per_iteration=round(collected.rollout.num_steps * scale),
        collect_seconds=collect_seconds * scale,
        update_seconds=update_seconds * scale,
        validation_seconds=validation_seconds,
        training_seconds=training_seconds,
        total_seconds=training_seconds * num_trainings,
        rollout_mib=trial_mib * scale,
        peak_memory_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 + grown_mib,
    )


def _run_trial(experiment: ExperimentSpec, store: MarketStore) -> tuple[Collected, float, float]:
    """Return the episodes of one small iteration, and the seconds of its collection and its update."""
    from rlcore.environment.backends import InlineBackend
    from rlcore.execution.splitting import OrderSplit

    lanes = min(experiment.training.lanes, TRIAL_EPISODES)
    small = experiment.training.model_copy(update={"episodes_per_iteration": TRIAL_EPISODES, "lanes": lanes})
    trial = experiment.model_copy(update={"training": small})
    orders = _whole_day_orders(store)
    vessel = build_vessel(trial, build_parts(trial, store), OrderSplit(orders, orders, orders), seed=0)
    backend = InlineBackend()
    vessel.update(vessel.collect(backend))  # compilation and page faults happen once
    collected, collect_seconds = _timed(lambda: vessel.collect(backend))
    _, update_seconds = _timed(lambda: vessel.update(collected))
    return collected, collect_seconds, update_seconds


def _whole_day_orders(store: MarketStore) -> OrderSet:
    from rlcore.execution.orders import OrderSet

    row = np.arange(store.num_rows)
    return OrderSet(
        store,
        row=row,
        side=np.where(row % 2 == 0, 1.0, -1.0),
        quantity=0.01 * store.array("tradable_volume")[:].sum(axis=-1),
        start_tick=np.zeros_like(row),
        end_tick=store.session_ticks,
    )


def _num_validation_orders(experiment: ExperimentSpec) -> float:
    """Return an upper bound: as if there were no more days than the split needs."""
    split = experiment.split
    least_days = 1 + split.validation_days + split.num_folds * split.test_days
    return experiment.orders.count() * split.validation_days / least_days


def _timed(work: Callable[[], Result]) -> tuple[Result, float]:
    started = time.perf_counter()
    result = work()
    return result, time.perf_counter() - started


def _num_bytes(tree: Any) -> int:
    total = 0

    def add(leaf: NDArray[Any]) -> NDArray[Any]:
        nonlocal total
        total += leaf.nbytes
        return leaf

    map_lanes(add, tree)
    return total


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
