"""What tasks hand to each other: where something lies, and the fingerprint of what lies there. Never the thing itself.

Prefect keeps these as JSON; a reference whose files have gone is found out by ``is_intact``.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict

SplitName = Literal["train", "validation", "test"]
SPLITS: tuple[SplitName, ...] = get_args(SplitName)


class Reference(BaseModel):
    """A file or folder and the fingerprint of its content."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Path
    fingerprint: str

    @property
    def files(self) -> tuple[Path, ...]:
        """What must be there for the reference to be of use."""
        return (self.path,)


class MarketReference(Reference):
    """A market store."""


class SeedSetReference(Reference):
    """The orders of one split of one fold, as a file."""

    num_orders: int
    first_date: date
    last_date: date


class FoldReference(BaseModel):
    """The splits of one fold."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fold: int
    train: SeedSetReference
    validation: SeedSetReference
    test: SeedSetReference

    @property
    def splits(self) -> dict[SplitName, SeedSetReference]:
        return {"train": self.train, "validation": self.validation, "test": self.test}


class ExecutionFold(BaseModel):
    """What a training in order execution stands on: a market, and the orders of one fold on it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    market: MarketReference
    orders: FoldReference

    @property
    def fold(self) -> int:
        return self.orders.fold

    @property
    def fingerprints(self) -> dict[str, str]:
        """Return what the contents go by in tracking."""
        splits = {f"{name}_fingerprint": part.fingerprint for name, part in self.orders.splits.items()}
        return {"market_fingerprint": self.market.fingerprint, **splits}


class TaskFold(BaseModel):
    """What a training on a task of one's own stands on. The experiment says it all, and there is one fold."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fold: int = 0
    fingerprints: dict[str, str]
    """Of the seed sets: ``train_fingerprint`` and so on."""


Fold = ExecutionFold | TaskFold


class SeedSetsReference(Reference):
    """The folder of the seed sets of all folds."""

    folds: tuple[FoldReference, ...]

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(part.path for fold in self.folds for part in fold.splits.values())


class TrainingReference(Reference):
    """A finished training: a folder with checkpoints, history and the policy; the fingerprint is the policy's."""

    seed: int
    fold: int
    flow_run: str
    """The run that trained it; another run that refers to it has re-used it."""
    is_resume_exact: bool = True
    """False where a part of it was trained with other versions, threads or on another device than the rest."""

    @property
    def policy(self) -> Path:
        """What acts without store, vessel or trainer."""
        return self.path / "policy.pt"

    @property
    def best_checkpoint(self) -> Path:
        """The state of the best validation."""
        return self.path / "checkpoints" / "best.ckpt"

    @property
    def latest_checkpoint(self) -> Path:
        """The state at the end."""
        return self.path / "checkpoints" / "latest.ckpt"

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.policy, self.best_checkpoint)


class ValidationReference(Reference):
    """The episode table of the validation seeds, as parquet, and its figures."""

    seed: int
    fold: int
    figures: dict[str, float]


class TestReference(Reference):
    """The episode table of the test seeds of a task of one's own, as parquet, and its figures."""

    seed: int
    fold: int
    figures: dict[str, float]


class BacktestReference(Reference):
    """The backtest of one fold: a folder with the tables of all trainings and baselines."""

    fold: int

    @property
    def files(self) -> tuple[Path, ...]:
        return (self.path / "orders.parquet", self.path / "schedule.parquet", self.path / "facts.json")


def is_intact(reference: Reference) -> bool:
    """Return whether what the reference leads to is still there."""
    return all(path.exists() for path in reference.files)
