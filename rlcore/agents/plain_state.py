"""State as plain data: what ``torch.load(weights_only=True)`` accepts, sharing memory with nobody."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import nn

from rlcore.foundation.errors import CheckpointError


def module_state(module: nn.Module) -> dict[str, torch.Tensor]:
    """Return copies of a module's parameters and statistics, on the CPU."""
    return {name: value.detach().cpu().clone() for name, value in module.state_dict().items()}


def optimizer_state(state: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of an optimiser's state, on the CPU."""
    return _on_cpu(copy.deepcopy(state))  # type: ignore[no-any-return]  # a dict stays one


def load_module_state(module: nn.Module, state: dict[str, Any], what: str) -> None:
    """Restore parameters and statistics.

    Raises:
        CheckpointError: where names or shapes differ.
    """
    try:
        module.load_state_dict(state)
    except (RuntimeError, KeyError, AttributeError, TypeError) as error:
        raise CheckpointError(f"{what} must fit the agent's spec and spaces, does not: {error}") from error


def tree_to_tensors(tree: Any) -> Any:
    """Return a lane tree with copies of its arrays as tensors."""
    if isinstance(tree, np.ndarray):
        return torch.from_numpy(tree.copy())
    if isinstance(tree, dict):
        return {key: tree_to_tensors(part) for key, part in tree.items()}
    if type(tree) is tuple:  # a named tuple would come back without its names
        return tuple(tree_to_tensors(part) for part in tree)
    if tree is None:
        return None
    raise TypeError(f"references that are remembered must be arrays, or dicts or tuples of arrays, held {type(tree).__name__}")


def tree_from_tensors(tree: Any) -> Any:
    """Undo ``tree_to_tensors``; the arrays are copies."""
    if isinstance(tree, torch.Tensor):
        return tree.numpy().copy()
    if isinstance(tree, dict):
        return {key: tree_from_tensors(part) for key, part in tree.items()}
    if isinstance(tree, tuple):
        return tuple(tree_from_tensors(part) for part in tree)
    return None


def require_kind(state: dict[str, Any], kind: str) -> None:
    """Refuse the state of another kind of agent."""
    if state.get("kind") != kind:
        raise CheckpointError(
            f"state of the agent must be that of a {kind!r} agent, was of {state.get('kind')!r}: take its own spec"
        )


def _on_cpu(tree: Any) -> Any:
    if isinstance(tree, torch.Tensor):
        return tree.cpu()
    if isinstance(tree, dict):
        return {key: _on_cpu(part) for key, part in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(_on_cpu(part) for part in tree)
    return tree
