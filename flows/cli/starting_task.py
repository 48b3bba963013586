"""A task of one's own, from nothing: find home on a line. ``experiment.yaml`` names this file under ``plugins``.

First come the parts, as in Python without any file; then one spec for each, which says what may stand in its section.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlcore.config import (
    EpisodeActionSpec,
    EpisodeObservationSpec,
    EpisodeRewardSpec,
    EpisodeShape,
    EpisodeSimulatorSpec,
)
from rlcore.contracts import ActionInterpreter, EpisodeStatus, Reward, Simulator, StateInterpreter
from rlcore.foundation.registry import Registry


class Walk(Simulator[int, int, int]):
    """One object is one episode. It begins ``initial`` steps right of home (left, where that is negative)."""

    def __init__(self, initial: int, wall: int) -> None:
        self.position, self.wall = initial, wall

    def step(self, action: int) -> None:
        self.position = max(-self.wall, min(self.wall, self.position + action))

    def get_state(self) -> int:
        return self.position

    def done(self) -> bool:
        return self.position == 0

    def metrics(self) -> Mapping[str, float]:
        # Figures of the finished episode: they stand beside the return everywhere.
        return {"distance_left": float(abs(self.position))}


class Position(StateInterpreter[int]):
    """What the agent sees: where it is, between -1 and 1."""

    observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, wall: int) -> None:
        self.wall = wall

    def interpret(self, state: int, status: EpisodeStatus) -> NDArray[np.float32]:
        return np.array([state / self.wall], np.float32)


class LeftOrRight(ActionInterpreter[int, int]):
    """What the agent's choices mean: 0 is a step to the left, 1 a step to the right."""

    action_space = spaces.Discrete(2)

    def interpret(self, state: int, action: Any, status: EpisodeStatus) -> int:
        return 2 * int(action) - 1


class Arrival(Reward[int]):
    """1 at home, else nothing."""

    def reward(self, outcome: int, status: EpisodeStatus) -> float:
        return float(outcome == 0)


class Effort(Reward[int]):
    """Every step costs 1; its weight in the file says what that is worth."""

    def reward(self, outcome: int, status: EpisodeStatus) -> float:
        return -1.0


class WalkSpec(EpisodeSimulatorSpec):
    """A walk on a line between two walls, until home is reached."""

    kind: Literal["walk"]
    wall: int
    """Steps from home to either wall."""

    def build(self) -> Callable[[int], Walk]:
        return partial(Walk, wall=self.wall)


class PositionSpec(EpisodeObservationSpec):
    """The position, between -1 and 1."""

    kind: Literal["position"]

    def build(self, shape: EpisodeShape) -> Position:
        assert isinstance(shape.simulator, WalkSpec)  # it reads the walls from there, so that the file says them once
        return Position(shape.simulator.wall)


class LeftOrRightSpec(EpisodeActionSpec):
    """A step to the left or to the right."""

    kind: Literal["left_or_right"]

    def build(self, shape: EpisodeShape) -> LeftOrRight:
        return LeftOrRight()


class ArrivalSpec(EpisodeRewardSpec):
    """1 at home."""

    kind: Literal["arrival"]

    def build(self, shape: EpisodeShape) -> Arrival:
        return Arrival()


class EffortSpec(EpisodeRewardSpec):
    """-1 for every step."""

    kind: Literal["effort"]

    def build(self, shape: EpisodeShape) -> Effort:
        return Effort()


def register(registry: Registry) -> None:
    """Called once at every load of an experiment that names this file."""
    registry.register("simulator", "walk", WalkSpec)
    registry.register("observation", "position", PositionSpec)
    registry.register("action", "left_or_right", LeftOrRightSpec)
    registry.register("reward", "arrival", ArrivalSpec)
    registry.register("reward", "effort", EffortSpec)
