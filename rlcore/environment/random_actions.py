"""Policies that know nothing but the action space: for trying parts out."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlcore.contracts.policy import Decision, Policy
from rlcore.environment.lane_samples import stack_samples
from rlcore.foundation.lanes import num_lanes
from rlcore.foundation.random_streams import LaneRandomness

_LARGE = 1e6  # stands for a bound that a space does not have


class RandomActions(Policy):
    """Samples of the action space; masked actions are left out. Every lane's depend on its own random numbers alone."""

    def __init__(self, action_space: spaces.Space[Any]) -> None:
        self._space = copy.deepcopy(action_space)  # sampling changes a space's own generator

    def decide(self, reference: Any, internal_state: Any, mask: NDArray[np.bool_] | None, randomness: LaneRandomness) -> Decision:
        draws = (randomness.uniform("random action")[:, 0] * 2**31).astype(np.int64)
        return Decision(stack_samples(self._space, [self._sample(int(draw), mask, lane) for lane, draw in enumerate(draws)]))

    def _sample(self, draw: int, mask: NDArray[np.bool_] | None, lane: int) -> Any:
        self._space.seed(draw)
        return self._space.sample() if mask is None else self._space.sample(mask=mask[lane].astype(np.int8))


class SameAction(Policy):
    """One action, whatever is observed; where a mask forbids it, the first that it allows."""

    def __init__(self, action_space: spaces.Space[Any], action: Any) -> None:
        self._space, self._action = action_space, action

    def decide(self, reference: Any, internal_state: Any, mask: NDArray[np.bool_] | None, randomness: LaneRandomness) -> Decision:
        count = num_lanes(randomness)
        actions = stack_samples(self._space, [self._action] * count)
        if mask is None or not isinstance(self._space, spaces.Discrete):
            return Decision(actions)
        is_allowed = mask[np.arange(count), actions - self._space.start]
        return Decision(np.where(is_allowed, actions, mask.argmax(axis=-1) + self._space.start))


def corner_actions(space: spaces.Space[Any]) -> list[Any]:
    """Return the extreme samples of a space: all lowest and all highest (a space without bounds: ±1e6; without order: none)."""
    return [corner for corner in (_corner(space, min), _corner(space, max)) if corner is not None]


def _corner(space: spaces.Space[Any], side: Callable[..., Any]) -> Any:
    if isinstance(space, spaces.Dict):
        found = {key: _corner(sub, side) for key, sub in space.spaces.items()}
        return None if any(corner is None for corner in found.values()) else found
    if isinstance(space, spaces.Tuple):
        parts = tuple(_corner(sub, side) for sub in space.spaces)
        return None if any(corner is None for corner in parts) else parts
    if isinstance(space, spaces.Discrete):
        return side(int(space.start), int(space.start + space.n - 1))
    if isinstance(space, spaces.MultiDiscrete):
        return side(0, 1) * (space.nvec - 1) + np.asarray(space.start)
    if isinstance(space, spaces.MultiBinary):
        return np.full(space.shape, side(0, 1), space.dtype)
    if isinstance(space, spaces.Box):
        bound = space.low if side is min else space.high
        return np.where(np.isfinite(bound), bound, side(-_LARGE, _LARGE)).astype(space.dtype)
    return None
