"""What tianshou's algorithms hold as their policy."""

from __future__ import annotations

from typing import Any

import gymnasium
from tianshou.algorithm.algorithm_base import Policy
from torch import nn

from rlcore.agents.reference_reader import ReferenceReader
from rlcore.contracts.interpreters import Observation, Reference


class HeldModel(Policy):
    """A model and its reader, as tianshou's algorithms hold what they train. Decisions are made by ``policies``."""

    def __init__(self, model: nn.Module, reader: ReferenceReader, action_space: gymnasium.Space[Any]) -> None:
        super().__init__(action_space=action_space, action_scaling=False, action_bound_method=None)
        self.model = model
        self._reader = reader

    @property
    def actor(self) -> nn.Module:
        """The name under which tianshou's actor-critic algorithms look for parameters to train."""
        return self.model

    def forward(self, batch: Reference, state: Any = None, *, model: nn.Module | None = None) -> Any:
        """Return what the model, or its lagged copy, makes of references."""
        return (model or self.model)(batch, self._reader)

    def expand(self, reference: Reference) -> Observation:
        """Return the observations that the references stand for."""
        return self._reader.expand(reference)

    @staticmethod
    def _compile() -> None:
        """Compile nothing: tianshou's return arithmetic takes seconds to compile in every process, and ours is used instead."""
