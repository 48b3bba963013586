"""References → features: by expanding them, or by reading shared histories."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor

from rlcore.agents.networks import HistoryNetwork, Network
from rlcore.contracts.interpreters import LaneStateInterpreter, Observation, Reference, SharesHistory


class ReferenceReader(ABC):
    """Reads references for a network. The interpreter stays out of the torch modules, so that copying these copies no market."""

    @abstractmethod
    def features(self, network: Network, reference: Reference) -> Tensor:
        """Return (lanes, output_size), with gradients."""

    @abstractmethod
    def decision_features(self, network: Network, reference: Reference) -> Tensor:
        """Return (lanes, output_size) inside ``torch.inference_mode``."""

    @abstractmethod
    def expand(self, reference: Reference) -> Observation:
        """Return the observations that the references stand for."""

    @abstractmethod
    def forget(self, network: Network) -> None:
        """Drop what was remembered of the network's parameters: they are about to change."""


class ExpandingReader(ReferenceReader):
    """Expands every reference to its dense observation."""

    def __init__(self, state_interpreter: LaneStateInterpreter[Any]) -> None:
        self._interpreter = state_interpreter

    def features(self, network: Network, reference: Reference) -> Tensor:
        return network(self._interpreter.expand(reference))  # type: ignore[no-any-return]  # nn.Module returns Any

    def decision_features(self, network: Network, reference: Reference) -> Tensor:
        return self.features(network, reference)

    def expand(self, reference: Reference) -> Observation:
        return self._interpreter.expand(reference)

    def forget(self, network: Network) -> None:
        """Nothing is remembered."""


class DenseReader(ReferenceReader):
    """Takes observations themselves for references: for whoever has no interpreter."""

    def features(self, network: Network, reference: Reference) -> Tensor:
        return network(reference)  # type: ignore[no-any-return]  # nn.Module returns Any

    def decision_features(self, network: Network, reference: Reference) -> Tensor:
        return self.features(network, reference)

    def expand(self, reference: Reference) -> Observation:
        return reference

    def forget(self, network: Network) -> None:
        """Nothing is remembered."""


class SharedHistoryReader(ReferenceReader):
    """Lets the network encode each distinct history once."""

    def __init__(self, state_interpreter: LaneStateInterpreter[Any], shared: SharesHistory) -> None:
        self._interpreter = state_interpreter
        self._shared = shared

    def features(self, network: Network, reference: Reference) -> Tensor:
        return _with_history(network).forward_shared(reference, self._shared)

    def decision_features(self, network: Network, reference: Reference) -> Tensor:
        return _with_history(network).decide_shared(reference, self._shared)

    def expand(self, reference: Reference) -> Observation:
        return self._interpreter.expand(reference)

    def forget(self, network: Network) -> None:
        _with_history(network).forget()


def reader_for(network: Network, state_interpreter: LaneStateInterpreter[Any]) -> ReferenceReader:
    """Return the cheapest reader that network and interpreter allow."""
    can_share = isinstance(network, HistoryNetwork) and not network.needs_observation
    if can_share and isinstance(state_interpreter, SharesHistory):
        return SharedHistoryReader(state_interpreter, state_interpreter)
    return ExpandingReader(state_interpreter)


def _with_history(network: Network) -> HistoryNetwork:
    if not isinstance(network, HistoryNetwork):
        raise TypeError(f"a network that reads shared histories must be a HistoryNetwork, was {type(network).__name__}")
    return network
