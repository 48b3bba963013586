"""Tasks of QlibRL's own tests, for ours: without torch, because worker processes import what they are sent."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from rlcore.contracts import ActionInterpreter, AuxiliaryInfo, Reward, Simulator, StateInterpreter
from rlcore.environment import looped_parts

NUM_EPISODES = 30


def planned(initial):
    """Return what an episode will show: ``a`` at every step, ``c`` at its third and fourth."""
    rng = np.random.default_rng(initial)
    length = 4 + int(rng.geometric(0.5))
    return rng.integers(1, 11, length), rng.integers(11, 21, 2)


class Chatty(Simulator):
    def __init__(self, initial):
        self.a, self.c = planned(initial)
        self.taken = 0

    def step(self, action):
        self.taken += 1

    def get_state(self):
        return self

    def done(self):
        return self.taken == len(self.a)

    def metrics(self):
        return {"c": float(self.c.mean())}


class Nothing(StateInterpreter):
    observation_space = spaces.Discrete(2)

    def interpret(self, state, status):
        return int(status.step > 0)


class Unused(ActionInterpreter):
    action_space = spaces.Discrete(2)

    def interpret(self, state, action, status):
        return action


class FortyTwo(Reward):
    def reward(self, outcome, status):
        return 42.0


class WhatItSays(AuxiliaryInfo):
    def collect(self, state, status):
        return {"a": state.a[state.taken - 1], "b": np.array([[1, 3], [2, 4]])}


def chatty_parts():
    return looped_parts(Chatty, Nothing(), Unused(), FortyTwo(), max_steps=100, auxiliary=WhatItSays())


class Creeping(Simulator):
    """Grows by each action until its fraction lies above one half."""

    def __init__(self, initial):
        self.hundredths = 100 * initial

    def step(self, action):
        self.hundredths += action

    def get_state(self):
        return self.hundredths / 100

    def done(self):
        return self.hundredths % 100 > 50


class ShowPlace(StateInterpreter):
    observation_space = spaces.Box(0, np.inf, (), np.float32)

    def interpret(self, state, status):
        return np.float32(state)


class Push(ActionInterpreter):
    action_space = spaces.Discrete(5)

    def interpret(self, state, action, status):
        return int(action)


class Free(Reward):
    def reward(self, outcome, status):
        return 0.0
