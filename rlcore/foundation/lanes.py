"""Trees of arrays with a leading lane axis: select, replace, concatenate, pad.

A lane tree is an array, or a dict, tuple, named tuple or frozen dataclass of lane trees. Fields of a dataclass that hold neither
(a store, a number) are shared by all lanes and pass through unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rlcore.foundation.errors import ContractError

Tree = TypeVar("Tree")
LaneIds = NDArray[np.intp]


def map_lanes(function: Callable[..., Any], tree: Tree, *others: Tree) -> Tree:
    """Apply ``function`` to every array of the tree (and the arrays at the same place of ``others``)."""
    if isinstance(tree, np.ndarray):
        return function(tree, *others)  # type: ignore[no-any-return]  # a lane tree of one leaf is that leaf
    if isinstance(tree, dict):
        return {k: map_lanes(function, v, *(o[k] for o in others)) for k, v in tree.items()}  # type: ignore[return-value,index]  # same form as tree
    if isinstance(tree, tuple):
        leaves = [map_lanes(function, *children) for children in zip(tree, *others, strict=True)]
        return tuple(leaves) if type(tree) is tuple else type(tree)(*leaves)  # type: ignore[return-value]  # same form as tree
    if is_dataclass(tree) and not isinstance(tree, type):
        changed = {
            f.name: map_lanes(function, getattr(tree, f.name), *(getattr(o, f.name) for o in others)) for f in fields(tree)
        }
        return replace(tree, **changed)
    return tree


def first_array(tree: Any) -> NDArray[Any] | None:
    """Return the first array of the tree, or None where it holds none."""
    if isinstance(tree, np.ndarray):
        return tree
    if isinstance(tree, dict):
        children = list(tree.values())
    elif isinstance(tree, tuple):
        children = list(tree)
    elif is_dataclass(tree):
        children = [getattr(tree, f.name) for f in fields(tree)]
    else:
        return None
    return next((found for child in children if (found := first_array(child)) is not None), None)


def num_lanes(tree: Any) -> int:
    """Return the length of the lane axis."""
    array = first_array(tree)
    if array is None:
        raise ValueError("a lane tree must hold at least one array, held none")
    return len(array)


def take_lanes(tree: Tree, lanes: LaneIds | NDArray[np.bool_] | slice) -> Tree:
    """Return the tree restricted to ``lanes`` (indices in order, a mask or a slice)."""
    # A mask is searched once, not once for each leaf.
    at = np.flatnonzero(lanes) if isinstance(lanes, np.ndarray) and lanes.dtype == np.bool_ else lanes
    return map_lanes(lambda leaf: leaf[at], tree)


def concat_lanes(*trees: Tree) -> Tree:
    """Return one tree with the lanes of all, in order."""
    return map_lanes(lambda *leaves: np.concatenate(leaves), *trees)


def pad_lanes(tree: Tree, length: int) -> Tree:
    """Return the tree with its last lane repeated until there are ``length`` lanes.

    Raises:
        ContractError: for arrays of different lengths, of which no row belongs to a lane for sure.
    """
    count = num_lanes(tree)
    missing = length - count

    def pad(leaf: NDArray[Any]) -> NDArray[Any]:
        if len(leaf) != count:
            raise ContractError(
                "observations, masks and internal states must have one row for each lane, "
                f"had {count} and {len(leaf)}: mend the part that makes them"
            )
        return leaf if missing <= 0 else np.concatenate([leaf, np.repeat(leaf[-1:], missing, axis=0)])

    return map_lanes(pad, tree)


def stack_steps(trees: list[Tree]) -> Tree:
    """Stack trees along a new leading axis: a list over steps becomes arrays ``(steps, …)``."""
    return map_lanes(lambda *leaves: np.stack(leaves), trees[0], *trees[1:])
