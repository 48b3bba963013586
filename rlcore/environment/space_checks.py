"""Spaces that tell the truth: recursive checks that name the sub-space, the value and the bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlcore.foundation.errors import SpaceError


def check_lanes(space: spaces.Space[Any], value: Any, path: str) -> None:
    """Hold a batch (every array with a leading lane axis) to the space of one lane.

    Raises:
        SpaceError: with the path to the sub-space, the first bad lane, its value and the bound.
    """
    # By exact type first: isinstance is slow on gymnasium's spaces, whose class is abstract, and this runs at every step.
    check = _CHECKS.get(type(space)) or next((own for kind, own in _CHECKS.items() if isinstance(space, kind)), _check_each)
    check(space, value, path)


def check_one(space: spaces.Space[Any], value: Any, path: str) -> None:
    """Hold one value to its space; the error carries the path, the space and the value."""
    if isinstance(space, spaces.Dict):
        _check_keys(space, value, path)
        for key, sub_space in space.spaces.items():
            check_one(sub_space, value[key], f"{path}[{key!r}]")
    elif isinstance(space, spaces.Tuple):
        if not isinstance(value, (tuple, list, np.ndarray)) or len(value) != len(space.spaces):
            raise SpaceError(f"{path} must be a tuple of {len(space.spaces)}, was {_short(value)}")
        for index, sub_space in enumerate(space.spaces):
            check_one(sub_space, value[index], f"{path}[{index}]")
    elif isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        check_lanes(space, np.asarray(value)[None], path)
    elif not space.contains(value):
        raise SpaceError(f"{path} must lie in {space}, was {_short(value)}")


def _check_dict(space: spaces.Dict, value: Any, path: str) -> None:
    _check_keys(space, value, path)
    for key, sub_space in space.spaces.items():
        check_lanes(sub_space, value[key], f"{path}[{key!r}]")


def _check_tuple(space: spaces.Tuple[Any], value: Any, path: str) -> None:
    if not isinstance(value, tuple) or len(value) != len(space.spaces):
        raise SpaceError(f"{path} must be a tuple of {len(space.spaces)}, was {_short(value)}")
    for index, sub_space in enumerate(space.spaces):
        check_lanes(sub_space, value[index], f"{path}[{index}]")


def _check_discrete(space: spaces.Discrete, value: Any, path: str) -> None:
    _check_integers(_as_array(value, path), (), space.start, space.start + (space.n - 1), path)


def _check_multi_discrete(space: spaces.MultiDiscrete, value: Any, path: str) -> None:
    start = np.asarray(space.start)
    _check_integers(_as_array(value, path), space.shape, start, start + space.nvec - 1, path)


def _check_multi_binary(space: spaces.MultiBinary, value: Any, path: str) -> None:
    _check_integers(_as_array(value, path), space.shape, 0, 1, path)


def _check_keys(space: spaces.Dict, value: Any, path: str) -> None:
    if not isinstance(value, dict):
        raise SpaceError(f"{path} must be a dict with keys {sorted(space.spaces)}, was {_short(value)}")
    if value.keys() != space.spaces.keys():
        missing, extra = sorted(space.spaces.keys() - value.keys()), sorted(value.keys() - space.spaces.keys())
        raise SpaceError(f"{path} must have the keys of its space, lacked {missing} and had {extra} besides")


def _as_array(value: Any, path: str) -> NDArray[Any]:
    array = np.asarray(value)
    if array.dtype.hasobject:
        raise SpaceError(f"{path} must be an array of numbers, was {_short(value)}")
    return array


def _check_box(space: spaces.Box, value: Any, path: str) -> None:
    value = _as_array(value, path)
    if value.shape[1:] != space.shape:
        _refuse_shape(value, space.shape, path)
    # Bounds with a lane axis of one: NumPy compares arrays of equal shape, as those of one lane are, twice as fast.
    is_good = (value >= space.low[None]) & (value <= space.high[None])  # false for NaN
    if np.count_nonzero(is_good) < is_good.size:  # counting is four times as fast as all() and any()
        is_bad = ~is_good
        at = tuple(int(i) for i in np.argwhere(is_bad)[0])
        low, high = (np.broadcast_to(bound, space.shape)[at[1:]] for bound in (space.low, space.high))
        raise SpaceError(f"{path} must lie in [{low}, {high}], was {value[at]} in lane {at[0]}{_element(at[1:])}")


def _check_integers(value: NDArray[Any], shape: tuple[int, ...], low: Any, high: Any, path: str) -> None:
    if value.shape[1:] != shape:
        _refuse_shape(value, shape, path)
    if value.dtype.kind not in "iub":
        raise SpaceError(f"{path} must be integers, was of type {value.dtype}")
    is_bad = (value < low) | (value > high)
    if np.count_nonzero(is_bad):
        at = tuple(int(i) for i in np.argwhere(is_bad)[0])
        lowest, highest = (np.broadcast_to(bound, shape)[at[1:]] for bound in (low, high))
        raise SpaceError(f"{path} must lie in {{{lowest}, …, {highest}}}, was {value[at]} in lane {at[0]}{_element(at[1:])}")


def _refuse_shape(value: NDArray[Any], shape: tuple[int, ...], path: str) -> NoReturn:
    raise SpaceError(f"{path} must have shape (lanes, …) = (lanes, {', '.join(map(str, shape))}), was {value.shape}")


def _check_each(space: spaces.Space[Any], value: Any, path: str) -> None:
    for lane, element in enumerate(value):
        if not space.contains(element):
            raise SpaceError(f"{path} must lie in {space}, was {_short(element)} in lane {lane}")


def _element(index: tuple[int, ...]) -> str:
    return f" at index {list(index)}" if index else ""


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}…"


_CHECKS: dict[type[spaces.Space[Any]], Callable[[Any, Any, str], None]] = {
    spaces.Dict: _check_dict,
    spaces.Tuple: _check_tuple,
    spaces.Box: _check_box,
    spaces.Discrete: _check_discrete,
    spaces.MultiDiscrete: _check_multi_discrete,
    spaces.MultiBinary: _check_multi_binary,
}
