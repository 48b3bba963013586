"""What an experiment will cost in memory and time: measured on a small trial of it, and scaled up.

The trial builds the experiment's own parts and agent (in order execution on a few days of made-up bars of the same calendar and
columns), and runs one small iteration. So it also finds what a schema cannot: an agent that cannot have these actions, a feature
that is not there.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rlcore.config.build import build_parts, build_task, build_vessel
from rlcore.config.execution_experiment import ExecutionExperiment
from rlcore.config.experiment import ExperimentSpec
from rlcore.config.monitors import check_figures, monitors_of
from rlcore.config.task_experiment import TaskExperiment
from rlcore.config.task_specs import TaskSeeds
from rlcore.config.training_specs import TrainingSpec
from rlcore.foundation.lanes import map_lanes

if TYPE_CHECKING:
    from rlcore.environment.parts import EnvironmentParts
    from rlcore.execution.orders import OrderSet
    from rlcore.execution.splitting import OrderSplit
    from rlcore.market.store import MarketStore
    from rlcore.training.collection import Collected
    from rlcore.training.vessel import TrainingVessel

Result = TypeVar("Result")

TRIAL_EPISODES = 256
# A simulator of one's own may take its time.
TRIAL_EPISODES_OF_A_TASK = 32
TRIAL_STEPS_OF_A_LANE = 64
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
        ConfigError: where the parts do not fit together, or something is monitored that episodes do not have.
    """
    with tempfile.TemporaryDirectory(prefix="fillwright-trial-") as folder:
        ground = _ground(experiment, Path(folder))
        if ground is None:
            return None
        small, scale = _shortened(experiment.training, ground.num_episodes)
        trial = experiment.model_copy(update={"training": small})
        vessel = build_vessel(trial, ground.parts, ground.seeds, seed=0)
        collected, collect_seconds, update_seconds = _run_trial(vessel)
    if len(collected.table):
        check_figures(monitors_of(experiment), ("train", *vessel.validation_sets), collected.table.figures)
    training = experiment.training
    trial_mib = _num_bytes(collected.rollout) / _MIB
    # The table holds what ended: with steps, at times nothing.
    seconds_of_episode = collect_seconds / max(len(collected.table), 1)
    validation_seconds = seconds_of_episode * ground.num_validation_seeds
    num_validations = training.iterations // training.validate_every
    training_seconds = training.iterations * (collect_seconds + update_seconds) * scale + num_validations * validation_seconds
    num_trainings = len(experiment.seeds) * ground.num_folds
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


@dataclass(frozen=True, slots=True)
class _Ground:
    """What a trial runs on, and how much of it the experiment has."""

    parts: EnvironmentParts
    seeds: OrderSplit | TaskSeeds
    num_episodes: int  # of the trial
    num_folds: int
    num_validation_seeds: float


def _ground(experiment: ExperimentSpec, folder: Path) -> _Ground | None:
    if isinstance(experiment, TaskExperiment):
        task = build_task(experiment)
        sets = task.seeds.validation
        num_seeds = sum(len(one) for one in sets.values()) if isinstance(sets, Mapping) else len(sets)
        return _Ground(task.parts, task.seeds, TRIAL_EPISODES_OF_A_TASK, 1, num_seeds)
    assert isinstance(experiment, ExecutionExperiment)  # there is no third form
    store = experiment.market.build_trial_store(folder)
    if store is None:
        return None
    from rlcore.execution.splitting import OrderSplit

    orders = _whole_day_orders(store)
    split = OrderSplit(orders, orders, orders)
    num_orders = _num_validation_orders(experiment)
    return _Ground(build_parts(experiment, store), split, TRIAL_EPISODES, experiment.split.num_folds, num_orders)


def _shortened(training: TrainingSpec, num_episodes: int) -> tuple[TrainingSpec, float]:
    """Return the training of a small iteration, and how many times larger the experiment's own is."""
    lanes = min(training.lanes, num_episodes)
    if training.steps_per_iteration is None:
        assert training.episodes_per_iteration is not None  # one of both
        small = {"episodes_per_iteration": num_episodes, "lanes": lanes}
        return training.model_copy(update=small), training.episodes_per_iteration / num_episodes
    steps = lanes * min(training.steps_per_iteration // (training.lanes * training.groups), TRIAL_STEPS_OF_A_LANE)
    small = {"steps_per_iteration": steps, "lanes": lanes, "groups": 1}
    return training.model_copy(update=small), training.steps_per_iteration / steps


def _run_trial(vessel: TrainingVessel) -> tuple[Collected, float, float]:
    """Return the episodes of one small iteration, and the seconds of its collection and its update."""
    from rlcore.environment.backends import InlineBackend

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


def _num_validation_orders(experiment: ExecutionExperiment) -> float:
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
