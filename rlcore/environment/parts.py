"""The four parts of an environment, together."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, Literal

from rlcore.contracts.auxiliary_info import LaneAuxiliaryInfo
from rlcore.contracts.interpreters import LaneActionInterpreter, LaneStateInterpreter
from rlcore.contracts.reward import WeightedReward
from rlcore.contracts.simulator import LaneSimulator
from rlcore.foundation.errors import ConfigError

SpaceChecks = Literal["all_episodes", "first_episodes"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EnvironmentParts:
    """What a task is made of. Picklable, so that worker processes get their own.

    Args:
        auxiliary: what else is worth knowing after each step; no policy sees it.
        space_checks: whose actions and observations are held to their spaces: those of all episodes, or of each seed's first
            episode in a phase (evaluations are always checked, since they play every seed once). The latter is said in the log.
    """

    simulator: LaneSimulator[Any, Any, Any, Any, Any]
    state_interpreter: LaneStateInterpreter[Any]
    action_interpreter: LaneActionInterpreter[Any, Any]
    reward: WeightedReward[Any]
    auxiliary: LaneAuxiliaryInfo[Any] | None = None
    space_checks: SpaceChecks = "all_episodes"

    def describe(self) -> dict[str, Any]:
        """Return plain data that says which parts these are: a checkpoint of others does not continue a training."""
        return {
            "simulator": self.simulator.identity,
            "max_steps": self.simulator.max_steps,
            "state_interpreter": self.state_interpreter.identity,
            "action_interpreter": self.action_interpreter.identity,
            "reward_terms": self.reward.identities,
            "reward_weights": self.reward.weights,
            "observation_space": repr(self.state_interpreter.observation_space),
            "action_space": repr(self.action_interpreter.action_space),
        }

    def __post_init__(self) -> None:
        if self.space_checks not in ("all_episodes", "first_episodes"):
            raise ConfigError(f"space_checks must be all_episodes or first_episodes, was {self.space_checks!r}")
        if self.space_checks == "first_episodes":
            logger.warning("actions and observations are held to their spaces in each seed's first episode only")
