"""Draws in proportion to weights that change all the time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_FAN_OUT = 64


class SumTree:
    """Non-negative weights at the leaves, and at every node the sum of its 64 children.

    tianshou's SegmentTree does the same with two children, in numba code that takes four seconds to compile in every process;
    with 64 children NumPy is fast enough: 100,000 leaves take three levels. Sums depend on the leaves alone, to the bit, and
    not on the order in which they were set.

    Args:
        size: number of leaves.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        widths = [_FAN_OUT]
        while widths[0] < size:
            widths.insert(0, widths[0] * _FAN_OUT)
        # From the root's children down to the leaves.
        self._levels = [np.zeros(width) for width in reversed(widths)]

    @property
    def total(self) -> float:
        """Sum of all weights."""
        return float(self._levels[0].sum())

    def __getitem__(self, leaf: NDArray[np.int64] | slice) -> NDArray[np.float64]:
        return self._levels[-1][: self.size][leaf]

    def set(self, leaf: NDArray[np.int64], weight: NDArray[np.float64]) -> None:
        """Set weights; of a leaf that is named twice, the last counts."""
        self._levels[-1][leaf] = weight
        node = leaf
        for above, below in zip(self._levels[-2::-1], self._levels[:0:-1], strict=True):
            node = np.unique(node // _FAN_OUT)
            above[node] = below.reshape(-1, _FAN_OUT)[node].sum(-1)

    def find(self, mass: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return, for each mass in [0, total), the first leaf up to which the weights sum to more."""
        left = mass.copy()
        row = np.arange(len(mass))
        node = np.zeros(len(mass), np.int64)
        for level in self._levels:
            sums = level.reshape(-1, _FAN_OUT)[node].cumsum(-1)
            # Rounding may leave a little more than the last sum: then it is the last child that weighs anything.
            child = np.minimum((sums <= left[:, None]).sum(-1), (sums < sums[:, -1:]).sum(-1))
            left -= np.where(child > 0, sums[row, child - 1], 0.0)
            node = node * _FAN_OUT + child
        return node
