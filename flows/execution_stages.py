"""The stages that only order execution has: market data and orders before the training, the backtest after it."""

from __future__ import annotations

from collections.abc import Sequence

from prefect import get_run_logger

from flows.references import BacktestReference, ExecutionFold, TrainingReference
from flows.stages import Stages
from flows.tasks.backtest_agent import backtest_agent
from flows.tasks.generate_seed_sets import generate_seed_sets
from flows.tasks.prepare_market_data import prepare_market_data


def prepare(stages: Stages) -> list[ExecutionFold]:
    """Obtain the market and the orders of every fold."""
    workspace, keys, logger = stages.workspace, stages.keys, get_run_logger()
    market = stages.obtain(prepare_market_data, "prepare-market-data", workspace=workspace, key=keys.market())
    arguments = {"workspace": workspace, "market": market, "key": keys.seed_sets(market)}
    seed_sets = stages.obtain(generate_seed_sets, "generate-seed-sets", **arguments)
    stages.run.update(uses=(market.path, seed_sets.path))
    for fold in seed_sets.folds:
        for name, part in fold.splits.items():
            days = f"{part.first_date} to {part.last_date}"
            logger.info("fold %d, %s: %d orders, %s", fold.fold, name, part.num_orders, days)
    return [ExecutionFold(market=market, orders=fold) for fold in seed_sets.folds]


def backtest(stages: Stages, folds: Sequence[ExecutionFold], trainings: Sequence[TrainingReference]) -> list[BacktestReference]:
    """Obtain the backtest of every fold."""
    backtests = []
    for fold in folds:
        of_fold = tuple(training for training in trainings if training.fold == fold.fold)
        key = stages.keys.backtest(of_fold, fold)
        arguments = {"workspace": stages.workspace, "fold": fold, "trainings": of_fold, "key": key}
        backtests.append(stages.obtain(backtest_agent, f"backtest-agent fold-{fold.fold}", **arguments))
    return backtests
