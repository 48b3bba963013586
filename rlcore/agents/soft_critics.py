"""Critics of a soft actor-critic for actions in a Box. (Those for choices are ``ActionValues``.)"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn

from rlcore.agents.networks import Network
from rlcore.agents.reference_reader import ReferenceReader
from rlcore.contracts.interpreters import Reference


class ActionCritic(nn.Module):
    """The value of an action: layers that read the network's features beside the action, so that any network will do.

    Args:
        network: what gives the features.
        action_space: a Box.
        sizes: units of the hidden layers.
    """

    def __init__(self, network: Network, action_space: gymnasium.Space[np.ndarray], sizes: Sequence[int]) -> None:
        super().__init__()
        assert action_space.shape is not None  # a Box has one
        self.network = network
        widths = (network.output_size + int(np.prod(action_space.shape)), *sizes)
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(widths[-1], 1))

    def forward(self, reference: Reference, reader: ReferenceReader, squashed_action: Tensor) -> Tensor:
        """Return (lanes,) for actions (lanes, numbers), each in [−1, 1]."""
        features = reader.features(self.network, reference)
        return self.layers(torch.cat([features, squashed_action], -1))[:, 0]  # type: ignore[no-any-return]  # nn.Module returns Any
