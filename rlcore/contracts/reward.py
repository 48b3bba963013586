"""Rewards: named, weighted terms. A term returns its value; nobody logs from inside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.simulator import Outcome
from rlcore.contracts.status import EpisodeStatus, LaneStatus
from rlcore.foundation.errors import ConfigError, ContractError


class Reward(ABC, Generic[Outcome]):
    """The reward of one step of one episode."""

    @abstractmethod
    def reward(self, outcome: Outcome, status: EpisodeStatus) -> float: ...


class LaneReward(ABC, Generic[Outcome]):
    """The reward of one step of every lane."""

    @abstractmethod
    def reward(self, outcome: Outcome, status: LaneStatus) -> NDArray[np.float64]:
        """Return the unweighted term, shape (lanes,), finite numbers."""

    @property
    def identity(self) -> str:
        """What a checkpoint calls this part: of another, it does not continue a training."""
        return type(self).__qualname__


@dataclass(frozen=True, slots=True)
class WeightedReward(Generic[Outcome]):
    """reward = Σ weight × term.

    Args:
        terms: name → (term, weight); the names become metric keys. A term may be a combination itself, a ``WeightedReward`` or
            such a mapping: its terms take part one by one, with the product of the weights, as ``<its name>.<term's name>``.
    """

    terms: LaneTerms[Outcome]
    _leaves: Mapping[str, tuple[LaneReward[Outcome], float]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_leaves", flat_terms(self.terms))

    def components(self, outcome: Outcome, status: LaneStatus) -> dict[str, NDArray[np.float64]]:
        """Return name → unweighted value, each (lanes,).

        Raises:
            ContractError: for a term that is not one number for each lane.
        """
        shape = status.step.shape
        return {name: _numbers(term.reward(outcome, status), shape, name) for name, (term, _) in self._leaves.items()}

    def total(self, components: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return the weighted sum of components, over arrays of any shape."""
        weighted = [weight * components[name] for name, (_, weight) in self._leaves.items()]
        total = weighted[0]
        for term in weighted[1:]:
            total = total + term
        return total

    @property
    def identities(self) -> dict[str, str]:
        """Name → which term it is."""
        return {name: term.identity for name, (term, _) in self._leaves.items()}

    @property
    def weights(self) -> dict[str, float]:
        return {name: weight for name, (_, weight) in self._leaves.items()}


def _numbers(value: Any, shape: tuple[int, ...], name: str) -> NDArray[np.float64]:
    array = np.asarray(value)
    if array.shape != shape or array.dtype.kind not in "fiub":
        raise ContractError(
            f"reward term {name!r} must be numbers of shape (lanes,) = {shape}, was of type {array.dtype} and shape {array.shape}"
        )
    return array if array.dtype == np.float64 else array.astype(np.float64)


# Tables of named, weighted terms, which may hold further such tables.
Terms: TypeAlias = "Mapping[str, tuple[Reward[Any] | Terms, float]]"  # of one episode
LaneTerms: TypeAlias = "Mapping[str, tuple[LaneReward[Outcome] | WeightedReward[Outcome] | LaneTerms[Outcome], float]]"


def flat_terms(terms: Mapping[str, tuple[Any, float]], prefix: str = "") -> dict[str, tuple[Any, float]]:
    """Return nested terms as one level: "<outer>.<inner>" → (term, product of the weights).

    Args:
        terms: see ``WeightedReward``; of either kind of reward.
        prefix: what the names are to begin with.

    Raises:
        ConfigError: for a table without terms, a weight that is not finite, or a name that stands twice.
    """
    where = f" {prefix.removesuffix('.')!r}" if prefix else ""
    if not terms:
        raise ConfigError(f"reward{where} must have at least one named term, had none")
    flat: dict[str, tuple[Any, float]] = {}
    for name, entry in terms.items():
        full_name = f"{prefix}{name}"
        if not (isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[1], int | float)):
            raise ConfigError(f"reward term {full_name!r} must be (term, weight), was {entry!r}")
        term, weight = entry
        if not np.isfinite(weight):
            raise ConfigError(f"weight of reward term {full_name!r} must be finite, was {weight}")
        inner = term.terms if isinstance(term, WeightedReward) else term
        if isinstance(inner, Mapping):
            leaves = {leaf: (one, weight * own) for leaf, (one, own) in flat_terms(inner, f"{full_name}.").items()}
        else:
            leaves = {full_name: (term, weight)}
        twice = flat.keys() & leaves.keys()
        if twice:
            raise ConfigError(f"names of reward terms must differ, {min(twice)!r} stands twice: rename one")
        flat |= leaves
    return flat
