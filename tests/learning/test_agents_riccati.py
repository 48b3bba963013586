"""PPO finds the linear feedback of closed form CF6, from episodes of two steps: what comes after the cut is in its critic alone.

x′ = x + u costs x² + u², discounted. Whoever takes the cut for the end has less reason to act: the feedback comes out too weak.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlcore.agents.build_agent import build_agent
from rlcore.agents.on_policy_specs import PPOSpec
from rlcore.agents.specs import LinearDecaySpec, MLPSpec
from rlcore.contracts.interpreters import LaneActionInterpreter, LaneStateInterpreter
from rlcore.contracts.reward import LaneReward, WeightedReward
from rlcore.contracts.seeds import SeedSet
from rlcore.contracts.simulator import LaneSimulator, LaneStep
from rlcore.environment.parts import EnvironmentParts
from rlcore.environment.rollout import Passage, keep_transitions, run_episodes
from rlcore.foundation.random_streams import RandomStreams

torch.set_num_threads(1)
torch.set_num_threads(1)
STEPS, DISCOUNT, EPISODES, ITERATIONS = 2, 0.95, 768, 120


def riccati(discount: float, num_steps: int = 10_000) -> tuple[float, float]:
    """Return P and K of the scalar regulator a = b = q = r = 1 with so many steps to go."""
    p = k = 0.0
    for _ in range(num_steps):
        k = discount * p / (1 + discount * p)
        p = 1 + k**2 + discount * p * (1 - k) ** 2
    return p, k


@dataclass(frozen=True, slots=True)
class State:
    x: np.ndarray
    step: np.ndarray


class Regulator(LaneSimulator[Any, Any, Any, Any, Any]):
    max_steps = STEPS

    def start(self, seeds: np.ndarray) -> State:
        return State(seeds, np.zeros(len(seeds), np.int64))

    def view(self, state: State) -> np.ndarray:
        return state.x

    def step(self, state: State, command: np.ndarray) -> LaneStep[Any, Any]:
        after = State(state.x + command, state.step + 1)
        is_cut = after.step == STEPS
        return LaneStep(after, state.x**2 + command**2, np.zeros_like(is_cut), is_cut)


class Place(LaneStateInterpreter[Any]):
    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)  # type: ignore[assignment]  # one space for all

    def interpret(self, view: np.ndarray, status: Any) -> np.ndarray:
        return view[:, None].astype(np.float32)


class Push(LaneActionInterpreter[Any, Any]):
    action_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)  # type: ignore[assignment]  # as above

    def interpret(self, view: Any, action: np.ndarray, status: Any) -> np.ndarray:
        return action[:, 0].astype(np.float64)


class Cost(LaneReward[Any]):
    def reward(self, outcome: np.ndarray, status: Any) -> np.ndarray:
        return -outcome


class Starts(SeedSet[Any]):
    fingerprint = "starts"  # type: ignore[assignment]  # one set
    _starts = np.random.default_rng(3).uniform(-2, 2, 100_000)

    def __len__(self) -> int:
        return len(self._starts)

    def take(self, seed_ids: np.ndarray) -> np.ndarray:
        return self._starts[seed_ids]


SPEC = PPOSpec(
    network=MLPSpec(sizes=(32, 32), activation="tanh"),
    learning_rate=3e-3,
    learning_rate_decay=LinearDecaySpec(num_iterations=120, final_fraction=0.05),
    discount=DISCOUNT,
    batch_size=256,
    num_repeats=4,
    entropy_weight=0.0,
    return_scaling="running",
)


def best_feedback_of_episodes(num_steps: int) -> float:
    """Return K of u = −K x that costs least until the cut: what is learnt by whoever takes the cut for the end."""
    k = np.linspace(0, 1, 10_001)
    cost = sum(DISCOUNT**step * (1 - k) ** (2 * step) * (1 + k**2) for step in range(num_steps))
    return float(k[np.argmin(cost)])


def test_the_closed_form_and_what_a_mistake_would_give() -> None:
    np.testing.assert_allclose(riccati(1.0), [(1 + 5**0.5) / 2, (5**0.5 - 1) / 2], rtol=1e-12)
    assert best_feedback_of_episodes(1000) == pytest.approx(riccati(DISCOUNT)[1], abs=1e-4)
    assert best_feedback_of_episodes(STEPS) < 0.85 * riccati(DISCOUNT)[1]


@pytest.mark.learning
@pytest.mark.parametrize("root", [0, 1, 2])
def test_the_regulator_is_found(root: int) -> None:
    parts = EnvironmentParts(Regulator(), Place(), Push(), WeightedReward({"cost": (Cost(), 1.0)}))
    agent = build_agent(SPEC, Place.observation_space, Push.action_space, Place(), root_seed=root, device="cpu")
    seeds, passage = Starts(), Passage(RandomStreams(root), "train", EPISODES)
    for iteration in range(ITERATIONS):
        first = iteration * EPISODES
        seed_id, visit = (first + np.arange(EPISODES)) % len(seeds), np.full(EPISODES, first // len(seeds))
        episodes = run_episodes(parts, agent.training_policy(), seeds, seed_id, visit, passage, keep=keep_transitions)
        assert episodes.rollout is not None
        agent.learn(episodes.rollout)
    _, k = riccati(DISCOUNT)
    x = np.linspace(-2, 2, EPISODES)
    randomness = passage.streams.lanes("test", *np.zeros((3, EPISODES), np.int64))
    push = agent.evaluation_policy().decide(x[:, None].astype(np.float32), None, None, randomness).action[:, 0]
    slope, deviation = float(np.polyfit(x, push, 1)[0]), float(np.std(push + k * x) / np.std(k * x))
    print(f"root {root}: K {-slope:.4f} (optimum {k:.4f}), deviation {deviation:.1%}")
    assert -slope == pytest.approx(k, rel=0.1)
    assert deviation <= 0.15
