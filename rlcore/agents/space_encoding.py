"""Spaces as plain data and tensors, for files."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray

from rlcore.foundation.errors import ConfigError


def encode_space(space: spaces.Space[Any]) -> dict[str, Any]:
    """Return what ``decode_space`` makes an equal space of.

    Raises:
        ConfigError: for a kind of space that has no encoding.
    """
    if isinstance(space, spaces.Dict):
        return {"kind": "dict", "spaces": {key: encode_space(part) for key, part in space.spaces.items()}}
    if isinstance(space, spaces.Tuple):
        return {"kind": "tuple", "spaces": [encode_space(part) for part in space.spaces]}
    if isinstance(space, spaces.Box):
        return {"kind": "box", "low": _tensor(space.low), "high": _tensor(space.high), "dtype": np.dtype(space.dtype).name}
    if isinstance(space, spaces.Discrete):
        return {"kind": "discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        return {"kind": "multi_discrete", "nvec": _tensor(space.nvec), "start": _tensor(space.start)}
    if isinstance(space, spaces.MultiBinary):
        # gymnasium tells 2 from (2,).
        return {"kind": "multi_binary", "shape": list(space.n) if isinstance(space.n, tuple) else space.n}
    raise ConfigError(f"saved spaces must be made of Box, Discrete, MultiDiscrete, MultiBinary, Dict and Tuple, held {space}")


def decode_space(data: dict[str, Any]) -> spaces.Space[Any]:
    """Undo ``encode_space``."""
    kind = data["kind"]
    if kind == "dict":
        return spaces.Dict({key: decode_space(part) for key, part in data["spaces"].items()})
    if kind == "tuple":
        return spaces.Tuple([decode_space(part) for part in data["spaces"]])
    if kind == "box":
        low, high = data["low"].numpy(), data["high"].numpy()
        return spaces.Box(low, high, dtype=np.dtype(data["dtype"]).type)
    if kind == "discrete":
        return spaces.Discrete(data["n"], start=data["start"])
    if kind == "multi_discrete":
        return spaces.MultiDiscrete(data["nvec"].numpy(), start=data["start"].numpy())
    return spaces.MultiBinary(data["shape"])


def first_leaf(space: spaces.Space[Any], value: Any) -> tuple[spaces.Space[Any], NDArray[Any]]:
    """Return the first space that is neither Dict nor Tuple, with its part of ``value``."""
    if isinstance(space, spaces.Dict):
        key = next(iter(space.spaces))
        return first_leaf(space.spaces[key], value[key])
    if isinstance(space, spaces.Tuple):
        return first_leaf(space.spaces[0], value[0])
    return space, np.asarray(value)


def _tensor(array: NDArray[Any]) -> torch.Tensor:
    return torch.from_numpy(np.array(array))
