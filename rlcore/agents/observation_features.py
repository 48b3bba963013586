"""Observations of any space → one row of numbers a lane."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlcore.contracts.interpreters import Observation
from rlcore.foundation.errors import ConfigError
from rlcore.foundation.lanes import num_lanes


def num_features(space: spaces.Space[Any]) -> int:
    """Return how many numbers a lane has after ``flatten_observation``.

    Raises:
        ConfigError: for a space that no fixed number of numbers can hold.
    """
    if isinstance(space, spaces.Dict):
        return sum(num_features(sub_space) for sub_space in space.spaces.values())
    if isinstance(space, spaces.Tuple):
        return sum(num_features(sub_space) for sub_space in space.spaces)
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(np.sum(space.nvec))
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        return int(np.prod(space.shape))
    raise ConfigError(
        f"observation space of an MLP must be made of Box, Discrete, MultiDiscrete, MultiBinary, Dict and Tuple, held {space}: "
        "give the agent a network of its own"
    )


def flatten_observation(space: spaces.Space[Any], observation: Observation) -> NDArray[np.float32]:
    """Return (lanes, features): numbers as they are, each choice as a one-hot vector, in the order of the space."""
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        return np.ascontiguousarray(observation, np.float32)
    features = np.zeros((num_lanes(observation), num_features(space)), np.float32)
    _write(space, observation, features)
    return features


def _write(space: spaces.Space[Any], observation: Observation, into: NDArray[np.float32]) -> None:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        _write_each(space, observation, into)
    elif isinstance(space, spaces.Discrete):
        into[np.arange(len(into)), np.asarray(observation) - int(space.start)] = 1
    elif isinstance(space, spaces.MultiDiscrete):
        sizes = np.ravel(space.nvec)
        choices = np.reshape(observation, (len(into), -1)) - np.ravel(space.start)
        into[np.arange(len(into))[:, None], choices + np.cumsum(sizes) - sizes] = 1
    else:
        into[:] = np.reshape(observation, (len(into), -1))


def _write_each(space: spaces.Dict | spaces.Tuple[Any], observation: Observation, into: NDArray[np.float32]) -> None:
    parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
    at = 0
    for key, sub_space in parts:
        size = num_features(sub_space)
        _write(sub_space, observation[key], into[:, at : at + size])
        at += size
