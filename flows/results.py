"""The results of a run over all its trainings: figures of every seed, their spread, and the backtest of all folds together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flows.figures import telling
from flows.pooled_backtest import pool_folds
from flows.references import BacktestReference, TrainingReference, ValidationReference
from flows.seed_spread import agent_figures, baseline_figures, mean_over_folds, spread_over_seeds
from flows.tracking.training_reporter import last_figures
from rlcore.execution.backtest import BacktestResult


@dataclass(frozen=True, slots=True)
class Results:
    """What a run gives."""

    figures: dict[str, float]
    """Of the run as a whole: the spread over seeds, and the baselines."""
    of_training: dict[tuple[int, int], dict[str, float]]
    """(seed, fold) → backtest of that training's policy on its own fold."""
    backtest: BacktestResult | None
    """Of all folds together; None where the run was to end before."""


def gather(
    trainings: Sequence[TrainingReference], validations: Sequence[ValidationReference], backtests: Sequence[BacktestReference]
) -> Results:
    """Put together what the tasks left. A seed's figure over several folds is their mean; a backtest's, that over all orders."""
    seeds = list(dict.fromkeys(training.seed for training in trainings))
    of_seed: dict[int, dict[str, float]] = {}
    for seed in seeds:
        trained = [last_figures(training.path, telling) for training in trainings if training.seed == seed]
        validated = [prefixed("best_validation", one.figures) for one in validations if one.seed == seed]
        of_seed[seed] = mean_over_folds(trained) | mean_over_folds(validated)
    if not backtests:
        return Results(spread_over_seeds(list(of_seed.values())), {}, None)
    folds = [BacktestResult.load(one.path) for one in backtests]
    pooled = pool_folds(folds)
    for seed in seeds:
        of_seed[seed] |= agent_figures(pooled.frame, seed)
    return Results(
        figures=spread_over_seeds(list(of_seed.values())) | baseline_figures(pooled.frame),
        of_training={
            (training.seed, training.fold): agent_figures(folds[training.fold].frame, training.seed) for training in trainings
        },
        backtest=pooled,
    )


def prefixed(prefix: str, figures: Mapping[str, float]) -> dict[str, float]:
    """Return the figures under ``<prefix>/``."""
    return {f"{prefix}/{name}": value for name, value in figures.items()}
