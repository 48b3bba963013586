"""What users' parts give for all lanes has one row for each of them: fewer are no observation for all, and one figure none."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
from gymnasium import spaces

from rlcore.contracts import (
    LaneActionInterpreter,
    LaneReward,
    LaneSimulator,
    LaneStateInterpreter,
    LaneStep,
    SequenceSeedSet,
    WeightedReward,
)
from rlcore.contracts.policy import Decision, Policy
from rlcore.environment import EnvironmentParts, Passage, evaluate, run_steps, start_lanes, training_draw
from rlcore.foundation.errors import ContractError, EvaluationError
from rlcore.foundation.random_streams import RandomStreams

NUM_LANES = 4
SEEDS = SequenceSeedSet([3, 5, 7, 9])
REFUSED = ContractError, EvaluationError  # the second: where one lane alone is refused too, it is that seed's failure


class Wait(LaneSimulator):
    """All episodes take three steps, so that no lane is ever taken from the others."""

    max_steps = 3

    def start(self, seeds):
        return np.array([[float(seed), 0.0] for seed in seeds])

    def view(self, state):
        return state

    def step(self, state, command):
        after = state + np.array([0.0, 1.0])
        return LaneStep(after, after, after[:, 1] >= 3, np.zeros(len(after), bool))

    def metrics(self, state):
        return {"start": state[:, 0]}


class First(LaneStateInterpreter):
    observation_space = spaces.Box(0, 9, (1,), np.float64)

    def interpret(self, view, status):
        return view[:, :1]


class Any2(LaneActionInterpreter):
    action_space = spaces.Discrete(2)

    def interpret(self, view, action, status):
        return action


class One(LaneReward):
    def reward(self, outcome, status):
        return np.ones(len(outcome))


class Zeros(Policy):
    def decide(self, reference, internal_state, mask, randomness):
        return Decision(np.zeros(NUM_LANES, np.int64), internal_state)


def evaluated(**changed):
    parts = EnvironmentParts(Wait(), First(), Any2(), WeightedReward({"one": (One(), 1.0)}))
    return evaluate(replace(parts, **changed), Zeros(), SEEDS, RandomStreams(0), "validation", NUM_LANES)


def other_rows(part, method, change):
    """Return the part with another answer."""
    answer = getattr(part, method)
    changed = copy.copy(part)
    object.__setattr__(changed, method, lambda *arguments: change(answer(*arguments)))
    return changed


def test_the_parts_of_this_file_are_good():
    assert evaluated()["start"].tolist() == [3, 5, 7, 9]


@pytest.mark.parametrize("change", [lambda rows: rows[:1], lambda rows: rows[:-1], lambda rows: np.concatenate([rows, rows])])
def test_observations_have_a_row_for_each_lane(change):
    with pytest.raises(REFUSED, match=r"must have one row for each lane, had \d and \d"):
        evaluated(state_interpreter=other_rows(First(), "interpret", change))


class OneForAll(Zeros):
    def initial_internal_state(self, num_lanes):
        return {"seen": np.zeros((1, 2))}


def test_internal_states_have_a_row_for_each_lane():
    parts = EnvironmentParts(Wait(), First(), Any2(), WeightedReward({"one": (One(), 1.0)}))
    passage = Passage(RandomStreams(0), "train", NUM_LANES)

    def draw(position, count):
        return training_draw(0, len(SEEDS), position, count)

    running = start_lanes(parts, OneForAll(), SEEDS, draw, passage)
    with pytest.raises(ContractError, match=r"must have one row for each lane, had 4 and 1"):
        run_steps(parts, OneForAll(), SEEDS, draw, running, 2, passage)


@pytest.mark.parametrize("figure", [lambda rows: rows[:1], lambda rows: rows[0], lambda rows: rows[:, None], lambda rows: 1.0])
def test_metrics_have_a_figure_for_each_lane(figure):
    simulator = other_rows(Wait(), "metrics", lambda figures: {"start": figure(figures["start"])})
    with pytest.raises(REFUSED, match=r"metric 'start' of the simulator must have shape \(lanes,\) = \(\d,\), was"):
        evaluated(simulator=simulator)
