"""Environments for the tests of gymnasium's vector environments and wrappers."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from rlcore.contracts import (
    ActionInterpreter,
    AuxiliaryInfo,
    Reward,
    SequenceSeedSet,
    Simulator,
    StateInterpreter,
)
from rlcore.environment import EnvWrapper, looped_parts
from tests.environment_toys import looped_spend_parts, spend_parts, spend_seeds

NUM_SEEDS = 30


class LeftAndLabel(AuxiliaryInfo):
    def collect(self, state, status):
        return {"left": state["left"], "pair": np.array([state["step"], status.step]), "label": f"step {status.step}"}


def make_lanes():
    return EnvWrapper(spend_parts(), spend_seeds(NUM_SEEDS))


def make_looped():
    return EnvWrapper(looped_spend_parts(auxiliary=LeftAndLabel()), spend_seeds(NUM_SEEDS))


class ThreeSteps(Simulator):
    """A reward of 1 three times, whatever is done."""

    def __init__(self, initial) -> None:
        self.num_steps = 0

    def step(self, action):
        self.num_steps += 1

    def get_state(self):
        return self.num_steps

    def done(self):
        return self.num_steps == 3


class NumSteps(StateInterpreter):
    observation_space = spaces.Discrete(4)

    def interpret(self, state, status):
        return state


class Anything(ActionInterpreter):
    action_space = spaces.Discrete(2)

    def interpret(self, state, action, status):
        return action


class One(Reward):
    def reward(self, outcome, status):
        return 1.0


def make_three():
    return EnvWrapper(looped_parts(ThreeSteps, NumSteps(), Anything(), One(), max_steps=3), SequenceSeedSet(range(4)))
