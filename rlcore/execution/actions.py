"""Policy actions → shares to trade in the coming step. The simulator clips to what remains and completes in the last step."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlcore.contracts.interpreters import LaneActionInterpreter
from rlcore.contracts.status import LaneStatus
from rlcore.execution.states import ExecutionView
from rlcore.foundation.errors import ConfigError

Floats = NDArray[np.float64]


class CategoricalFractions(LaneActionInterpreter[ExecutionView, Floats]):
    """Action a trades ``fractions[a]`` of the whole order.

    Args:
        fractions: increasing, in [0, 1], at least two. ``even_fractions(4)`` gives 0, ¼, ½, ¾, 1.
    """

    def __init__(self, fractions: tuple[float, ...]) -> None:
        values = np.array(fractions, np.float64)
        if len(values) < 2 or not ((values >= 0.0) & (values <= 1.0)).all() or not (np.diff(values) > 0.0).all():
            raise ConfigError(f"fractions must be at least two increasing numbers in [0, 1], were {list(fractions)}")
        self.fractions = tuple(float(value) for value in values)
        self._fractions = values
        self._space = spaces.Discrete(len(values))

    @property
    def action_space(self) -> spaces.Discrete:
        return self._space

    def interpret(self, view: ExecutionView, action: NDArray[np.int64], status: LaneStatus) -> Floats:
        return self._fractions[action] * view.order.quantity


def even_fractions(num_parts: int) -> tuple[float, ...]:
    """Return 0, 1/n, …, 1: what QlibRL's ``CategoricalActionInterpreter(values=n)`` means."""
    if num_parts < 1:
        raise ConfigError(f"number of equal parts must be at least 1, was {num_parts}")
    return tuple(part / num_parts for part in range(num_parts + 1))


class TwapRelative(LaneActionInterpreter[ExecutionView, Floats]):
    """Action a trades a times the even pace: a · remaining / steps left, steps counted on the day's grid.

    Args:
        largest_multiple: upper end of the action space; 1 is TWAP's pace.
    """

    def __init__(self, largest_multiple: float) -> None:
        if not largest_multiple > 0.0:
            raise ConfigError(f"largest_multiple must be above 0, was {largest_multiple}")
        self._space = spaces.Box(0.0, largest_multiple, (1,), np.float32)

    @property
    def action_space(self) -> spaces.Box:
        return self._space

    def interpret(self, view: ExecutionView, action: NDArray[np.float32], status: LaneStatus) -> Floats:
        return action[:, 0] * view.remaining / (view.num_steps - view.step)


class DirectQuantity(LaneActionInterpreter[ExecutionView, Floats]):
    """The action is the number of shares itself, for rules that compute one."""

    def __init__(self) -> None:
        self._space = spaces.Box(0.0, np.inf, (1,), np.float64)

    @property
    def action_space(self) -> spaces.Box:
        return self._space

    def interpret(self, view: ExecutionView, action: Floats, status: LaneStatus) -> Floats:
        return action[:, 0]
