"""Seed sets: finite, ordered, fingerprinted collections of initial states."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.simulator import Seeds
from rlcore.foundation.content_fingerprints import ContentReader
from rlcore.foundation.errors import ConfigError
from rlcore.foundation.fingerprints import fingerprint_arrays, fingerprint_of

logger = logging.getLogger(__name__)


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
    pickled, and each loads the items that it needs. A pandas table is a sequence of its rows, whatever its index.

    Args:
        initial_states: of any kind.
        name: tells sets apart whose states cannot be told apart (see ``fingerprint``).

    Raises:
        ConfigError: for what is no sequence: a generator, a set, a dict, one text.
    """

    def __init__(self, initial_states: Sequence[Any], name: str = "") -> None:
        _require_sequence(initial_states)
        self._initial_states = initial_states
        self._name = name
        self._has_warned = False

    def __len__(self) -> int:
        return len(self._initial_states)

    def take(self, seed_ids: NDArray[np.int64]) -> NDArray[np.object_]:
        # pandas counts rows by "iloc" only: brackets look up labels, or columns.
        by_position = getattr(self._initial_states, "iloc", self._initial_states)
        seeds = np.empty(len(seed_ids), object)
        for lane, seed_id in enumerate(seed_ids):
            try:
                seeds[lane] = by_position[int(seed_id)]
            except Exception as error:  # a user's collection, reading a file for each item, say
                error.add_note(f"raised by item {seed_id} of the seed set's collection {self._name}".rstrip())
                raise
        return seeds

    @property
    def fingerprint(self) -> str:
        """The digest of name and states: of what these hold, to the bit (see ``ContentReader``).

        A collection of a class of its own may load its items one by one: it counts by its name and length alone, so that its
        name should change with its content.
        """
        states = self._initial_states
        if isinstance(states, np.ndarray) and not states.dtype.hasobject:
            return fingerprint_of([self._name, fingerprint_arrays({"initial_states": states})])
        if isinstance(states, range):
            return fingerprint_of([self._name, repr(states)])
        if isinstance(states, list | tuple | np.ndarray):
            return fingerprint_of([self._name, self._read(states)])
        if hasattr(states, "iloc"):
            return fingerprint_of([self._name, self._read([states])])
        return fingerprint_of([self._name, len(self)])

    def _read(self, states: Sequence[Any] | NDArray[np.object_]) -> str:
        reader = ContentReader()
        fingerprint = reader.fingerprint(states)
        if reader.unreadable and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "initial states of seed set %r hold objects that show nothing of their content (%s): they count by type and "
                "position alone when a training is continued; give the seed set a name that changes with its content",
                self._name,
                ", ".join(sorted(reader.unreadable)),
            )
        return fingerprint


def _require_sequence(states: Any) -> None:
    has_methods = hasattr(states, "__len__") and hasattr(states, "__getitem__")
    is_single = isinstance(states, str | bytes) or (isinstance(states, np.ndarray) and states.ndim == 0)
    if not has_methods or is_single or isinstance(states, Mapping):
        raise ConfigError(
            "initial states must be a sequence, with __len__ and __getitem__ by number, "
            f"was of type {type(states).__name__}: put them into a list"
        )
