"""What tests with tianshou's own collector and buffers need."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from tianshou.algorithm.algorithm_base import Policy
from tianshou.data import Batch
from tianshou.data.buffer import manager


def without_compilation() -> Iterator[None]:
    """Run the buffers' index arithmetic as it is written: compiling it takes 15 seconds in every process.

    For use as ``pytest.fixture(without_compilation, scope="module", autouse=True)``.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_prev_index", "_next_index"):
            patch.setattr(manager, name, getattr(manager, name).py_func)
        yield


class Choices(Policy):
    """Chooses by a function of how many actions are wanted, and notes what it was asked.

    tianshou's own random policy answers a discrete space with floats, which lie outside it.
    """

    def __init__(self, action_space, choose) -> None:
        super().__init__(action_space=action_space)
        self.choose, self.asked = choose, []

    def forward(self, batch, state=None, **kwargs):
        self.asked.append(batch.obs)
        return Batch(act=self.choose(len(batch.obs)))

    @staticmethod
    def _compile() -> None:
        """Compile nothing here either: no returns are computed."""


def always(action_space, action) -> Choices:
    return Choices(action_space, lambda count: np.array([action] * count))
