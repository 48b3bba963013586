"""Cache keys: the digest of what decides a task's result, and of nothing else.

A key holds the field classes that matter to the task, the fingerprints of its input artifacts, the source of ``rlcore`` and
of the plugins, and the pins. Names, devices, threads and trackers are in none. The home is in all, because what a cached
reference leads to lies there.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.metadata import version
from typing import Any

from flows.home import Home
from flows.references import FoldReference, MarketReference, TrainingReference
from rlcore.config.experiment import ExperimentSpec
from rlcore.config.plugins import plugin_fingerprint
from rlcore.foundation.fingerprints import fingerprint_of
from rlcore.training.resume import code_fingerprint

# Those whose version can change a number.
_PINS = ("exchange-calendars", "gymnasium", "numpy", "pandas", "pyarrow", "scipy", "tianshou", "torch")


@cache
def pins() -> dict[str, str]:
    """Return the versions that a result may depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in _PINS}}


@dataclass(frozen=True, slots=True)
class CacheKeys:
    """The keys of one experiment in one home."""

    home: Home
    experiment: ExperimentSpec
    as_of: date | None

    def market(self) -> str:
        """Of the market section alone: other orders on the same market share its store."""
        market = {key: value for key, value in self.experiment.fields("data").items() if key.startswith("market.")}
        return self._key("market", market, str(self.as_of))

    def seed_sets(self, market: MarketReference) -> str:
        return self._key("seed-sets", self.experiment.digest("data"), market.fingerprint, str(self.as_of))

    def training(self, seed: int, fold: FoldReference, market: MarketReference) -> str:
        """Seed and fold's orders are in it: two trainings that differ in them alone must not run as one."""
        fields = self.experiment.digest("training", "budget")
        orders = [fold.fold, fold.train.fingerprint, fold.validation.fingerprint]
        return self._key("training", fields, seed, market.fingerprint, orders)

    def validation(self, training: TrainingReference, fold: FoldReference) -> str:
        fields = self.experiment.digest("training", "evaluation")
        return self._key("validation", fields, training.path.name, training.fingerprint, fold.validation.fingerprint)

    def backtest(self, trainings: Sequence[TrainingReference], fold: FoldReference) -> str:
        fields = self.experiment.digest("training", "evaluation")
        policies = [[training.seed, training.fingerprint] for training in trainings]
        return self._key("backtest", fields, policies, fold.fold, fold.test.fingerprint)

    def run(self, until: str) -> str:
        """Of a whole run: a killed one goes on when this is the same."""
        return self._key("run", self.experiment.digest(), str(self.as_of), until)

    def _key(self, *parts: Any) -> str:
        source = [code_fingerprint(), plugin_fingerprint(self.experiment.plugins)]
        return fingerprint_of([str(self.home.root), source, pins(), *parts])


def prefect_key(_: Any, parameters: dict[str, Any]) -> str:
    """Return what Prefect files a task's result under: the key that the task was handed."""
    return str(parameters["key"])
