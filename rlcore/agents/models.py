"""A network with its heads: what is trained, saved and loaded."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium import spaces
from torch import Tensor, nn

from rlcore.agents.action_heads import head_for
from rlcore.agents.networks import Network
from rlcore.agents.reference_reader import ReferenceReader
from rlcore.contracts.interpreters import Reference
from rlcore.foundation.errors import ConfigError


class ActorCritic(nn.Module):
    """One pass of a shared network, a distribution of actions and a value."""

    def __init__(self, network: Network, action_space: gymnasium.Space[Any]) -> None:
        super().__init__()
        self.network = network
        self.actor = head_for(network.output_size, action_space)
        self.critic = nn.Linear(network.output_size, 1)
        nn.init.orthogonal_(self.critic.weight)
        nn.init.zeros_(self.critic.bias)

    def forward(self, reference: Reference, reader: ReferenceReader) -> tuple[Tensor, Tensor]:
        """Return the parameters of the actor's distributions, and values (lanes,)."""
        return self.heads(reader.features(self.network, reference))

    def heads(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return the same from features."""
        return self.actor(features), self.critic(features)[:, 0]


class ActionValues(nn.Module):
    """The value of each action. They are linear in the features: a softmax would forbid most values."""

    def __init__(self, network: Network, action_space: gymnasium.Space[Any]) -> None:
        super().__init__()
        if not isinstance(action_space, spaces.Discrete):
            raise ConfigError(
                f"action space of a DQN must be Discrete, was {action_space}: take PPO, or an action interpreter with choices"
            )
        self.network = network
        self.start = int(action_space.start)
        self.values = nn.Linear(network.output_size, int(action_space.n))

    def forward(self, reference: Reference, reader: ReferenceReader) -> Tensor:
        """Return (lanes, actions)."""
        return self.values(reader.features(self.network, reference))  # type: ignore[no-any-return]  # nn.Module returns Any
