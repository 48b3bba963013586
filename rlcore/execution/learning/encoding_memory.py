"""Encodings of histories, remembered between decisions while the parameters stand."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlcore.contracts.interpreters import SharesHistory
from rlcore.execution.learning.causal_encoder import CausalEncoder

# Histories are encoded so many at a time, always: the last bits of matrix products depend on the number of rows.
_CHUNK = 128


class EncodingMemory:
    """States of a causal encoder by history and position.

    A state that is not there is continued from the latest one before it, so that in a rollout each tick of each history
    is encoded once. What is remembered changes the time that takes, and not a bit of the result. Copies are made empty.

    Args:
        limit: states that are remembered; when there are more, all are dropped.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._shared: SharesHistory | None = None
        self._positions: dict[int, list[int]] = {}  # history key → positions with a state, ascending
        self._states: dict[tuple[int, int], NDArray[np.float32]] = {}  # (history key, position) → state

    def __reduce__(self) -> tuple[Any, ...]:
        return EncodingMemory, (self._limit,)

    def clear(self) -> None:
        """Forget everything."""
        self._shared = None
        self._positions.clear()
        self._states.clear()

    def states_at(
        self, encoder: CausalEncoder, shared: SharesHistory, key: NDArray[np.int64], position: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Return states (reads, hidden) of histories that start with a row of zeros: position p has seen the ticks before p.

        Call inside ``torch.inference_mode``.
        """
        if self._shared is not shared or len(self._states) > self._limit:
            self.clear()
            self._shared = shared
        wanted, read = np.unique(np.stack([key, position]), axis=1, return_inverse=True)
        names = list(zip(wanted[0].tolist(), wanted[1].tolist(), strict=True))
        missing = [name for name in names if name not in self._states]
        self._encode(encoder, shared, missing)
        return np.stack([self._states[name] for name in names])[read.reshape(-1)]

    def _encode(self, encoder: CausalEncoder, shared: SharesHistory, missing: list[tuple[int, int]]) -> None:
        """Encode what is missing, in chunks of equally long ways to go."""
        starts = [self._latest_before(*name) for name in missing]
        lengths = [position - start for (_, position), start in zip(missing, starts, strict=True)]
        longest_first = sorted(range(len(missing)), key=lambda at: -lengths[at])
        found: list[tuple[tuple[int, int], NDArray[np.float32]]] = []
        for first in range(0, len(missing), _CHUNK):
            chunk = longest_first[first : first + _CHUNK]
            states = self._encode_chunk(encoder, shared, [missing[at] for at in chunk], [starts[at] for at in chunk])
            found += zip([missing[at] for at in chunk], states, strict=True)
        for (key, position), state in found:
            self._states[key, position] = state
            known = self._positions.setdefault(key, [])
            known.insert(bisect_left(known, position), position)

    def _encode_chunk(
        self, encoder: CausalEncoder, shared: SharesHistory, names: list[tuple[int, int]], starts: list[int]
    ) -> list[NDArray[np.float32]]:
        """Take ``_CHUNK`` histories as far as the longest way; each state is picked up when its position is reached."""
        keys, start = np.array([key for key, _ in names]), np.array(starts)
        length = np.array([position for _, position in names]) - start
        longest = int(length.max())
        inputs = self._inputs(shared, keys, start, longest).to(encoder.device)
        known = np.zeros((_CHUNK, encoder.hidden_size), np.float32)
        for row, name in enumerate(zip(keys.tolist(), starts, strict=True)):
            if name[1] >= 0:
                known[row] = self._states[name]
        state = torch.from_numpy(known).to(encoder.device)
        result = np.empty((len(names), encoder.hidden_size), np.float32)
        for taken in range(1, longest + 1):
            state = encoder.step(inputs[taken - 1], state)
            arrived = np.flatnonzero(length == taken)
            if len(arrived):
                result[arrived] = state.cpu().numpy()[arrived]
        return list(result)

    @staticmethod
    def _inputs(shared: SharesHistory, keys: NDArray[np.int64], start: NDArray[np.int64], length: int) -> Tensor:
        """Return the inputs after the positions ``start``, (length, _CHUNK, features); position 0 is a row of zeros."""
        history = shared.histories(keys)
        position = start[:, None] + 1 + np.arange(length)
        tick = np.clip(position - 1, 0, history.shape[1] - 1)
        picked = history[np.arange(len(keys))[:, None], tick] * (position > 0)[..., None]
        inputs = np.zeros((length, _CHUNK, history.shape[2]), np.float32)
        inputs[:, : len(keys)] = picked.transpose(1, 0, 2)
        return torch.from_numpy(inputs)

    def _latest_before(self, key: int, position: int) -> int:
        """Return the last position before this one with a state; −1, where nothing has been seen, if there is none."""
        known = self._positions.get(key, [])
        at = bisect_left(known, position)
        return known[at - 1] if at else -1
