"""A network with its heads: what is trained, saved and loaded."""

from __future__ import annotations

from typing import Any, Literal

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
    """The value of each action. No softmax anywhere: it would forbid most values.

    Args:
        network: what gives the features.
        action_space: Discrete.
        head: linear in the features, or in two streams (``DuelingValues``).
    """

    def __init__(
        self, network: Network, action_space: gymnasium.Space[Any], head: Literal["linear", "dueling"] = "linear"
    ) -> None:
        super().__init__()
        if not isinstance(action_space, spaces.Discrete):
            raise ConfigError(f"action space of a DQN must be Discrete, was {action_space}: take PPO or A2C, or offer choices")
        self.network = network
        self.start = int(action_space.start)
        self.head = head
        size, count = network.output_size, int(action_space.n)
        self.values: nn.Module = nn.Linear(size, count) if head == "linear" else DuelingValues(size, count)

    def forward(self, reference: Reference, reader: ReferenceReader) -> Tensor:
        """Return (lanes, actions)."""
        return self.values(reader.features(self.network, reference))  # type: ignore[no-any-return]  # nn.Module returns Any


class DuelingValues(nn.Module):
    """Q(s, a) = V(s) + A(s, a) − mean over a′ of A(s, a′) (Wang et al. 2016, arXiv:1511.06581, eq. 9).

    Each stream has a hidden layer. The mean is over all actions, impossible ones too: it is the same for all actions of a
    state, so it never changes which is the best, and the value of an action does not depend on what else is possible.
    """

    def __init__(self, input_size: int, num_actions: int) -> None:
        super().__init__()
        self.value, self.advantage = (_stream(input_size, size) for size in (1, num_actions))

    def forward(self, features: Tensor) -> Tensor:
        """Return (lanes, actions)."""
        advantage = self.advantage(features)
        return self.value(features) + advantage - advantage.mean(-1, keepdim=True)  # type: ignore[no-any-return]  # as above


def _stream(input_size: int, output_size: int) -> nn.Module:
    return nn.Sequential(nn.Linear(input_size, input_size), nn.ReLU(), nn.Linear(input_size, output_size))
