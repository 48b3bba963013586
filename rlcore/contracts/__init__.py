"""What a task is made of: simulators, interpreters, rewards, seed sets, policies."""

from rlcore.contracts.auxiliary_info import AuxiliaryInfo, LaneAuxiliaryInfo
from rlcore.contracts.interpreters import (
    ActionInterpreter,
    LaneActionInterpreter,
    LaneStateInterpreter,
    SharesHistory,
    StateInterpreter,
)
from rlcore.contracts.policy import Decision, Policy
from rlcore.contracts.reward import LaneReward, Reward, WeightedReward
from rlcore.contracts.seeds import SeedSet, SequenceSeedSet
from rlcore.contracts.simulator import LaneSimulator, LaneStep, Simulator
from rlcore.contracts.status import EpisodeStatus, LaneStatus

__all__ = [
    "ActionInterpreter",
    "AuxiliaryInfo",
    "Decision",
    "EpisodeStatus",
    "LaneActionInterpreter",
    "LaneAuxiliaryInfo",
    "LaneReward",
    "LaneSimulator",
    "LaneStateInterpreter",
    "LaneStatus",
    "LaneStep",
    "Policy",
    "Reward",
    "SeedSet",
    "SequenceSeedSet",
    "SharesHistory",
    "Simulator",
    "StateInterpreter",
    "WeightedReward",
]
