"""Rewards: named, weighted terms. A term returns its value; nobody logs from inside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic

import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.simulator import Outcome
from rlcore.contracts.status import EpisodeStatus, LaneStatus
from rlcore.foundation.errors import ConfigError


class Reward(ABC, Generic[Outcome]):
    """The reward of one step of one episode."""

    @abstractmethod
    def reward(self, outcome: Outcome, status: EpisodeStatus) -> float: ...


class LaneReward(ABC, Generic[Outcome]):
    """The reward of one step of every lane."""

    @abstractmethod
    def reward(self, outcome: Outcome, status: LaneStatus) -> NDArray[np.float64]:
        """Return the unweighted term, shape (lanes,), float64, finite."""


@dataclass(frozen=True, slots=True)
class WeightedReward(Generic[Outcome]):
    """reward = Σ weight × term. ``terms``: name → (term, weight); the names become metric keys."""

    terms: Mapping[str, tuple[LaneReward[Outcome], float]]

    def __post_init__(self) -> None:
        if not self.terms:
            raise ConfigError("reward must have at least one named term, had none")
        for name, (_, weight) in self.terms.items():
            if not np.isfinite(weight):
                raise ConfigError(f"weight of reward term {name!r} must be finite, was {weight}")

    def components(self, outcome: Outcome, status: LaneStatus) -> dict[str, NDArray[np.float64]]:
        """Return name → unweighted value, each (lanes,)."""
        return {name: term.reward(outcome, status) for name, (term, _) in self.terms.items()}

    def total(self, components: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return the weighted sum of components, over arrays of any shape."""
        weighted = [weight * components[name] for name, (_, weight) in self.terms.items()]
        total = weighted[0]
        for term in weighted[1:]:
            total = total + term
        return total

    @property
    def weights(self) -> dict[str, float]:
        return {name: weight for name, (_, weight) in self.terms.items()}
