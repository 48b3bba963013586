"""The one file that knows tianshou's Batch: how our transitions reach ``Algorithm.update``, and come out again.

A Batch holds row numbers and nothing else: observations stay references in arrays of ours, because a Batch would copy
them, turn dicts into Batches and lose tuples.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tianshou.data import Batch


class RowSource:
    """Stands where tianshou expects a replay buffer: the rows to learn from are 0 … num_rows − 1."""

    def __init__(self, num_rows: int) -> None:
        self.num_rows = num_rows

    def sample(self, sample_size: int | None) -> tuple[Batch, NDArray[np.int64]]:
        """Return all rows in order: tianshou asks for 0 and means all."""
        rows = np.arange(self.num_rows)
        return Batch(row=rows), rows


def weighted_rows(rows: NDArray[np.int64], weight: NDArray[np.float32] | None) -> Batch:
    """Return a Batch of row numbers, with their weights in the loss where they do not count alike."""
    return Batch(row=rows) if weight is None else Batch(row=rows, weight=weight)


def rows_of(batch: Any) -> NDArray[np.int64]:
    """Return the row numbers that a Batch holds."""
    return batch.row  # type: ignore[no-any-return]  # Batch is untyped


def weights_of(batch: Any) -> NDArray[np.float32] | None:
    """Return the rows' weights in the loss, or None where they count alike."""
    return batch.get("weight")  # type: ignore[no-any-return]  # as above


def shuffled_rows(batch: Any, batch_size: int) -> Iterator[NDArray[np.int64]]:
    """Yield the batch's rows in random order, ``batch_size`` at a time; fewer left over go with the last."""
    for part in batch.split(batch_size, shuffle=True, merge_last=True):
        yield rows_of(part)


def batch_of(observation: Any) -> Any:
    """Return an observation as tianshou's collector wants it: arrays as they are, dicts of arrays as a Batch."""
    return Batch(observation) if isinstance(observation, dict) else observation
