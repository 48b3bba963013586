"""Seed sets: finite, ordered, fingerprinted collections of initial states."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.simulator import Seeds
from rlcore.foundation.fingerprints import fingerprint_arrays, fingerprint_of


class SeedSet(ABC, Generic[Seeds]):
    """A seed's identity is its position, 0 … len-1."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, seed_ids: NDArray[np.int64]) -> Seeds:
        """Return the initial states of these seeds as a lane tree, in this order."""

    @property
    @abstractmethod
    def fingerprint(self) -> str: ...

    def describe(self, seed_ids: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Return columns for the episode table that say what each seed was (instrument, date, …)."""
        return {}


class SequenceSeedSet(SeedSet[NDArray[np.object_]]):
    """Any Python sequence (``__len__``, ``__getitem__``) as a seed set for one-episode simulators.

    Items are loaded when their episodes start and not before: a collection that reads a file for each item never holds more than
    the episodes in progress. What an item raises is its seed's failure, and no other's. For worker processes the collection is
    pickled, and each loads the items that it needs.
    """

    def __init__(self, initial_states: Sequence[Any], name: str = "") -> None:
        self._initial_states = initial_states
        self._name = name

    def __len__(self) -> int:
        return len(self._initial_states)

    def take(self, seed_ids: NDArray[np.int64]) -> NDArray[np.object_]:
        seeds = np.empty(len(seed_ids), object)
        for lane, seed_id in enumerate(seed_ids):
            try:
                seeds[lane] = self._initial_states[int(seed_id)]
            except Exception as error:  # a user's collection, reading a file for each item, say
                error.add_note(f"raised by item {seed_id} of the seed set's collection {self._name}".rstrip())
                raise
        return seeds

    @property
    def fingerprint(self) -> str:
        """The digest of an array's content, or of the states' ``repr`` (a lazily loaded collection: of its name and length)."""
        if isinstance(self._initial_states, np.ndarray) and not self._initial_states.dtype.hasobject:
            return fingerprint_of([self._name, fingerprint_arrays({"initial_states": self._initial_states})])
        if isinstance(self._initial_states, (list, tuple, range)):
            return fingerprint_of([self._name, [repr(state) for state in self._initial_states]])
        return fingerprint_of([self._name, len(self)])
