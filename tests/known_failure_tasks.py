"""Small parts and runs for the tests of known failures: each test brings its simulator."""

from __future__ import annotations

from functools import partial

import numpy as np
from gymnasium import spaces

from rlcore.contracts import ActionInterpreter, Reward, StateInterpreter
from rlcore.environment import (
    Passage,
    RandomActions,
    keep_transitions,
    run_episodes,
    run_steps,
    start_lanes,
    training_draw,
)
from rlcore.foundation.random_streams import RandomStreams

STREAMS = RandomStreams(3)
CHOICES = spaces.Discrete(3)
RANDOM = RandomActions(CHOICES)


class Chooses(ActionInterpreter):
    action_space = CHOICES

    def interpret(self, state, action, status):
        return int(action)


class Shows(StateInterpreter):
    """The state is the observation."""

    observation_space = None

    def __init__(self, space):
        self.observation_space = space

    def interpret(self, state, status):
        return state


class Paid(Reward):
    """The outcome is the reward."""

    def reward(self, outcome, status):
        return outcome


def whole_episodes(parts, policy, seeds, num_lanes):
    ids = np.arange(len(seeds))
    passage = Passage(STREAMS, "train", num_lanes)
    return run_episodes(parts, policy, seeds, ids, np.zeros(len(seeds), np.int64), passage, keep=keep_transitions)


def steps_of(parts, policy, seeds, num_lanes, *lengths):
    draw, passage = partial(training_draw, 5, len(seeds)), Passage(STREAMS, "train", num_lanes)
    running = start_lanes(parts, policy, seeds, draw, passage)
    fragments = []
    for length in lengths:
        fragments.append(run_steps(parts, policy, seeds, draw, running, length, passage))
        running = fragments[-1].running
    return fragments
