"""With a fixed temperature, what soft actor-critics should end with is known in closed form: π(a) ∝ exp(r(a) / α).

Episodes of one step (Haarnoja et al. 2018, arXiv:1801.01290, eq. 4 with Q = r). For r = −k (a − c)² this is a normal
distribution around c with variance α / (2 k); for three choices, a softmax.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlcore.agents.off_policy_specs import PrioritySpec
from rlcore.agents.specs import LinearDecaySpec, MLPSpec
from rlcore.environment.rollout import Rollout
from tests.agents_toy import GivenObservation, discrete_sac_spec, lane_randomness, make_agent, sac_spec

LANES = 64
NOTHING = spaces.Box(0.0, 1.0, (1,), np.float32)  # there is one state
COMMON: dict[str, Any] = {
    "network": MLPSpec(sizes=(32,)),
    "learning_rate": 3e-3,
    "learning_rate_decay": LinearDecaySpec(num_iterations=100, final_fraction=0.05),
    "batch_size": 128,
    "memory_size": 10_000,
    "learn_after": 256,
    "gradient_steps_per_transition": 0.25,
    "target_update_rate": 0.02,
    "temperature": "fixed",
}


def one_step_episodes(policy: Any, iteration: int, reward: Any, mask: np.ndarray | None) -> Rollout:
    observation = np.zeros((LANES, 1), np.float32)
    masks = None if mask is None else np.tile(mask, (LANES, 1))
    action = policy.decide(observation, None, masks, lane_randomness(LANES, iteration)).action
    yes, no = np.ones((1, LANES), bool), np.zeros((1, LANES), bool)
    return Rollout(
        seed_id=np.arange(LANES)[None],
        visit=np.zeros((1, LANES), np.int64),
        step=np.zeros((1, LANES), np.int64),
        reference=observation[None],
        next_reference=observation[None],
        action=action[None],
        reward=reward(action).astype(np.float64)[None],
        components={},
        terminated=yes,
        truncated=no,
        is_alive=yes,
        mask=None if masks is None else masks[None],
        next_mask=None if masks is None else np.ones_like(masks)[None],
        log_prob=None,
        value=None,
        internal_state=None,
        auxiliary={},
    )


def trained(spec: Any, action_space: Any, reward: Any, mask: np.ndarray | None = None) -> Any:
    torch.set_num_threads(1)
    agent = make_agent(spec, GivenObservation(NOTHING), action_space)
    for iteration in range(100):
        agent.learn(one_step_episodes(agent.training_policy(), iteration, reward, mask))
    return agent


@pytest.mark.learning
@pytest.mark.parametrize("priorities", [None, PrioritySpec(num_gradient_steps=1000)], ids=["even draws", "prioritised"])
def test_continuous_actions_end_normal_around_the_best(priorities: PrioritySpec | None) -> None:
    alpha, steepness, centre = 0.2, 5.0, 0.3
    spec = sac_spec(**COMMON, critic_sizes=(64,), initial_temperature=alpha, priorities=priorities)
    box = spaces.Box(-1.0, 1.0, (1,), np.float32)
    agent = trained(spec, box, lambda action: -steepness * (action[:, 0] - centre) ** 2)
    observation = np.zeros((4000, 1), np.float32)
    best = agent.evaluation_policy().decide(observation[:1], None, None, lane_randomness(1)).action
    drawn = agent.training_policy().decide(observation, None, None, lane_randomness(4000)).action
    assert best.item() == pytest.approx(centre, abs=0.05)
    assert drawn.std() == pytest.approx(np.sqrt(alpha / (2 * steepness)), rel=0.25)


@pytest.mark.learning
@pytest.mark.parametrize("mask", [None, np.array([True, False, True])], ids=["all", "masked"])
def test_choices_end_as_a_softmax_of_their_rewards(mask: np.ndarray | None) -> None:
    alpha, rewards = 0.5, np.array([1.0, 0.6, 0.2])
    agent = trained(discrete_sac_spec(**COMMON, initial_temperature=alpha), spaces.Discrete(3), lambda a: rewards[a], mask)
    chance = np.exp(rewards / alpha) * (1 if mask is None else mask)
    observation = np.zeros((8000, 1), np.float32)
    masks = None if mask is None else np.tile(mask, (8000, 1))
    drawn = agent.training_policy().decide(observation, None, masks, lane_randomness(8000)).action
    np.testing.assert_allclose(np.bincount(drawn, minlength=3) / 8000, chance / chance.sum(), atol=0.03)
