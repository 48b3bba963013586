"""The four parts of an environment, together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlcore.contracts.interpreters import LaneActionInterpreter, LaneStateInterpreter
from rlcore.contracts.reward import WeightedReward
from rlcore.contracts.simulator import LaneSimulator


@dataclass(frozen=True, slots=True)
class EnvironmentParts:
    """What a task is made of. Picklable, so that worker processes get their own."""

    simulator: LaneSimulator[Any, Any, Any, Any, Any]
    state_interpreter: LaneStateInterpreter[Any]
    action_interpreter: LaneActionInterpreter[Any, Any]
    reward: WeightedReward[Any]
