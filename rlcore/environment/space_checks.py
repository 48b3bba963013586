"""Spaces that tell the truth: recursive checks whose errors carry the path, the value, the rule it breaks and the space."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import iterate
from numpy.typing import NDArray

from rlcore.foundation.errors import SpaceError

_NUMBERS = frozenset("fiub")  # kinds of dtypes
_INTEGERS = frozenset("iub")


def check_lanes(space: spaces.Space[Any], value: Any, path: str) -> None:
    """Hold a batch (every array with a leading lane axis) to the space of one lane.

    Samples of spaces that are no arrays (Text, Sequence, Graph, OneOf) stand one for each lane, in an array of objects.

    Raises:
        SpaceError: with the path to the sub-space, the first bad lane, its value, the bound and the space.
    """
    # _check(…, 1), without the call: this runs at every step.
    (_CHECKS.get(type(space)) or _inherited_check(space))(space, value, path, 1)


def check_one(space: spaces.Space[Any], value: Any, path: str) -> None:
    """Hold one value to its space.

    Raises:
        SpaceError: with the path to the sub-space (``observation['words'][3]``), the value, the bound and the space.
    """
    _check(space, value, path, 0)


def _check(space: spaces.Space[Any], value: Any, path: str, lead: int) -> None:
    """``lead``: how many lane axes stand before those of the space: 1 for a batch, 0 for one value."""
    # By exact type first: isinstance is slow on gymnasium's spaces, whose class is abstract, and this runs at every step.
    (_CHECKS.get(type(space)) or _inherited_check(space))(space, value, path, lead)


def _inherited_check(space: spaces.Space[Any]) -> Callable[[Any, Any, str, int], None]:
    return next((check for kind, check in _CHECKS.items() if isinstance(space, kind)), _check_foreign)


def _check_dict(space: spaces.Dict, value: Any, path: str, lead: int) -> None:
    if not isinstance(value, dict):
        _refuse(space, path, f"must be a dict with keys {sorted(space.spaces)}, was {_short(value)}")
    if value.keys() != space.spaces.keys():
        missing, extra = sorted(space.spaces.keys() - value.keys()), sorted(value.keys() - space.spaces.keys(), key=str)
        _refuse(space, path, f"must have the keys of its space, lacked {missing} and had {extra} besides")
    for key, sub_space in space.spaces.items():
        _check(sub_space, value[key], f"{path}[{key!r}]", lead)


def _check_tuple(space: spaces.Tuple[Any], value: Any, path: str, lead: int) -> None:
    # One value may be a list or an array, as gymnasium has it; those of a batch would hide which axis is the lanes'.
    kinds = tuple if lead else (tuple, list, np.ndarray)
    if not isinstance(value, kinds) or len(value) != len(space.spaces):
        _refuse(space, path, f"must be a tuple of {len(space.spaces)}, was {_short(value)}")
    for index, sub_space in enumerate(space.spaces):
        _check(sub_space, value[index], f"{path}[{index}]", lead)


def _check_box(space: spaces.Box, value: Any, path: str, lead: int) -> None:
    batch = _as_batch(space, value, path, lead)
    if batch.dtype.kind == "f" and space.dtype.kind in _INTEGERS:
        _refuse(space, path, f"must be integers, was of type {batch.dtype}: {_short(value)}")
    # Bounds with a lane axis of one: NumPy compares arrays of equal shape, as those of one lane are, twice as fast.
    is_good = (batch >= space.low[None]) & (batch <= space.high[None])  # false for NaN
    if np.count_nonzero(is_good) < is_good.size:  # counting is four times as fast as all() and any()
        if batch.dtype.kind == "f" and batch.dtype.itemsize > space.dtype.itemsize:
            # Bounds were rounded to the space's type: 0.9 lies above the float32 that "0.9" became.
            with np.errstate(over="ignore"):
                rounded = batch.astype(space.dtype)
            is_good = (rounded >= space.low[None]) & (rounded <= space.high[None])
            if np.count_nonzero(is_good) == is_good.size:
                return
        at, low, high = _first_bad(~is_good, space.low, space.high)
        _refuse(space, path, f"must lie in [{low}, {high}], was {batch[at]}{_place(at, lead)}")


def _check_discrete(space: spaces.Discrete, value: Any, path: str, lead: int) -> None:
    _check_integers(space, value, space.start, space.start + (space.n - 1), path, lead)


def _check_multi_discrete(space: spaces.MultiDiscrete, value: Any, path: str, lead: int) -> None:
    _check_integers(space, value, space.start, space.start + (space.nvec - 1), path, lead)


def _check_multi_binary(space: spaces.MultiBinary, value: Any, path: str, lead: int) -> None:
    _check_integers(space, value, 0, 1, path, lead)


def _check_integers(space: spaces.Space[Any], value: Any, low: Any, high: Any, path: str, lead: int) -> None:
    batch = _as_batch(space, value, path, lead)
    if batch.dtype.kind not in _INTEGERS:
        _refuse(space, path, f"must be integers, was of type {batch.dtype}: {_short(value)}")
    is_bad = (batch < low) | (batch > high)
    if np.count_nonzero(is_bad):
        at, lowest, highest = _first_bad(is_bad, low, high)
        _refuse(space, path, f"must lie in {{{lowest}, …, {highest}}}, was {batch[at]}{_place(at, lead)}")


def _as_batch(space: spaces.Space[Any], value: Any, path: str, lead: int) -> NDArray[Any]:
    """Return the value as an array with a lane axis, of numbers, of the space's shape."""
    try:
        array = np.asarray(value)
    except ValueError:  # rows of several lengths
        _refuse(space, path, f"must be an array of numbers, was {_short(value)}")
    if array.dtype.kind not in _NUMBERS:
        _refuse(space, path, f"must be an array of numbers, was {_short(value)}")
    if array.shape[lead:] != space.shape or array.ndim < lead:
        wanted = ", ".join(map(str, space.shape or ()))
        shape = f"(lanes, …) = (lanes, {wanted})" if lead else f"({wanted})"
        _refuse(space, path, f"must have shape {shape}, was {array.shape}: {_short(value)}")
    return array if lead else array[None]


def _check_text(space: spaces.Text, value: Any, path: str, lead: int) -> None:
    if lead:
        _check_each(space, value, path)
    elif not isinstance(value, str) or not space.min_length <= len(value) <= space.max_length:
        _refuse(space, path, f"must be a text of {space.min_length} to {space.max_length} characters, was {_short(value)}")
    else:
        for index, character in enumerate(value):
            if character not in space.character_set:
                known = _short(space.characters)
                _refuse(
                    space,
                    path,
                    f"must hold characters of {known} only, was {_short(value)} with {character!r} at index [{index}]",
                )


def _check_sequence(space: spaces.Sequence, value: Any, path: str, lead: int) -> None:
    if lead:
        _check_each(space, value, path)
    elif space.stack:
        _check_stacked(space, space.stacked_feature_space, space.feature_space, value, path)
    elif not isinstance(value, tuple):
        _refuse(space, path, f"must be a tuple of any length, was {_short(value)}")
    else:
        for index, element in enumerate(value):
            _check(space.feature_space, element, f"{path}[{index}]", 0)


def _check_one_of(space: spaces.OneOf[Any], value: Any, path: str, lead: int) -> None:
    if lead:
        _check_each(space, value, path)
    elif not isinstance(value, tuple) or len(value) != 2:
        _refuse(space, path, f"must be a pair of a choice and its value, was {_short(value)}")
    else:
        _check(spaces.Discrete(len(space.spaces)), value[0], f"{path}[0]", 0)
        _check(space.spaces[int(value[0])], value[1], f"{path}[1]", 0)


def _check_graph(space: spaces.Graph, value: Any, path: str, lead: int) -> None:
    if lead:
        _check_each(space, value, path)
        return
    if not isinstance(value, spaces.GraphInstance):
        _refuse(space, path, f"must be a GraphInstance, was {_short(value)}")
    num_nodes = _check_stacked(space, space.batch_node_space, space.node_space, value.nodes, f"{path}.nodes")
    if value.edges is None and value.edge_links is None:
        return
    if space.edge_space is None or value.edges is None or value.edge_links is None:
        _refuse(space, path, f"must have edges of its space and links for them, or neither, was {_short(value)}")
    num_edges = _check_stacked(space, space.batch_edge_space, space.edge_space, value.edges, f"{path}.edges")
    links = spaces.Box(0, num_nodes - 1, (num_edges, 2), np.int64)
    _check(links, value.edge_links, f"{path}.edge_links", 0)
    if np.asarray(value.edge_links).dtype.kind not in _INTEGERS:
        _refuse(space, f"{path}.edge_links", f"must be integers, was {_short(value.edge_links)}")


def _check_stacked(space: spaces.Space[Any], stacked: Any, element_space: spaces.Space[Any], value: Any, path: str) -> int:
    """Check samples that are stacked along a leading axis; returns how many there are."""
    try:
        elements = list(iterate(stacked, value))
    except Exception:  # of whatever kind: it comes from indexing into what is no such stack
        _refuse(space, path, f"must be samples stacked along a leading axis, was {_short(value)}")
    for index, element in enumerate(elements):
        _check(element_space, element, f"{path}[{index}]", 0)
    return len(elements)


def _check_foreign(space: spaces.Space[Any], value: Any, path: str, lead: int) -> None:
    """A space of the user's own has the last word."""
    if lead:
        _check_each(space, value, path)
    elif not space.contains(value):
        _refuse(space, path, f"must lie in its space, was {_short(value)}")


def _check_each(space: spaces.Space[Any], value: Any, path: str) -> None:
    if not isinstance(value, np.ndarray | list | tuple):
        _refuse(space, path, f"must hold one sample for each lane, was {_short(value)}")
    samples: Iterable[Any] = value
    for lane, sample in enumerate(samples):
        try:
            _check(space, sample, path, 0)
        except SpaceError as error:
            raise SpaceError(f"{error} in lane {lane}") from None


def _first_bad(is_bad: NDArray[np.bool_], low: Any, high: Any) -> tuple[tuple[int, ...], Any, Any]:
    """Return the index of the first bad entry, and its bounds."""
    at = tuple(int(i) for i in np.argwhere(is_bad)[0])
    lowest, highest = (np.broadcast_to(bound, is_bad.shape[1:])[at[1:]] for bound in (low, high))
    return at, lowest, highest


def _place(at: tuple[int, ...], lead: int) -> str:
    lane = f" in lane {at[0]}" if lead else ""
    return f"{lane} at index {list(at[1:])}" if len(at) > 1 else lane


def _refuse(space: spaces.Space[Any], path: str, rest: str) -> NoReturn:
    raise SpaceError(f"{path} {rest} (space {_short(space)})")


def _short(value: Any) -> str:
    text = " ".join(repr(value).split())  # arrays show in several lines
    return text if len(text) <= 120 else f"{text[:117]}…"


_CHECKS: dict[type[spaces.Space[Any]], Callable[[Any, Any, str, int], None]] = {
    spaces.Dict: _check_dict,
    spaces.Tuple: _check_tuple,
    spaces.Box: _check_box,
    spaces.Discrete: _check_discrete,
    spaces.MultiDiscrete: _check_multi_discrete,
    spaces.MultiBinary: _check_multi_binary,
    spaces.Text: _check_text,
    spaces.Sequence: _check_sequence,
    spaces.OneOf: _check_one_of,
    spaces.Graph: _check_graph,
}
