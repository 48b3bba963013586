"""Parts of one's own: a reward term and a network. ``experiment.yaml`` names this file under ``plugins``."""

from __future__ import annotations

from typing import Any, Literal

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlcore.agents.networks import Network
from rlcore.agents.observation_features import flatten_observation, num_features
from rlcore.agents.specs import NetworkSpec
from rlcore.config.specs import RewardSpec, TaskShape
from rlcore.contracts.reward import LaneReward
from rlcore.contracts.status import LaneStatus
from rlcore.execution.states import StepOutcome
from rlcore.foundation.registry import Registry


class Impatience(LaneReward[StepOutcome]):
    """What is still unfilled costs at every step: r = −remaining / quantity."""

    def reward(self, outcome: StepOutcome, status: LaneStatus) -> NDArray[np.float64]:
        # One number for each lane; nothing is logged from here, the term's name is the metric's name.
        return -outcome.remaining / outcome.order.quantity


class ImpatienceSpec(RewardSpec):
    """What is still unfilled costs at every step."""

    kind: Literal["impatience"]

    def build(self, shape: TaskShape) -> Impatience:
        return Impatience()


class GatedNetwork(Network):
    """One hidden layer, of which a second one decides how much passes."""

    def __init__(self, observation_space: gymnasium.Space[Any], width: int) -> None:
        super().__init__(output_size=width)
        self._space = observation_space
        self.content = nn.Linear(num_features(observation_space), width)
        self.gate = nn.Linear(num_features(observation_space), width)

    def forward(self, observation: Any) -> Tensor:
        features = torch.from_numpy(flatten_observation(self._space, observation)).to(self.device)
        return torch.tanh(self.content(features)) * torch.sigmoid(self.gate(features))


class GatedNetworkSpec(NetworkSpec):
    """One gated hidden layer."""

    kind: Literal["gated"]
    width: int
    """Units of the layer."""

    def build(self, observation_space: gymnasium.Space[Any]) -> GatedNetwork:
        return GatedNetwork(observation_space, self.width)


def register(registry: Registry) -> None:
    """Called once at every load of an experiment that names this file."""
    registry.register("reward", "impatience", ImpatienceSpec)
    registry.register("network", "gated", GatedNetworkSpec)
