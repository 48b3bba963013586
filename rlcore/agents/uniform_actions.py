"""Uniformly random actions from the random numbers that are handed in."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlcore.agents.action_heads import refuse_mask
from rlcore.contracts.interpreters import Reference
from rlcore.contracts.policy import Decision, Policy
from rlcore.foundation.errors import ConfigError
from rlcore.foundation.random_streams import LaneRandomness


class UniformActions(Policy):
    """Draws from a Discrete space (of the possible actions) or a Box with bounds, every action alike.

    Unlike ``RandomActions`` it knows only these spaces, and costs next to nothing.
    """

    def __init__(self, action_space: gymnasium.Space[Any]) -> None:
        if not isinstance(action_space, spaces.Discrete | spaces.Box):
            raise ConfigError(f"action space of uniform actions must be Discrete or a Box, was {action_space}")
        self._space = action_space

    def decide(
        self, reference: Reference, internal_state: Any, mask: NDArray[np.bool_] | None, randomness: LaneRandomness
    ) -> Decision:
        space = self._space
        if isinstance(space, spaces.Discrete):
            uniform = randomness.uniform("uniform action")[:, 0]
            possible = np.ones((len(uniform), int(space.n)), bool) if mask is None else mask
            return Decision(uniform_choice(possible, uniform) + int(space.start))
        refuse_mask(mask, "Box")
        uniform = randomness.uniform("uniform action", int(np.prod(space.shape)))
        low, high = (bound.astype(np.float64) for bound in (space.low, space.high))
        action = low + (high - low) * uniform.reshape(len(uniform), *space.shape)
        return Decision(np.clip(action.astype(space.dtype), space.low, space.high))


def uniform_choice(possible: NDArray[np.bool_], uniform: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the k-th possible action of each lane, k uniform in 0 … count − 1.

    Args:
        possible: (lanes, actions).
        uniform: in [0, 1), (lanes,).
    """
    count = possible.cumsum(-1)
    return (count <= np.floor(uniform[:, None] * count[:, -1:])).sum(-1)  # type: ignore[no-any-return]  # NumPy's sum
