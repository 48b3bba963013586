"""PPO, A2C and DQN solve the signal MDP of closed form CF5, judged exactly by dynamic programming over their greedy policy.

Five shares in five steps, at a signal s ∈ {−1, 0, 1} that is a Markov chain: selling n of q now gives (q − n) · s / 2 − n² / 10.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from rlcore.agents.build_agent import build_agent
from rlcore.agents.off_policy_specs import DQNSpec, ExplorationSpec
from rlcore.agents.on_policy_specs import A2CSpec, PPOSpec
from rlcore.agents.specs import AgentSpec, LinearDecaySpec, MLPSpec
from rlcore.contracts.interpreters import LaneActionInterpreter, LaneStateInterpreter
from rlcore.contracts.reward import LaneReward, WeightedReward
from rlcore.contracts.seeds import SeedSet
from rlcore.contracts.simulator import LaneSimulator, LaneStep
from rlcore.environment.parts import EnvironmentParts
from rlcore.environment.rollout import Passage, keep_transitions, run_episodes
from rlcore.foundation.random_streams import RandomStreams

STEPS, SHARES = 5, 5
MOVES = np.array([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])
OPTIMUM = np.array([-1.9336, 0.1562, 4.1910])  # closed_forms CF5, by first signal
TWAP = np.array([-3.5625, -0.5, 2.5625])


@dataclass(frozen=True, slots=True)
class State:
    path: np.ndarray  # (lanes, steps) signals 0, 1, 2
    step: np.ndarray
    left: np.ndarray


class SignalMarket(LaneSimulator[Any, Any, Any, Any, Any]):
    max_steps = STEPS

    def start(self, seeds: np.ndarray) -> State:
        return State(seeds, np.zeros(len(seeds), np.int64), np.full(len(seeds), SHARES))

    def view(self, state: State) -> dict[str, np.ndarray]:
        now = np.minimum(state.step, STEPS - 1)
        return {"step": state.step, "left": state.left, "signal": state.path[np.arange(len(now)), now]}

    def step(self, state: State, command: np.ndarray) -> LaneStep[Any, Any]:
        left = state.left - command
        signal = state.path[np.arange(len(left)), state.step] - 1.0
        after = State(state.path, state.step + 1, left)
        is_over = after.step == STEPS
        return LaneStep(after, left * 0.5 * signal - 0.1 * command**2, is_over, np.zeros_like(is_over))


class SignalObservation(LaneStateInterpreter[Any]):
    observation_space = spaces.Dict(  # type: ignore[assignment]  # one space for all
        {"left": spaces.Discrete(SHARES + 1), "signal": spaces.Discrete(3), "step": spaces.Discrete(STEPS + 1)}
    )

    def interpret(self, view: Any, status: Any) -> Any:
        return view


class Shares(LaneActionInterpreter[Any, Any]):
    action_space = spaces.Discrete(SHARES + 1)  # type: ignore[assignment]  # as above

    def interpret(self, view: Any, action: np.ndarray, status: Any) -> np.ndarray:
        return action

    def mask(self, view: Any, status: Any) -> np.ndarray:
        return possible(view)


class Gain(LaneReward[Any]):
    def reward(self, outcome: np.ndarray, status: Any) -> np.ndarray:
        return outcome


class Paths(SeedSet[Any]):
    fingerprint = "signal paths"  # type: ignore[assignment]  # one set

    def __init__(self, count: int) -> None:
        rng = np.random.default_rng(11)
        path = np.zeros((count, STEPS), np.int64)
        path[:, 0] = rng.integers(0, 3, count)
        for step in range(1, STEPS):
            path[:, step] = (rng.random(count)[:, None] > MOVES[path[:, step - 1]].cumsum(-1)).sum(-1)
        self._path = path

    def __len__(self) -> int:
        return len(self._path)

    def take(self, seed_ids: np.ndarray) -> np.ndarray:
        return self._path[seed_ids]


def possible(view: Any) -> np.ndarray:
    """Not more than is left; in the last step all of it."""
    choices = np.arange(SHARES + 1)
    left = view["left"][:, None]
    return np.where((view["step"] >= STEPS - 1)[:, None], choices == left, choices <= left)


def value_of(choose: Any) -> np.ndarray:
    """Return the exact expected gain of a policy by first signal; ``choose(step) → (left, signal) table of shares``."""
    signal = np.arange(3) - 1.0
    following = np.zeros((SHARES + 1, 3))
    for step in reversed(range(STEPS)):
        shares = choose(step, following)
        left = np.arange(SHARES + 1)[:, None] - shares
        expected = following @ MOVES.T
        following = left * 0.5 * signal - 0.1 * shares**2 + expected[left, np.arange(3)]
    return following[SHARES]


def best(step: int, following: np.ndarray) -> np.ndarray:
    signal, expected = np.arange(3) - 1.0, following @ MOVES.T
    table = np.zeros((SHARES + 1, 3), np.int64)
    for left in range(SHARES + 1):
        choices = [left] if step == STEPS - 1 else range(left + 1)
        gains = [(left - n) * 0.5 * signal - 0.1 * n**2 + expected[left - n] for n in choices]
        table[left] = np.array(list(choices))[np.argmax(gains, axis=0)]
    return table


def test_dynamic_programming_gives_the_closed_form() -> None:
    np.testing.assert_allclose(value_of(best), OPTIMUM, atol=5e-5)
    one_each = np.minimum(np.arange(SHARES + 1), 1)[:, None] * np.ones((1, 3), np.int64)
    np.testing.assert_allclose(value_of(lambda step, following: one_each), TWAP, atol=1e-12)


ITERATIONS = {"ppo": 200, "a2c": 600, "dqn": 80}
SPECS = {
    "ppo": PPOSpec(
        network=MLPSpec(sizes=(64, 64)),
        learning_rate=2e-3,
        learning_rate_decay=LinearDecaySpec(num_iterations=200, final_fraction=0.05),
        discount=1.0,
        batch_size=512,
        num_repeats=4,
        entropy_weight=0.03,
    ),
    "a2c": A2CSpec(
        network=MLPSpec(sizes=(64, 64)),
        learning_rate=2e-3,
        learning_rate_decay=LinearDecaySpec(num_iterations=600, final_fraction=0.05),
        discount=1.0,
        batch_size=2048,  # all of an iteration
        gae_lambda=0.95,
        entropy_weight=0.03,
    ),
    "dqn": DQNSpec(
        network=MLPSpec(sizes=(64, 64)),
        learning_rate=1e-3,
        learning_rate_decay=LinearDecaySpec(num_iterations=80, final_fraction=0.05),
        discount=1.0,
        batch_size=256,
        exploration=ExplorationSpec(initial=1.0, final=0.3, num_transitions=60_000),
        target_update_every=200,
        memory_size=100_000,
        learn_after=2_000,
        gradient_steps_per_transition=0.1,
    ),
}


@pytest.mark.learning
@pytest.mark.parametrize("root", [0, 1, 2])
@pytest.mark.parametrize("kind", ["ppo", "a2c", "dqn"])
def test_signal_mdp_is_solved(kind: str, root: int) -> None:
    spec: AgentSpec = SPECS[kind]  # type: ignore[assignment]  # both are
    parts = EnvironmentParts(SignalMarket(), SignalObservation(), Shares(), WeightedReward({"gain": (Gain(), 1.0)}))
    agent = build_agent(
        spec, SignalObservation.observation_space, Shares.action_space, SignalObservation(), root_seed=root, device="cpu"
    )
    seeds = Paths(4096)
    passage = Passage(RandomStreams(root), "train", 256)
    for iteration in range(ITERATIONS[kind]):
        seed_id = (np.arange(256) + 256 * iteration) % len(seeds)
        visit = np.full(256, iteration * 256 // len(seeds))
        episodes = run_episodes(parts, agent.training_policy(), seeds, seed_id, visit, passage, keep=keep_transitions)
        assert episodes.rollout is not None
        agent.learn(episodes.rollout)
    left, signal = (axis.ravel() for axis in np.meshgrid(np.arange(SHARES + 1), np.arange(3), indexing="ij"))
    policy = agent.evaluation_policy()

    def choose(step: int, following: np.ndarray) -> np.ndarray:
        view = {"left": left, "signal": signal, "step": np.full(len(left), step)}
        nobody = passage.streams.lanes("test", left, left, left)
        return policy.decide(view, None, possible(view), nobody).action.reshape(SHARES + 1, 3)

    share = (value_of(choose).mean() - TWAP.mean()) / (OPTIMUM.mean() - TWAP.mean())
    assert share >= 0.95, f"{kind} gained {share:.3f} of what can be gained over TWAP"
