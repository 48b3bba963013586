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
from flows.references import ExecutionFold, Fold, MarketReference, TaskFold, TrainingReference
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

    def training(self, seed: int, fold: Fold) -> str:
        """Seed and fold are in it: two trainings that differ in them alone must not run as one. What judges is not."""
        fields = self.experiment.digest("training", "budget")
        learnt_from = {name: value for name, value in fold.fingerprints.items() if name != "test_fingerprint"}
        return self._key("training", fields, seed, fold.fold, learnt_from, self._data_of(fold, but="task.seeds.test."))

    def validation(self, training: TrainingReference, fold: Fold) -> str:
        validated = fold.fingerprints["validation_fingerprint"]
        return self._key("validation", self._judged, training.path.name, training.fingerprint, validated)

    def test(self, training: TrainingReference, fold: TaskFold) -> str:
        tested = [fold.fingerprints["test_fingerprint"], self._data_of(fold)]
        return self._key("test", self._judged, training.path.name, training.fingerprint, tested)

    def backtest(self, trainings: Sequence[TrainingReference], fold: ExecutionFold) -> str:
        policies = [[training.seed, training.fingerprint] for training in trainings]
        return self._key("backtest", self._judged, policies, fold.fold, fold.fingerprints["test_fingerprint"])

    def run(self, until: str) -> str:
        """Of a whole run: a killed one goes on when this is the same."""
        return self._key("run", self.experiment.digest(), str(self.as_of), until)

    @property
    def _judged(self) -> str:
        return self.experiment.digest("training", "evaluation")

    def _data_of(self, fold: Fold, but: str | None = None) -> dict[str, Any]:
        """Return the fields that say which episodes there are, but for those whose keys begin with ``but``."""
        if not isinstance(fold, TaskFold):
            return {}  # orders are known by their content; a lazily loaded seed set may only know its name and length
        data = self.experiment.fields("data")
        return {key: value for key, value in data.items() if but is None or not key.startswith(but)}

    def _key(self, *parts: Any) -> str:
        source = [code_fingerprint(), plugin_fingerprint(self.experiment.plugins)]
        return fingerprint_of([str(self.home.root), source, pins(), *parts])


def prefect_key(_: Any, parameters: dict[str, Any]) -> str:
    """Return what Prefect files a task's result under: the key that the task was handed."""
    return str(parameters["key"])
