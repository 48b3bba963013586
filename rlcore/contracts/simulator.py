"""Simulators: what a user writes for one episode, and what the engine sees for many lanes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from rlcore.foundation.records import step_record

Initial = TypeVar("Initial")
State = TypeVar("State")
Action = TypeVar("Action")
Seeds = TypeVar("Seeds")
View = TypeVar("View")
Command = TypeVar("Command")
Outcome = TypeVar("Outcome")


class Simulator(ABC, Generic[Initial, State, Action]):
    """One episode, made from an initial state; to start again, make another."""

    @abstractmethod
    def __init__(self, initial: Initial) -> None: ...

    @abstractmethod
    def step(self, action: Action) -> None:
        """Carry out one action. Never called after ``done()`` or ``truncated()``."""

    @abstractmethod
    def get_state(self) -> State:
        """Return what the state interpreter may know now."""

    @abstractmethod
    def done(self) -> bool:
        """Whether the episode has ended by its own rules (terminated): True or False, and False before the first step."""

    def truncated(self) -> bool:
        """Whether the episode was cut from outside, so that its value goes on beyond the last state."""
        return False

    def outcome(self) -> Any:
        """Return what happened in the last step, for the reward; hindsight is allowed. Default: the state."""
        return self.get_state()

    def metrics(self) -> Mapping[str, float]:
        """Return figures of the finished episode for the episode table."""
        return {}


@step_record
class LaneStep(Generic[State, Outcome]):
    """What one step of all lanes gives. Every array has a leading lane axis."""

    state: State
    outcome: Outcome
    terminated: NDArray[np.bool_]  # (lanes,) ended by the task's own rules
    truncated: NDArray[np.bool_]  # (lanes,) cut from outside; the value goes on


class LaneSimulator(ABC, Generic[Seeds, State, View, Command, Outcome]):
    """Many episodes at once, functional: states are frozen lane trees (``foundation.lanes``)."""

    @property
    @abstractmethod
    def max_steps(self) -> int:
        """The largest number of steps that an episode can take; the engine reserves this much room."""

    @abstractmethod
    def start(self, seeds: Seeds) -> State:
        """Return the first state of one lane for each seed."""

    @abstractmethod
    def view(self, state: State) -> View:
        """Return what an interpreter may know now; a view cannot reach past now."""

    @abstractmethod
    def step(self, state: State, command: Command) -> LaneStep[State, Outcome]:
        """Carry out one command in every lane. All lanes given are alive."""

    @property
    def identity(self) -> str:
        """What a checkpoint calls this part: of another, it does not continue a training."""
        return type(self).__qualname__

    def metrics(self, state: State) -> Mapping[str, NDArray[np.float64]]:
        """Return figures of finished episodes for the episode table, each (lanes,)."""
        return {}
