"""The sentinel against numbers that are not finite: it says what and where, before any parameter is touched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlcore.contracts.interpreters import Observation, Reference
from rlcore.foundation.errors import ContractError
from rlcore.foundation.lanes import map_lanes

# Sums of products with numbers like this leave float32 (3.4e38) within a few layers, whatever sound parameters are.
_TOO_LARGE = 1e30
_LARGEST = float(np.finfo(np.float32).max)


def _lane_of(row: int) -> str:
    return f"in lane {row}"


def require_finite_outputs(
    outputs: tuple[Tensor, ...], observation: Observation, place_of: Callable[[int], str] = _lane_of
) -> None:
    """Hold what a network returned to finite numbers.

    Args:
        outputs: each (lanes, …).
        observation: what the network saw, or a reference to it; searched only when something is wrong.
        place_of: names a row, for the message.

    Raises:
        ContractError: naming the lane, and the field of the observation if that is to blame.
    """
    if all(bool(torch.isfinite(output).all()) for output in outputs):
        return
    is_bad = torch.stack([~torch.isfinite(output).reshape(len(output), -1).all(-1) for output in outputs]).any(0)
    lane = int(is_bad.nonzero()[0, 0])
    found = describe_non_finite(observation, lane) or _search(observation, lane, "observation", _TOO_LARGE)
    blame = (
        f"{found}; mend the state interpreter or the data" if found else "its parameters are to blame; lower the learning rate"
    )
    raise ContractError(f"outputs of the network must be finite, were not {place_of(lane)}: {blame}")


def describe_non_finite(tree: Observation | Reference, lane: int) -> str:
    """Return ``"observation['x'] was nan"`` for the first bad number of a lane, or an empty string."""
    return _search(tree, lane, "observation", _LARGEST)


def require_finite_column(name: str, values: NDArray[Any] | None, seed_id: NDArray[np.int64], step: NDArray[np.int64]) -> None:
    """Hold one column of transitions, (rows,), to finite numbers.

    Raises:
        ContractError: naming the column, the seed and the step.
    """
    if values is None or not _is_bad(values).any():
        return
    row = int(np.flatnonzero(_is_bad(values))[0])
    raise ContractError(
        f"{name} of a transition must be finite, was {_shown(values[row])} for seed {seed_id[row]} at step {step[row]}; "
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
    if leaf.dtype.kind == "f" and leaf.size:
        is_bad |= _is_bad(leaf.reshape(len(leaf), -1)).any(-1)
    return leaf


def _is_bad(values: NDArray[Any], largest: float = _LARGEST) -> NDArray[np.bool_]:
    """Return where numbers are not finite, or will not be in the network's arithmetic."""
    is_sound: NDArray[np.bool_] = np.abs(values) <= largest  # false for NaN
    return ~is_sound


def _shown(value: Any) -> str:
    return f"{value}, too large for arithmetic in float32" if np.isfinite(value) else str(value)


def _search(tree: Any, lane: int, path: str, largest: float) -> str:
    if isinstance(tree, dict | tuple):
        for key, part in tree.items() if isinstance(tree, dict) else enumerate(tree):
            found = _search(part, lane, f"{path}[{key!r}]", largest)
            if found:
                return found
        return ""
    values = np.asarray(tree)
    row = np.ravel(values[lane])
    if values.dtype.kind != "f" or not _is_bad(row, largest).any():
        return ""
    return f"{path} was {_shown(row[_is_bad(row, largest)][0])}"
