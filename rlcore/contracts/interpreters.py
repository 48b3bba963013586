"""Interpreters translate between a simulator and a policy. They are stateless; their spaces tell the truth."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, Protocol, runtime_checkable

import gymnasium
import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.simulator import Action, Command, State, View
from rlcore.contracts.status import EpisodeStatus, LaneStatus

# Arrays for the network: an array, or a dict or tuple of observations. For lanes, with a leading lane axis.
Observation = Any
# What stands for an observation in our buffers: a dict of arrays with a leading lane axis.
Reference = Any


class StateInterpreter(ABC, Generic[State]):
    """One episode's state → one observation."""

    @property
    @abstractmethod
    def observation_space(self) -> gymnasium.Space[Any]: ...

    @abstractmethod
    def interpret(self, state: State, status: EpisodeStatus) -> Observation: ...


class ActionInterpreter(ABC, Generic[State, Action]):
    """One policy action → what the simulator accepts."""

    @property
    @abstractmethod
    def action_space(self) -> gymnasium.Space[Any]: ...

    @abstractmethod
    def interpret(self, state: State, action: Any, status: EpisodeStatus) -> Action: ...

    def mask(self, state: State, status: EpisodeStatus) -> NDArray[np.bool_] | None:
        """Return which discrete actions are possible now, shape (actions,); None: all are. Asked after the last step too."""
        return None

    @property
    def has_masks(self) -> bool:
        """Whether an action can be impossible: whether ``mask`` is overridden."""
        return type(self).mask is not ActionInterpreter.mask


class LaneStateInterpreter(ABC, Generic[View]):
    """Views of all lanes → observations.

    ``expand(compress(view, status))`` equals ``interpret(view, status)``. Overriding the pair stores long histories once:
    buffers hold the references, and whatever must be hidden is hidden in ``expand``.
    """

    is_compressing: ClassVar[bool] = False  # True where compress and expand are overridden

    @property
    @abstractmethod
    def observation_space(self) -> gymnasium.Space[Any]:
        """The space of one lane's observation; build it once, it is read at every step."""

    @abstractmethod
    def interpret(self, view: View, status: LaneStatus) -> Observation:
        """Return dense, self-contained observations, every array with a leading lane axis."""

    def compress(self, view: View, status: LaneStatus) -> Reference:
        """Return what the buffers keep of these observations."""
        return self.interpret(view, status)

    def expand(self, reference: Reference) -> Observation:
        """Return the observations that the references stand for."""
        return reference

    @property
    def identity(self) -> str:
        """What a checkpoint calls this part: of another, it does not continue a training."""
        return type(self).__qualname__


@runtime_checkable
class SharesHistory(Protocol):
    """What a LaneStateInterpreter adds so that a causal network encodes each history once and reads it at many ticks."""

    def history_keys(self, reference: Reference) -> NDArray[np.int64]:
        """Return which history each lane reads, shape (lanes,)."""

    def histories(self, keys: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return whole, unmasked histories, shape (keys, ticks, features). The network's causality hides the future."""


class LaneActionInterpreter(ABC, Generic[View, Command]):
    """Policy actions of all lanes → commands."""

    @property
    @abstractmethod
    def action_space(self) -> gymnasium.Space[Any]:
        """The space of one lane's action."""

    @abstractmethod
    def interpret(self, view: View, action: NDArray[Any], status: LaneStatus) -> Command: ...

    def mask(self, view: View, status: LaneStatus) -> NDArray[np.bool_] | None:
        """Return which discrete actions are possible, shape (lanes, actions); None: all are.

        It is asked once for every state, those after the last step included: a truncated episode's value goes on.
        """
        return None

    @property
    def has_masks(self) -> bool:
        """Whether an action can be impossible: whether ``mask`` is overridden."""
        return type(self).mask is not LaneActionInterpreter.mask

    @property
    def identity(self) -> str:
        """What a checkpoint calls this part: of another, it does not continue a training."""
        return type(self).__qualname__
