"""A policy is a function; the random numbers it needs are handed to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.interpreters import Reference
from rlcore.foundation.random_streams import LaneRandomness


@dataclass(frozen=True, slots=True)
class Decision:
    """What a policy decided for every lane."""

    action: NDArray[Any]  # (lanes, …) inside the action space
    internal_state: Any = None  # lane tree, handed back at the next step; None: the policy remembers nothing
    log_prob: NDArray[np.float32] | None = None  # (lanes,) of the action, under the policy that chose it
    value: NDArray[np.float32] | None = None  # (lanes,) the critic's estimate


class Policy(ABC):
    """References of all lanes → decisions. It must not remember anything between calls but its parameters."""

    @abstractmethod
    def decide(
        self,
        reference: Reference,
        internal_state: Any,
        mask: NDArray[np.bool_] | None,
        randomness: LaneRandomness,
    ) -> Decision:
        """Decide for every lane.

        Args:
            reference: what the state interpreter's ``compress`` gave; a policy that wants observations expands it.
            internal_state: the lane tree of the decision before; None at the first step of all lanes, or always.
            mask: possible actions (lanes, actions), or None.
            randomness: the numbers of this step; a deterministic policy ignores them.
        """

    def initial_internal_state(self, num_lanes: int) -> Any:
        """Return the internal state of fresh episodes as a lane tree, or None."""
        return None
