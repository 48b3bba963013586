"""From an experiment to its parts: market, orders, splits, environment, agent, vessel, trainer. Each step is one call."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from rlcore.config.experiment import ExperimentSpec
from rlcore.config.specs import TaskShape
from rlcore.foundation.errors import ConfigError

if TYPE_CHECKING:
    from rlcore.agents.agent import Agent
    from rlcore.environment.parts import EnvironmentParts
    from rlcore.execution.orders import OrderSet
    from rlcore.execution.splitting import OrderSplit
    from rlcore.market.store import MarketStore
    from rlcore.training.callbacks import Callback
    from rlcore.training.loggers import Logger
    from rlcore.training.trainer import Trainer
    from rlcore.training.vessel import TrainingVessel


def build_market(experiment: ExperimentSpec, destination: Path, as_of: date | None = None) -> MarketStore:
    """Write the market store to ``destination`` and open it; nothing later than ``as_of`` is in it."""
    return experiment.market.build_store(destination, as_of)


def build_orders(experiment: ExperimentSpec, store: MarketStore, as_of: date | None = None) -> OrderSet:
    """Return all orders of the experiment, none of a day after ``as_of``."""
    return experiment.orders.build(store, as_of)


def build_splits(experiment: ExperimentSpec, orders: OrderSet) -> list[OrderSplit]:
    """Return the folds: training, validation and test orders of each."""
    return experiment.split.build(orders)


def build_parts(experiment: ExperimentSpec, store: MarketStore) -> EnvironmentParts:
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


def build_vessel(experiment: ExperimentSpec, parts: EnvironmentParts, split: OrderSplit, seed: int) -> TrainingVessel:
    """Return a fresh agent with the environment and the orders of one fold."""
    from rlcore.training.vessel import TrainingVessel

    return TrainingVessel(
        parts,
        build_agent(experiment, parts, seed),
        split.train,
        split.validation,
        split.test,
        episodes_per_iteration=experiment.training.episodes_per_iteration,
        num_lanes=experiment.training.lanes,
        root_seed=seed,
        config=experiment.checkpoint_config(),
    )


def build_trainer(
    experiment: ExperimentSpec, folder: Path, callbacks: Iterable[Callback] = (), loggers: Iterable[Logger] = ()
) -> Trainer:
    """Return the trainer that the experiment asks for.

    Args:
        experiment: says how long, when to validate, when to stop.
        folder: of this training; checkpoints go to ``checkpoints`` in it, the full history of metrics beside them.
        callbacks: further ones.
        loggers: further ones.
    """
    from rlcore.training.callbacks import EarlyStopping, MetricsWriter
    from rlcore.training.checkpoint_writer import CheckpointWriter
    from rlcore.training.trainer import Trainer

    training, runtime = experiment.training, experiment.runtime
    own: list[Callback] = [
        MetricsWriter(folder),
        CheckpointWriter(folder / "checkpoints", every_n_iters=training.checkpoint_every, keep_last=3),
    ]
    if training.early_stopping_patience is not None:
        own.append(EarlyStopping(patience=training.early_stopping_patience))
    return Trainer(
        max_iters=training.iterations,
        val_every_n_iters=training.validate_every,
        concurrency=runtime.concurrency,
        finite_env_type=runtime.worker_backend,
        callbacks=[*own, *callbacks],
        loggers=loggers,
    )
