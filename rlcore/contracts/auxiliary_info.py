"""Information beside observation and reward: for looking at, for other people's programs, for several agents at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic

from numpy.typing import NDArray

from rlcore.contracts.simulator import State, View
from rlcore.contracts.status import EpisodeStatus, LaneStatus


class AuxiliaryInfo(ABC, Generic[State]):
    """One episode's state after a step → named values. No policy sees them."""

    @abstractmethod
    def collect(self, state: State, status: EpisodeStatus) -> Mapping[str, Any]:
        """Return the same names at every step. Numbers are averaged over the episode in the episode table, NaN aside."""


class LaneAuxiliaryInfo(ABC, Generic[View]):
    """Views of all lanes after a step → named arrays. No policy sees them."""

    @abstractmethod
    def collect(self, view: View, status: LaneStatus) -> dict[str, NDArray[Any]]:
        """Return the same names at every step, each (lanes, …). The episode table shows the means of numbers, NaN aside."""
