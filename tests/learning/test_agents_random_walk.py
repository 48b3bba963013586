"""The critics of PPO and A2C learn the random walk of closed form CF7, V = (1/6, …, 5/6), from fragments of cut episodes.

Five places between two ends; every step goes left or right, whatever the action; the right end pays one. Episodes are cut after
three steps and fragments stop anywhere, so that most of what a place is worth lies beyond what was seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlcore.agents.build_agent import build_agent
from rlcore.agents.specs import LinearDecaySpec, MLPSpec
from rlcore.contracts.interpreters import LaneActionInterpreter, LaneStateInterpreter
from rlcore.contracts.reward import LaneReward, WeightedReward
from rlcore.contracts.seeds import SeedSet
from rlcore.contracts.simulator import LaneSimulator, LaneStep
from rlcore.environment.parts import EnvironmentParts
from rlcore.environment.rollout import Passage
from rlcore.environment.seed_sampling import training_draw
from rlcore.environment.steps import run_steps, start_lanes
from rlcore.foundation.random_streams import RandomStreams
from tests.agents_toy import a2c_spec, ppo_spec

torch.set_num_threads(1)
CUT, LANES, STEPS, ITERATIONS = 3, 128, 4, 400
VALUES = np.arange(1, 6) / 6


@dataclass(frozen=True, slots=True)
class State:
    moves: np.ndarray  # (lanes, CUT)
    place: np.ndarray
    step: np.ndarray


class Walk(LaneSimulator[Any, Any, Any, Any, Any]):
    max_steps = CUT

    def start(self, seeds: np.ndarray) -> State:
        return State(seeds[:, 1:], seeds[:, 0], np.zeros(len(seeds), np.int64))

    def view(self, state: State) -> np.ndarray:
        return state.place

    def step(self, state: State, command: np.ndarray) -> LaneStep[Any, Any]:
        after = State(state.moves, state.place + state.moves[np.arange(len(command)), state.step], state.step + 1)
        is_over = (after.place == 0) | (after.place == 6)
        return LaneStep(after, after.place, is_over, ~is_over & (after.step == CUT))


class Place(LaneStateInterpreter[Any]):
    observation_space = spaces.Discrete(7)  # type: ignore[assignment]  # one space for all

    def interpret(self, view: np.ndarray, status: Any) -> np.ndarray:
        return view


class Wish(LaneActionInterpreter[Any, Any]):
    action_space = spaces.Discrete(2)  # type: ignore[assignment]  # as above

    def interpret(self, view: Any, action: np.ndarray, status: Any) -> np.ndarray:
        return action


class RightEnd(LaneReward[Any]):
    def reward(self, outcome: np.ndarray, status: Any) -> np.ndarray:
        return (outcome == 6).astype(float)


class Walks(SeedSet[Any]):
    fingerprint = "walks"  # type: ignore[assignment]  # one set

    def __init__(self) -> None:
        rng = np.random.default_rng(8)
        self._walks = np.concatenate([rng.integers(1, 6, (50_000, 1)), rng.choice([-1, 1], (50_000, CUT))], 1)

    def __len__(self) -> int:
        return len(self._walks)

    def take(self, seed_ids: np.ndarray) -> np.ndarray:
        return self._walks[seed_ids]


def true_values() -> np.ndarray:
    """Solve V = P V + r."""
    moves = 0.5 * (np.eye(5, k=1) + np.eye(5, k=-1))
    return np.linalg.solve(np.eye(5) - moves, np.array([0, 0, 0, 0, 0.5]))


def test_the_closed_form() -> None:
    np.testing.assert_allclose(true_values(), VALUES, rtol=1e-12)


@pytest.mark.learning
@pytest.mark.parametrize("gae_lambda", [0.0, 0.9])
@pytest.mark.parametrize("make_spec", [a2c_spec, partial(ppo_spec, num_repeats=1, batch_size=1000)], ids=["a2c", "ppo"])
def test_critics_look_beyond_cuts(make_spec: Any, gae_lambda: float) -> None:
    spec = make_spec(
        network=MLPSpec(sizes=(16,)),
        learning_rate=1e-2,
        learning_rate_decay=LinearDecaySpec(num_iterations=ITERATIONS, final_fraction=0.02),
        discount=1.0,
        gae_lambda=gae_lambda,
    )
    parts = EnvironmentParts(Walk(), Place(), Wish(), WeightedReward({"right": (RightEnd(), 1.0)}))
    agent = build_agent(spec, Place.observation_space, Wish.action_space, Place(), root_seed=1, device="cpu")
    seeds, passage = Walks(), Passage(RandomStreams(1), "train", LANES)
    draw = partial(training_draw, 1, len(seeds))
    running = start_lanes(parts, agent.training_policy(), seeds, draw, passage)
    for _ in range(ITERATIONS):
        fragment = run_steps(parts, agent.training_policy(), seeds, draw, running, STEPS, passage)
        running = fragment.running
        agent.learn(fragment.rollout)
    randomness = passage.streams.lanes("test", *np.zeros((3, 5), np.int64))
    values = agent.evaluation_policy().decide(np.arange(1, 6), None, None, randomness).value
    np.testing.assert_allclose(values, VALUES, atol=0.03)
