"""Features → distributions of actions, in plain tensor arithmetic: no distribution objects in the hot loop."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor, nn

from rlcore.foundation.errors import ConfigError, ContractError

_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
_LEAST_LOG_DEVIATION, _GREATEST_LOG_DEVIATION = -10.0, 2.0
# Bounded actions stay this far (as a fraction of the range) inside their bounds, where float32 can still be inverted.
_MARGIN = 1e-6
# exp of it is the greatest action of a half-bounded space.
_GREATEST_EXPONENT = 30.0


class ActionHead(nn.Module, ABC):
    """A family of distributions over the action space. ``parameters`` are the tensors (lanes, …) that ``forward`` returns."""

    num_uniforms: int  # uniform random numbers that one action takes

    @abstractmethod
    def forward(self, features: Tensor) -> Tensor:
        """Return the parameters of each lane's distribution."""

    @abstractmethod
    def choose(self, parameters: Tensor, mask: NDArray[np.bool_] | None, uniform: NDArray[np.float64]) -> NDArray[Any]:
        """Return one action of each lane by the inverse distribution function of ``uniform``, (lanes, num_uniforms)."""

    @abstractmethod
    def likeliest(self, parameters: Tensor, mask: NDArray[np.bool_] | None) -> NDArray[Any]:
        """Return the action at the middle of each lane's distribution: the most probable one; of a continuous one, the median."""

    @abstractmethod
    def log_prob(self, parameters: Tensor, mask: NDArray[np.bool_] | None, action: NDArray[Any]) -> Tensor:
        """Return the log-probability (density) of actions, (lanes,)."""

    @abstractmethod
    def entropy(self, parameters: Tensor, mask: NDArray[np.bool_] | None) -> Tensor:
        """Return the entropy of each lane's distribution, (lanes,)."""


class CategoricalHead(ActionHead):
    """One of so many choices; impossible ones have probability zero."""

    num_uniforms = 1

    def __init__(self, input_size: int, space: spaces.Discrete) -> None:
        super().__init__()
        self._start = int(space.start)
        self.logits = nn.Linear(input_size, int(space.n))
        _start_near_zero(self.logits)

    def forward(self, features: Tensor) -> Tensor:
        return self.logits(features)  # type: ignore[no-any-return]  # nn.Module returns Any

    def choose(self, parameters: Tensor, mask: NDArray[np.bool_] | None, uniform: NDArray[np.float64]) -> NDArray[Any]:
        chosen = _invert(_log_probabilities(parameters, mask), torch.from_numpy(uniform)[:, 0])
        return chosen.cpu().numpy() + self._start

    def likeliest(self, parameters: Tensor, mask: NDArray[np.bool_] | None) -> NDArray[Any]:
        return masked(parameters, mask, -torch.inf).argmax(-1).cpu().numpy() + self._start

    def log_prob(self, parameters: Tensor, mask: NDArray[np.bool_] | None, action: NDArray[Any]) -> Tensor:
        index = torch.from_numpy(np.ascontiguousarray(action - self._start, np.int64)).to(parameters.device)
        return _log_probabilities(parameters, mask).gather(-1, index[:, None])[:, 0]

    def entropy(self, parameters: Tensor, mask: NDArray[np.bool_] | None) -> Tensor:
        log_probabilities = _log_probabilities(parameters, mask)
        # 0 · log 0 = 0, also for the gradient.
        return -(log_probabilities.exp() * masked(log_probabilities, mask, 0.0)).sum(-1)


class MultiCategoricalHead(ActionHead):
    """Several choices at once, independent of each other given the observation."""

    _logit: Tensor
    _is_choice: Tensor

    def __init__(self, input_size: int, space: spaces.MultiDiscrete) -> None:
        super().__init__()
        self._shape, self._dtype, self._start = space.shape, space.dtype, space.start
        sizes = np.ravel(space.nvec)
        self.num_uniforms = len(sizes)
        self.logits = nn.Linear(input_size, int(sizes.sum()))
        _start_near_zero(self.logits)
        # Choices of different sizes lie side by side in (parts, greatest size); what is too much is impossible.
        choice = np.arange(sizes.max())
        is_choice = choice < sizes[:, None]
        logit = np.where(is_choice, (np.cumsum(sizes) - sizes)[:, None] + choice, 0)
        self.register_buffer("_logit", torch.from_numpy(logit), persistent=False)
        self.register_buffer("_is_choice", torch.from_numpy(is_choice), persistent=False)

    def forward(self, features: Tensor) -> Tensor:
        return self.logits(features)  # type: ignore[no-any-return]  # nn.Module returns Any

    def choose(self, parameters: Tensor, mask: NDArray[np.bool_] | None, uniform: NDArray[np.float64]) -> NDArray[Any]:
        refuse_mask(mask, "MultiDiscrete")
        return self._actions(_invert(self._log_probabilities(parameters), torch.from_numpy(uniform)))

    def likeliest(self, parameters: Tensor, mask: NDArray[np.bool_] | None) -> NDArray[Any]:
        refuse_mask(mask, "MultiDiscrete")
        return self._actions(self._log_probabilities(parameters).argmax(-1))

    def log_prob(self, parameters: Tensor, mask: NDArray[np.bool_] | None, action: NDArray[Any]) -> Tensor:
        index = np.reshape(action - self._start, (len(action), -1)).astype(np.int64)
        chosen = torch.from_numpy(index).to(parameters.device)[..., None]
        return self._log_probabilities(parameters).gather(-1, chosen).sum((-2, -1))

    def entropy(self, parameters: Tensor, mask: NDArray[np.bool_] | None) -> Tensor:
        log_probabilities = self._log_probabilities(parameters)
        return -(log_probabilities.exp() * log_probabilities.masked_fill(~self._is_choice, 0.0)).sum((-2, -1))

    def _log_probabilities(self, logits: Tensor) -> Tensor:
        """Return (lanes, parts, greatest size)."""
        return torch.log_softmax(logits[:, self._logit].masked_fill(~self._is_choice, -torch.inf), -1)

    def _actions(self, chosen: Tensor) -> NDArray[Any]:
        """Return actions of shape (lanes, *space.shape) for choices counted from 0, (lanes, parts)."""
        return (chosen.cpu().numpy().reshape(len(chosen), *self._shape) + self._start).astype(self._dtype)


class GaussianHead(ActionHead):
    """A normal variable z for each number of a Box, carried into its bounds.

    Both bounds: low + (high − low) · sigmoid(z); one bound: its distance is exp(z); none: z. The density is the
    action's own (change of variables); the entropy is z's, which is what the bonus is meant to hold up. The deviation does not
    depend on the observation.
    """

    def __init__(self, input_size: int, space: spaces.Box) -> None:
        super().__init__()
        self._shape = space.shape
        self._dtype = space.dtype
        low, high = bounds_of(space)
        self.num_uniforms = len(low)
        self._low, self._high = low, high
        self._is_bounded = np.isfinite(low) & np.isfinite(high)
        self._is_above = np.isfinite(low) & ~np.isfinite(high)
        self._is_below = ~np.isfinite(low) & np.isfinite(high)
        self.mean = nn.Linear(input_size, self.num_uniforms)
        _start_near_zero(self.mean)
        self.log_deviation = nn.Parameter(torch.zeros(self.num_uniforms))

    def forward(self, features: Tensor) -> Tensor:
        mean = self.mean(features)
        log_deviation: Tensor = _Held.apply(self.log_deviation, _LEAST_LOG_DEVIATION, _GREATEST_LOG_DEVIATION)  # type: ignore[no-untyped-call]  # torch
        return torch.stack([mean, log_deviation.expand_as(mean)], -1)  # (lanes, numbers, 2)

    def choose(self, parameters: Tensor, mask: NDArray[np.bool_] | None, uniform: NDArray[np.float64]) -> NDArray[Any]:
        refuse_mask(mask, "Box")
        # Half a step away from 0, where the inverse is infinite.
        normal = torch.special.ndtri(torch.from_numpy(uniform + 2.0**-54))
        wide = parameters.double().cpu()
        return self._carry((wide[..., 0] + wide[..., 1].exp() * normal).numpy())

    def likeliest(self, parameters: Tensor, mask: NDArray[np.bool_] | None) -> NDArray[Any]:
        refuse_mask(mask, "Box")
        return self._carry(parameters[..., 0].double().cpu().numpy())

    def log_prob(self, parameters: Tensor, mask: NDArray[np.bool_] | None, action: NDArray[Any]) -> Tensor:
        normal, log_slope = self._carry_back(action)
        z, slope = (torch.from_numpy(part).to(parameters.device, torch.float32) for part in (normal, log_slope))
        mean, log_deviation = parameters.unbind(-1)
        standard = (z - mean) * torch.exp(-log_deviation)
        return (-0.5 * standard.square() - log_deviation - _HALF_LOG_TWO_PI - slope).sum(-1)

    def entropy(self, parameters: Tensor, mask: NDArray[np.bool_] | None) -> Tensor:
        return (parameters[..., 1] + 0.5 + _HALF_LOG_TWO_PI).sum(-1)

    def _carry(self, normal: NDArray[np.float64]) -> NDArray[Any]:
        """Return actions of shape (lanes, *space.shape) for z of shape (lanes, numbers)."""
        low, high = self._low, self._high
        fraction = np.clip(1 / (1 + np.exp(-np.clip(normal, -_GREATEST_EXPONENT, _GREATEST_EXPONENT))), _MARGIN, 1 - _MARGIN)
        distance = np.exp(np.clip(normal, -_GREATEST_EXPONENT, _GREATEST_EXPONENT))
        with np.errstate(invalid="ignore"):  # infinite bounds of the branches not taken
            bounded, above, below = low + (high - low) * fraction, low + distance, high - distance
            action = np.select([self._is_bounded, self._is_above, self._is_below], [bounded, above, below], normal)
        return action.reshape(len(normal), *self._shape).astype(self._dtype)

    def _carry_back(self, action: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return z and log |d action / d z|, both (lanes, numbers)."""
        value = np.reshape(action, (len(action), -1)).astype(np.float64)
        low, high = self._low, self._high
        smallest = np.exp(-_GREATEST_EXPONENT)
        branches = [self._is_bounded, self._is_above, self._is_below]
        with np.errstate(invalid="ignore", divide="ignore"):  # as above
            fraction = np.clip((value - low) / (high - low), _MARGIN, 1 - _MARGIN)
            above, below = np.log(np.maximum(value - low, smallest)), np.log(np.maximum(high - value, smallest))
            bounded_slope = np.log(high - low) + np.log(fraction) + np.log1p(-fraction)
            normal = np.select(branches, [np.log(fraction) - np.log1p(-fraction), above, below], value)
            log_slope = np.select(branches, [bounded_slope, above, below], 0.0)
        return normal, log_slope


class _Held(torch.autograd.Function):
    """Numbers held between two bounds, with a gradient that leads back in from outside, and never further out.

    ``clamp`` has none out there: a step too far, under the entropy's bonus say, could never be taken back.
    """

    @staticmethod
    def forward(ctx: Any, value: Tensor, least: float, greatest: float) -> Tensor:
        ctx.save_for_backward(value)
        ctx.bounds = least, greatest
        return value.clamp(least, greatest)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (value,), (least, greatest) = ctx.saved_tensors, ctx.bounds
        leads_out = ((value < least) & (gradient > 0)) | ((value > greatest) & (gradient < 0))
        return gradient.masked_fill(leads_out, 0.0), None, None


def bounds_of(space: spaces.Box) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the lowest and highest value of each number of a Box, flat.

    Raises:
        ConfigError: where they leave no room, or so much that arithmetic in float64 cannot cross it.
    """
    low, high = (np.ravel(bound).astype(np.float64) for bound in (space.low, space.high))
    with np.errstate(over="ignore"):
        is_crossed = np.isfinite(high - low) | np.isinf(low) | np.isinf(high)
    if not ((low < high) & is_crossed).all():
        raise ConfigError(
            f"action space must be a Box with low below high, and high - low finite where both are, was {space}: let the action "
            "interpreter add numbers that are fixed, and give infinite bounds where there are none"
        )
    return low, high


def head_for(input_size: int, action_space: gymnasium.Space[Any]) -> ActionHead:
    """Return the head of an action space.

    Raises:
        ConfigError: for a space that no head can serve.
    """
    if isinstance(action_space, spaces.Discrete):
        return CategoricalHead(input_size, action_space)
    if isinstance(action_space, spaces.MultiDiscrete):
        return MultiCategoricalHead(input_size, action_space)
    if isinstance(action_space, spaces.Box) and np.issubdtype(action_space.dtype, np.floating):
        return GaussianHead(input_size, action_space)
    raise ConfigError(
        f"action space must be Discrete, MultiDiscrete or a Box of floats, was {action_space}: "
        "write an action interpreter with such a space"
    )


def masked(values: Tensor, mask: NDArray[np.bool_] | None, otherwise: float) -> Tensor:
    """Return ``values`` (lanes, actions) with ``otherwise`` where the action is impossible.

    Raises:
        ContractError: for a lane without any possible action.
    """
    if mask is None:
        return values
    if not mask.any(-1).all():
        lane = int(np.flatnonzero(~mask.any(-1))[0])
        raise ContractError(
            f"mask must leave at least one action possible, leaves none in lane {lane}: mend the action interpreter's mask"
        )
    return values.masked_fill(torch.from_numpy(~mask).to(values.device), otherwise)


def _log_probabilities(logits: Tensor, mask: NDArray[np.bool_] | None) -> Tensor:
    return torch.log_softmax(masked(logits, mask, -torch.inf), -1)


def _invert(log_probabilities: Tensor, uniform: Tensor) -> Tensor:
    """Return the choice, (…), at which the distribution function of (…, choices) passes ``uniform`` (…) in [0, 1)."""
    cumulated = log_probabilities.double().exp().cumsum(-1)
    threshold = uniform.to(cumulated.device)[..., None] * cumulated[..., -1:]
    # Strictly below the total, so that a choice of probability zero is never counted up to.
    return (cumulated <= threshold).sum(-1)


def refuse_mask(mask: NDArray[np.bool_] | None, space: str) -> None:
    """Raise where a mask comes with actions that are not one choice."""
    if mask is not None:
        raise ConfigError(
            f"mask must be None for {space} actions, was an array: let the action interpreter carry impossible actions to "
            "possible ones, or give it a Discrete space"
        )


def _start_near_zero(layer: nn.Linear) -> None:
    # Engstrom et al. 2020 (arXiv:2005.12729): the first policy should prefer no action over another.
    nn.init.orthogonal_(layer.weight, gain=0.01)
    nn.init.zeros_(layer.bias)
