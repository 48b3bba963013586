"""What a fold leads to: the parts of the environment, and the seed sets that train, choose and judge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from flows.references import ExecutionFold, Fold
from flows.seed_set_files import load_split
from rlcore.config.build import build_parts, build_task
from rlcore.config.execution_experiment import ExecutionExperiment
from rlcore.config.experiment import ExperimentSpec
from rlcore.config.task_experiment import TaskExperiment
from rlcore.config.task_specs import TaskSeeds
from rlcore.contracts.seeds import SeedSet
from rlcore.environment.parts import EnvironmentParts
from rlcore.execution.orders import OrderSet
from rlcore.execution.splitting import OrderSplit
from rlcore.market.store import MarketStore
from rlcore.training.vessel import FirstSeeds


def open_fold(experiment: ExperimentSpec, fold: Fold) -> tuple[EnvironmentParts, OrderSplit | TaskSeeds]:
    """Return parts and seed sets; in a quick trial (``training.fast_dev_run``) the first so many seeds of each set."""
    if isinstance(fold, ExecutionFold):
        assert isinstance(experiment, ExecutionExperiment)  # such folds are made of such experiments
        return build_parts(experiment, MarketStore.open(fold.market.path)), open_orders(experiment, fold)
    assert isinstance(experiment, TaskExperiment)
    task = build_task(experiment)
    count, seeds = experiment.training.fast_dev_run, task.seeds
    if count is not None:
        validation = (
            {name: FirstSeeds(one, count) for name, one in seeds.validation.items()}
            if isinstance(seeds.validation, Mapping)
            else FirstSeeds(seeds.validation, count)
        )
        seeds = TaskSeeds(FirstSeeds(seeds.train, count), validation, FirstSeeds(seeds.test, count))
    return task.parts, seeds


def open_orders(experiment: ExecutionExperiment, fold: ExecutionFold) -> OrderSplit:
    """Return the orders of a fold; in a quick trial the first so many of each set."""
    split = load_split(fold.market, fold.orders)
    count = experiment.training.fast_dev_run

    def first(orders: OrderSet) -> OrderSet:
        return orders if count is None else orders.subset(np.arange(min(count, len(orders))))

    return OrderSplit(first(split.train), first(split.validation), first(split.test))


def validation_sets(seeds: OrderSplit | TaskSeeds) -> dict[str, SeedSet[Any]]:
    """Return the validation sets by name; where there is one, it has none ("")."""
    return dict(seeds.validation) if isinstance(seeds.validation, Mapping) else {"": seeds.validation}
