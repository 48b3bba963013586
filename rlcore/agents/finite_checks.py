"""The sentinel against numbers that are not finite: it says what and where, before any parameter is touched."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlcore.contracts.interpreters import Observation, Reference
from rlcore.foundation.errors import ContractError
from rlcore.foundation.lanes import map_lanes


def require_finite_outputs(outputs: tuple[Tensor, ...], observation: Observation) -> None:
    """Hold what a network returned to finite numbers.

    Args:
        outputs: each (lanes, …).
        observation: what the network saw, or a reference to it; searched only when something is wrong.

    Raises:
        ContractError: naming the lane, and the field of the observation if that is to blame.
    """
    if all(bool(torch.isfinite(output).all()) for output in outputs):
        return
    is_bad = torch.stack([~torch.isfinite(output).reshape(len(output), -1).all(-1) for output in outputs]).any(0)
    lane = int(is_bad.nonzero()[0, 0])
    found = describe_non_finite(observation, lane)
    blame = (
        f"{found}; mend the state interpreter or the data" if found else "its parameters are to blame; lower the learning rate"
    )
    raise ContractError(f"outputs of the network must be finite, were not in lane {lane}: {blame}")


def describe_non_finite(tree: Observation | Reference, lane: int) -> str:
    """Return ``"observation['x'] was nan"`` for the first bad number of a lane, or an empty string."""
    return _search(tree, lane, "observation")


def require_finite_column(name: str, values: NDArray[Any] | None, seed_id: NDArray[np.int64], step: NDArray[np.int64]) -> None:
    """Hold one column of transitions, (rows,), to finite numbers.

    Raises:
        ContractError: naming the column, the seed and the step.
    """
    if values is None or np.isfinite(values).all():
        return
    row = int(np.flatnonzero(~np.isfinite(values))[0])
    raise ContractError(
        f"{name} of a transition must be finite, was {values[row]} for seed {seed_id[row]} at step {step[row]}; "
        "nothing was learned from it"
    )


def require_finite_references(reference: Reference, seed_id: NDArray[np.int64], step: NDArray[np.int64]) -> None:
    """Hold references (rows, …) to finite numbers; what a compressed one stands for is checked where it is read."""
    is_bad = np.zeros(len(step), bool)
    map_lanes(lambda leaf: _mark_bad_rows(leaf, is_bad), reference)
    if is_bad.any():
        row = int(np.flatnonzero(is_bad)[0])
        raise ContractError(
            f"observation of a transition must be finite, but {describe_non_finite(reference, row)} "
            f"for seed {seed_id[row]} at step {step[row]}; nothing was learned from it"
        )


def require_finite_loss(loss: Tensor) -> None:
    """Raise before a loss that is not finite reaches the parameters."""
    if not bool(torch.isfinite(loss)):
        raise ContractError(
            f"loss must be finite, was {loss.item()}: the parameters are as before this gradient step; lower the learning rate"
        )


def require_finite_gradient(norm: Tensor, module: nn.Module) -> None:
    """Raise before a gradient that is not finite reaches the parameters."""
    if bool(torch.isfinite(norm)):
        return
    bad = [name for name, p in module.named_parameters() if p.grad is not None and not bool(torch.isfinite(p.grad).all())]
    raise ContractError(
        f"gradient must be finite, was not in {', '.join(bad) or 'its norm'}: the parameters are as before this gradient step; "
        "lower the learning rate or scale the rewards"
    )


def _mark_bad_rows(leaf: NDArray[Any], is_bad: NDArray[np.bool_]) -> NDArray[Any]:
    if leaf.dtype.kind == "f":
        is_bad |= ~np.isfinite(leaf.reshape(len(leaf), -1)).all(-1)
    return leaf


def _search(tree: Any, lane: int, path: str) -> str:
    if isinstance(tree, dict | tuple):
        for key, part in tree.items() if isinstance(tree, dict) else enumerate(tree):
            found = _search(part, lane, f"{path}[{key!r}]")
            if found:
                return found
        return ""
    values = np.asarray(tree)
    if values.dtype.kind != "f" or np.isfinite(values[lane]).all():
        return ""
    return f"{path} was {np.ravel(values[lane])[np.flatnonzero(~np.isfinite(np.ravel(values[lane])))[0]]}"
