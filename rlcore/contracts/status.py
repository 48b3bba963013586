"""What interpreters and rewards may know about the episode besides the simulator's view or outcome."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.foundation.records import step_record


@step_record
class LaneStatus:
    """Where each lane stands. Arrays are (lanes,)."""

    seed_id: NDArray[np.int64]  # position of the lane's seed in its seed set
    visit: NDArray[np.int64]  # how often this seed was used before, in this phase
    step: NDArray[np.int64]  # decisions taken so far
    is_done: NDArray[np.bool_]  # the last step terminated or truncated the episode


@dataclass(slots=True)
class EpisodeStatus:
    """The status of one episode, for one-episode parts. Histories hold the policy's side of every step so far."""

    step: int = 0
    is_done: bool = False
    initial_state: Any = None
    observations: list[Any] = field(default_factory=list)
    actions: list[Any] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
