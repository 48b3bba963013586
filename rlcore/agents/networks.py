"""Networks: observations → features. Heads turn features into actions and values (``models``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Literal

import gymnasium
import torch
from torch import Tensor, nn

from rlcore.agents.observation_features import flatten_observation, num_features
from rlcore.contracts.interpreters import Observation, Reference, SharesHistory


class Network(nn.Module, ABC):
    """Dense observations → features. It holds parameters and statistics, and nothing of the task."""

    def __init__(self, output_size: int, *, has_statistics: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.has_statistics = has_statistics  # absorb has something to do

    @property
    def device(self) -> torch.device:
        """Where the parameters live."""
        return next(self.parameters()).device

    @abstractmethod
    def forward(self, observation: Observation) -> Tensor:
        """Return (lanes, output_size)."""

    def absorb(self, observation: Observation) -> None:
        """Move statistics of observations; called once for each iteration's observations, after the update. Default: none."""


class HistoryNetwork(Network):
    """A network with a causal encoder, which can encode a history once and read it at many ticks.

    Both methods equal ``forward`` of the expanded references within 1e-5. They read everything but the shared history from the
    reference, under the names of the observation; ``needs_observation`` is True where that is not enough.
    """

    needs_observation: bool = False

    @abstractmethod
    def forward_shared(self, reference: Reference, shared: SharesHistory) -> Tensor:
        """Return (lanes, output_size) with gradients; each distinct history is encoded once."""

    @abstractmethod
    def decide_shared(self, reference: Reference, shared: SharesHistory) -> Tensor:
        """Return (lanes, output_size) without gradients, to the bit the same whatever else is asked for beside it.

        Encodings may be remembered until ``forget``.
        """

    @abstractmethod
    def forget(self) -> None:
        """Drop remembered encodings: the parameters are about to change."""


class MLP(Network):
    """Fully connected layers over the flattened observation."""

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        sizes: Sequence[int],
        activation: Literal["relu", "tanh"],
        observation_scaling: Literal["none", "running"],
    ) -> None:
        super().__init__(sizes[-1], has_statistics=observation_scaling == "running")
        self._space = observation_space
        width = num_features(observation_space)
        self.scaling = RunningScaling(width) if observation_scaling == "running" else None
        layers: list[nn.Module] = []
        for before, after in zip((width, *sizes), sizes, strict=False):
            layers += [_orthogonal(nn.Linear(before, after)), nn.ReLU() if activation == "relu" else nn.Tanh()]
        self.layers = nn.Sequential(*layers)

    def forward(self, observation: Observation) -> Tensor:
        features = self._flatten(observation)
        return self.layers(features if self.scaling is None else self.scaling(features))  # type: ignore[no-any-return]  # nn.Module

    def absorb(self, observation: Observation) -> None:
        if self.scaling is not None:
            self.scaling.absorb(self._flatten(observation))

    def _flatten(self, observation: Observation) -> Tensor:
        return torch.from_numpy(flatten_observation(self._space, observation)).to(self.device)


class RunningScaling(nn.Module):
    """(x − mean) / deviation over everything absorbed so far (0 and 1 before the first), clipped to ±10."""

    count: Tensor
    mean: Tensor
    variance: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(width, dtype=torch.float64))
        self.register_buffer("variance", torch.ones(width, dtype=torch.float64))

    def forward(self, features: Tensor) -> Tensor:
        scale = (self.variance + 1e-8).rsqrt().float()
        return ((features - self.mean.float()) * scale).clamp(-10.0, 10.0)

    @torch.no_grad()
    def absorb(self, features: Tensor) -> None:
        """Merge the moments of more rows (Chan et al. 1983)."""
        rows = features.double()
        added, mean, variance = len(rows), rows.mean(0), rows.var(0, correction=0)
        total = self.count + added
        shift = mean - self.mean
        spread = self.variance * self.count + variance * added + shift.square() * self.count * added / total
        self.mean.add_(shift * added / total)
        self.variance.copy_(spread / total)
        self.count.copy_(total)


def _orthogonal(layer: nn.Linear) -> nn.Linear:
    # Engstrom et al. 2020 (arXiv:2005.12729): on-policy learning is visibly worse without it.
    nn.init.orthogonal_(layer.weight, gain=2**0.5)
    nn.init.zeros_(layer.bias)
    return layer
