"""The stages of a run: each obtains references from its task, or from the cache, and says so in tracking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from prefect import Task, get_run_logger

from flows.cache_keys import CacheKeys
from flows.progress import tell
from flows.references import (
    BacktestReference,
    FoldReference,
    MarketReference,
    Reference,
    TrainingReference,
    ValidationReference,
    is_intact,
)
from flows.run_names import training_name
from flows.run_records import OwnedRun
from flows.tasks.backtest_agent import backtest_agent
from flows.tasks.fit_agent import fit_agent
from flows.tasks.generate_seed_sets import generate_seed_sets
from flows.tasks.prepare_market_data import prepare_market_data
from flows.tasks.validate_agent import validate_agent
from flows.tracking.flow_tracking import FlowTracking
from flows.workspace import Workspace
from rlcore.config.experiment import ExperimentSpec

Stage = Literal["training", "validation", "backtest"]


@dataclass(slots=True)
class Stages:
    """What a run has obtained so far."""

    workspace: Workspace
    experiment: ExperimentSpec
    run: OwnedRun
    tracking: FlowTracking
    reused: list[str] = field(default_factory=list)  # names of the task runs whose results were there

    def prepare(self) -> tuple[MarketReference, tuple[FoldReference, ...]]:
        """Obtain the market and the orders of every fold."""
        keys = self._keys
        logger = get_run_logger()
        market = self._obtain(prepare_market_data, "prepare-market-data", workspace=self.workspace, key=keys.market())
        arguments = {"workspace": self.workspace, "market": market, "key": keys.seed_sets(market)}
        seed_sets = self._obtain(generate_seed_sets, "generate-seed-sets", **arguments)
        self.run.update(uses=(market.path, seed_sets.path))
        for fold in seed_sets.folds:
            for name, part in fold.splits.items():
                days = f"{part.first_date} to {part.last_date}"
                logger.info("fold %d, %s: %d orders, %s", fold.fold, name, part.num_orders, days)
        return market, seed_sets.folds

    def train(self, market: MarketReference, folds: Sequence[FoldReference]) -> list[TrainingReference]:
        """Obtain one training for each seed and fold, one after another: each takes all the threads it may have."""
        trainings = []
        for seed in self.experiment.seeds:
            for fold in folds:
                key = self._keys.training(seed, fold, market)
                # Before it trains, so that a kill in the middle does not leave its checkpoints to the next collection of garbage.
                self.run.update(uses=(*self.run.record.uses, self.workspace.home.trainings / key))
                self.tracking.start_training(market, fold, seed)
                arguments = {"workspace": self.workspace, "market": market, "fold": fold, "seed": seed, "key": key}
                training = self._obtain(fit_agent, f"fit-agent {training_name(seed, fold.fold)}", **arguments)
                self.tracking.finish_training(training)
                trainings.append(training)
        return trainings

    def validate(
        self, market: MarketReference, folds: Sequence[FoldReference], trainings: Sequence[TrainingReference]
    ) -> list[ValidationReference]:
        """Obtain the validation of every training's policy."""
        validations = []
        for training in trainings:
            fold = folds[training.fold]
            key = self._keys.validation(training, fold)
            arguments = {"workspace": self.workspace, "market": market, "fold": fold, "training": training, "key": key}
            name = f"validate-agent {training_name(training.seed, training.fold)}"
            validation = self._obtain(validate_agent, name, **arguments)
            self.tracking.validated(validation)
            validations.append(validation)
        return validations

    def backtest(
        self, market: MarketReference, folds: Sequence[FoldReference], trainings: Sequence[TrainingReference]
    ) -> list[BacktestReference]:
        """Obtain the backtest of every fold."""
        backtests = []
        for fold in folds:
            of_fold = tuple(training for training in trainings if training.fold == fold.fold)
            key = self._keys.backtest(of_fold, fold)
            arguments = {"workspace": self.workspace, "market": market, "fold": fold, "trainings": of_fold, "key": key}
            backtests.append(self._obtain(backtest_agent, f"backtest-agent fold-{fold.fold}", **arguments))
        return backtests

    @property
    def _keys(self) -> CacheKeys:
        return CacheKeys(self.workspace.home, self.experiment, self.workspace.as_of)

    def _obtain(self, task: Task[..., Any], name: str, **arguments: Any) -> Any:
        """Return the reference that a task gives, or gave before; a cached one whose files have gone is made again."""
        tell(name, 0, 1)
        state = task(**arguments, return_state=True)
        reference: Reference = state.result()
        is_reused = state.name == "Cached" or getattr(reference, "flow_run", self.workspace.run) != self.workspace.run
        if not is_intact(reference):
            reference = task.with_options(refresh_cache=True)(**arguments)
            is_reused = False
        if is_reused:
            self.reused.append(name)
        get_run_logger().info("%s: %s (%s)", name, "re-used" if is_reused else "done", reference.path)
        tell(name, 1, 1, "re-used" if is_reused else "")
        return reference
