"""The actor of a soft actor-critic, alone: it shares nothing with the critics, and is all that a saved policy needs."""

from __future__ import annotations

import math
from typing import Any, Literal

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor, nn

from rlcore.agents.action_heads import CategoricalHead, bounds_of, refuse_mask
from rlcore.agents.finite_checks import require_finite_outputs
from rlcore.agents.networks import Network
from rlcore.agents.reference_reader import ReferenceReader
from rlcore.contracts.interpreters import Reference
from rlcore.contracts.policy import Decision, Policy
from rlcore.foundation.errors import ConfigError
from rlcore.foundation.random_streams import LaneRandomness

_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
_LOG_TWO = math.log(2.0)
# As in the authors' code.
_LEAST_LOG_DEVIATION, _GREATEST_LOG_DEVIATION = -20.0, 2.0


class SquashedGaussianHead(nn.Module):
    """A normal variable z for each number of a bounded Box, squashed to tanh z in (−1, 1) and carried into the bounds.

    Mean and deviation both depend on the observation. Densities are those of the squashed number, before the bounds: the target
    of the entropy does not depend on the units of the action.
    """

    def __init__(self, input_size: int, space: spaces.Box) -> None:
        super().__init__()
        self._shape, self._dtype = space.shape, space.dtype
        low, high = bounds_of(space)
        if not np.issubdtype(space.dtype, np.floating) or not np.isfinite([low, high]).all():
            raise ConfigError(
                f"action space of a SAC must be a Box of floats with finite bounds, was {space}: "
                "let the action interpreter bound its actions"
            )
        self._low, self._high = low, high
        self.num_uniforms = len(low)
        self.mean_and_log_deviation = nn.Linear(input_size, 2 * self.num_uniforms)

    def forward(self, features: Tensor) -> Tensor:
        """Return (lanes, numbers, 2): mean and log deviation of z."""
        mean, log_deviation = self.mean_and_log_deviation(features).chunk(2, -1)
        return torch.stack([mean, log_deviation.clamp(_LEAST_LOG_DEVIATION, _GREATEST_LOG_DEVIATION)], -1)

    def draw(self, parameters: Tensor, normal: Tensor) -> tuple[Tensor, Tensor]:
        """Return squashed actions (lanes, numbers) and log-densities (lanes,), with gradients through both.

        log π(u) = Σ log N(z; mean, deviation) − log (1 − tanh² z), the latter as 2 (log 2 − z − softplus(−2 z)), which is exact
        where tanh² z rounds to 1 (Haarnoja et al. 2018, arXiv:1812.05905, appendix C).

        Args:
            parameters: of the distributions.
            normal: standard normal numbers, (lanes, numbers).
        """
        mean, log_deviation = parameters.unbind(-1)
        z = mean + log_deviation.exp() * normal
        log_slope = 2.0 * (_LOG_TWO - z - nn.functional.softplus(-2.0 * z))
        log_density = -0.5 * normal.square() - log_deviation - _HALF_LOG_TWO_PI - log_slope
        return torch.tanh(z), log_density.sum(-1)

    def choose(self, parameters: Tensor, mask: NDArray[np.bool_] | None, uniform: NDArray[np.float64]) -> NDArray[Any]:
        """Return one action of each lane by the inverse distribution function of ``uniform``, (lanes, numbers)."""
        refuse_mask(mask, "Box")
        # Half a step away from 0, where the inverse is infinite.
        normal = torch.special.ndtri(torch.from_numpy(uniform + 2.0**-54))
        wide = parameters.double().cpu()
        return self._carry(torch.tanh(wide[..., 0] + wide[..., 1].exp() * normal))

    def likeliest(self, parameters: Tensor, mask: NDArray[np.bool_] | None) -> NDArray[Any]:
        """Return the median action of each lane."""
        refuse_mask(mask, "Box")
        return self._carry(torch.tanh(parameters[..., 0].double().cpu()))

    def squashed(self, action: NDArray[Any]) -> NDArray[np.float32]:
        """Return actions (lanes, *space.shape) as numbers in [−1, 1], (lanes, numbers): undoes the carrying into the bounds."""
        value = np.reshape(action, (len(action), -1)).astype(np.float64)
        return (2.0 * (value - self._low) / (self._high - self._low) - 1.0).astype(np.float32)

    def _carry(self, squashed: Tensor) -> NDArray[Any]:
        action = self._low + (self._high - self._low) * 0.5 * (squashed.numpy() + 1.0)
        typed = action.astype(self._dtype)  # rounding may lead out of the bounds
        bounded = np.clip(typed, self._low.astype(self._dtype), self._high.astype(self._dtype))
        return bounded.reshape(len(bounded), *self._shape)


class SoftActor(nn.Module):
    """A network and a distribution of actions: a squashed Gaussian for a Box, a categorical one for choices."""

    def __init__(self, network: Network, action_space: gymnasium.Space[Any]) -> None:
        super().__init__()
        self.network = network
        self.head = _head_for(network.output_size, action_space)

    def forward(self, reference: Reference, reader: ReferenceReader) -> Tensor:
        """Return the parameters of the distributions."""
        return self.head(reader.features(self.network, reference))  # type: ignore[no-any-return]  # nn.Module returns Any


class SoftActorPolicy(Policy):
    """Draws from the actor's distribution, or takes its likeliest action. It sees the parameters of the moment."""

    def __init__(self, model: SoftActor, reader: ReferenceReader, choice: Literal["drawn", "likeliest"]) -> None:
        self._model = model
        self._reader = reader
        self._choice = choice

    def decide(
        self, reference: Reference, internal_state: Any, mask: NDArray[np.bool_] | None, randomness: LaneRandomness
    ) -> Decision:
        head = self._model.head
        with torch.inference_mode():
            parameters = head(self._reader.decision_features(self._model.network, reference))
            if not bool(torch.isfinite(parameters).all()):
                require_finite_outputs((parameters,), self._reader.expand(reference))
            if self._choice == "likeliest":
                return Decision(head.likeliest(parameters, mask))
            return Decision(head.choose(parameters, mask, randomness.uniform("action", head.num_uniforms)))


def _head_for(input_size: int, action_space: gymnasium.Space[Any]) -> SquashedGaussianHead | CategoricalHead:
    if isinstance(action_space, spaces.Discrete):
        return CategoricalHead(input_size, action_space)
    if isinstance(action_space, spaces.Box):
        return SquashedGaussianHead(input_size, action_space)
    raise ConfigError(
        f"action space of a soft actor-critic must be Discrete or a Box, was {action_space}: write an action interpreter"
    )
