"""From an experiment to its parts: market, orders, splits, environment, agent, vessel, trainer. Each step is one call."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from rlcore.config.execution_experiment import ExecutionExperiment
from rlcore.config.experiment import ExperimentSpec
from rlcore.config.monitors import check_monitor, monitors_of
from rlcore.config.specs import TaskShape
from rlcore.config.task_experiment import TaskExperiment
from rlcore.config.task_specs import Task, TaskSeeds
from rlcore.foundation.errors import ConfigError

if TYPE_CHECKING:
    from rlcore.agents.agent import Agent
    from rlcore.environment.backends import EpisodeBackend
    from rlcore.environment.parts import EnvironmentParts
    from rlcore.execution.orders import OrderSet
    from rlcore.execution.splitting import OrderSplit
    from rlcore.market.store import MarketStore
    from rlcore.training.callbacks import Callback
    from rlcore.training.loggers import Logger
    from rlcore.training.trainer import Trainer
    from rlcore.training.vessel import TrainingVessel


def build_market(experiment: ExecutionExperiment, destination: Path, as_of: date | None = None) -> MarketStore:
    """Write the market store to ``destination`` and open it; nothing later than ``as_of`` is in it."""
    return experiment.market.build_store(destination, as_of)


def build_orders(experiment: ExecutionExperiment, store: MarketStore, as_of: date | None = None) -> OrderSet:
    """Return all orders of the experiment, none of a day after ``as_of``."""
    return experiment.orders.build(store, as_of)


def build_splits(experiment: ExecutionExperiment, orders: OrderSet) -> list[OrderSplit]:
    """Return the folds: training, validation and test orders of each."""
    return experiment.split.build(orders)


def build_parts(experiment: ExecutionExperiment, store: MarketStore) -> EnvironmentParts:
    """Return simulator, interpreters and reward on a market."""
    from rlcore.contracts.reward import WeightedReward
    from rlcore.environment.parts import EnvironmentParts

    execution = experiment.execution
    unusable = store.instruments_without_usable_volume
    if execution.participation_cap is not None and unusable:
        raise ConfigError(
            f"execution.participation_cap must be null where volume says nothing, was {execution.participation_cap}, "
            f"and volume says nothing for {', '.join(unusable[:5])}: set it to null, or leave these instruments out"
        )
    simulator = execution.build(store)
    shape = TaskShape(store, simulator, execution.ticks_per_step, execution.participation_cap)
    return EnvironmentParts(
        simulator=simulator,
        state_interpreter=experiment.observation.build(shape),
        action_interpreter=experiment.action.build(shape),
        reward=WeightedReward({name: (term.build(shape), term.weight) for name, term in experiment.reward.items()}),
        space_checks=experiment.runtime.space_checks,
    )


def build_agent(experiment: ExperimentSpec, parts: EnvironmentParts, seed: int) -> Agent:
    """Return a fresh agent for the environment; its parameters depend on ``seed`` alone."""
    from rlcore.agents.build_agent import build_agent as build

    return build(
        experiment.agent,
        parts.state_interpreter.observation_space,
        parts.action_interpreter.action_space,
        parts.state_interpreter,
        root_seed=seed,
        device=experiment.runtime.device,
    )


def build_task(experiment: TaskExperiment) -> Task:
    """Return parts and seed sets of a task of one's own."""
    return experiment.task.build(experiment.runtime.space_checks)


def build_vessel(experiment: ExperimentSpec, parts: EnvironmentParts, seeds: OrderSplit | TaskSeeds, seed: int) -> TrainingVessel:
    """Return a fresh agent with the environment and what trains, chooses and judges it."""
    from rlcore.training.vessel import TrainingVessel

    training = experiment.training
    return TrainingVessel(
        parts,
        build_agent(experiment, parts, seed),
        seeds.train,
        seeds.validation,
        seeds.test,
        episodes_per_iteration=training.episodes_per_iteration,
        steps_per_iteration=training.steps_per_iteration,
        num_lanes=training.lanes,
        num_groups=training.groups,
        root_seed=seed,
        config=experiment.checkpoint_config(),
    )


def build_backend(experiment: ExperimentSpec) -> EpisodeBackend:
    """Return where an evaluation's episodes run: where those of the training did."""
    from rlcore.training.worker_backend import backend_like_here

    runtime = experiment.runtime
    return backend_like_here(
        runtime.worker_backend,
        runtime.concurrency,
        on_worker_death=runtime.on_worker_death,
        chunk_deadline_seconds=runtime.chunk_deadline_seconds,
    )


def build_trainer(
    experiment: ExperimentSpec,
    vessel: TrainingVessel,
    folder: Path,
    callbacks: Iterable[Callback] = (),
    loggers: Iterable[Logger] = (),
) -> Trainer:
    """Return the trainer that the experiment asks for.

    Args:
        experiment: says how long, when to validate, when to stop.
        vessel: what it is going to train.
        folder: of this training; checkpoints go to ``checkpoints`` in it, the full history of metrics beside them.
        callbacks: further ones.
        loggers: further ones.
    """
    from rlcore.training.callbacks import EarlyStopping, MetricsWriter
    from rlcore.training.checkpoint_writer import CheckpointWriter
    from rlcore.training.trainer import Trainer

    training, runtime = experiment.training, experiment.runtime
    kept, stopping = training.checkpoints, training.early_stopping
    for path, monitor in monitors_of(experiment):  # a task that is given whole says only now which sets it has
        check_monitor(path, monitor, tuple(vessel.validation_sets))
    chosen_by = f"{next(iter(vessel.validation_sets), 'validation')}/return/mean"
    own: list[Callback] = [
        MetricsWriter(folder),
        CheckpointWriter(
            folder / "checkpoints",
            every_n_iters=kept.every_iterations,
            every_seconds=kept.every_seconds,
            keep_last=kept.keep_last,
            monitor=kept.monitor or chosen_by,
            mode=kept.mode,
            file_name=kept.file_name,
        ),
    ]
    if stopping is not None:
        settings = stopping.model_dump(exclude={"monitor"})
        own.append(EarlyStopping(stopping.monitor or chosen_by, **settings))
    return Trainer(
        max_iters=training.iterations,
        val_every_n_iters=training.validate_every,
        concurrency=runtime.concurrency,
        finite_env_type=runtime.worker_backend,
        on_worker_death=runtime.on_worker_death,
        chunk_deadline_seconds=runtime.chunk_deadline_seconds,
        fast_dev_run=training.fast_dev_run,
        wall_clock_budget_seconds=training.wall_clock_budget_seconds,
        callbacks=[*own, *callbacks],
        loggers=[*(spec.build(folder, f"{at}") for at, spec in enumerate(training.loggers)), *loggers],
    )
