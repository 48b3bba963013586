"""The Gaussian head of PPO and A2C: a deviation that can always come back, and bounds that leave room."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlcore.agents.action_heads import GaussianHead
from rlcore.foundation.errors import ConfigError
from tests.agents_toy import a2c_spec, make_agent, make_rollout, ppo_spec, sac_spec

torch.set_num_threads(1)
ANY_NUMBER = spaces.Box(-np.inf, np.inf, (1,), np.float64)
LEAST, GREATEST = -10.0, 2.0


@pytest.mark.parametrize("outside", [GREATEST + 0.5, LEAST - 0.5])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("distance", [0.1, 3.0])
def test_gradient_leads_a_deviation_back_and_never_further_out(outside: float, sign: float, distance: float) -> None:
    head = GaussianHead(4, ANY_NUMBER)
    with torch.no_grad():
        head.log_deviation.fill_(outside)
    held = min(max(outside, LEAST), GREATEST)
    parameters = head(torch.zeros(1, 4))  # mean 0
    assert parameters[0, 0, 1].item() == held
    action = np.array([[distance * np.exp(held)]])
    (sign * head.log_prob(parameters, None, action).sum()).backward()
    # ∂ log N(x; 0, σ) / ∂ log σ = x² / σ² − 1; a step goes against the gradient.
    expected = sign * (distance**2 - 1.0)
    leads_back = (expected > 0) == (outside > held)
    assert head.log_deviation.grad is not None
    np.testing.assert_allclose(head.log_deviation.grad.item(), expected if leads_back else 0.0, rtol=1e-5)


def test_gradient_inside_the_bounds_is_whole() -> None:
    head = GaussianHead(4, ANY_NUMBER)
    for inside in (LEAST, -3.0, 0.0, GREATEST):
        head.zero_grad()
        with torch.no_grad():
            head.log_deviation.fill_(inside)
        for sign in (1.0, -1.0):
            head.zero_grad()
            (sign * head.entropy(head(torch.zeros(1, 4)), None).sum()).backward()
            assert head.log_deviation.grad is not None
            assert head.log_deviation.grad.item() == sign  # ∂ H / ∂ log σ = 1


def test_an_actor_that_explored_too_far_learns_to_act_narrowly() -> None:
    agent = make_agent(ppo_spec(learning_rate=0.02, num_repeats=5, batch_size=64), action_space=spaces.Box(-1.0, 1.0, (1,)))
    with torch.no_grad():  # where an entropy bonus without rewards leads in the end
        agent.model.actor.log_deviation.fill_(2.04)
    for seed in range(20):
        rollout = make_rollout(agent.training_policy(), seed=seed, steps=1, lanes=128)
        agent.learn(replace(rollout, reward=-np.abs(rollout.action[..., 0]).astype(float)))
    assert agent.model.actor.log_deviation.item() < 1.5


@pytest.mark.parametrize("make_spec", [ppo_spec, a2c_spec, sac_spec])
@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(np.array([0.0, 1.0]), np.array([1.0, 1.0]), dtype=np.float64),
        spaces.Box(-np.finfo(np.float64).max, np.finfo(np.float64).max, (2,), np.float64),
    ],
    ids=["one value", "no range"],
)
def test_bounds_without_room_between_them_are_refused_at_once(make_spec: Any, space: spaces.Box) -> None:
    with pytest.raises(ConfigError, match="low below high"):
        make_agent(make_spec(), action_space=space)


@pytest.mark.parametrize("make_spec", [ppo_spec, a2c_spec])
def test_the_widest_bounds_of_float32_serve(make_spec: Any) -> None:
    space = spaces.Box(-np.finfo(np.float32).max, np.finfo(np.float32).max, (2,), np.float32)
    agent = make_agent(make_spec(), action_space=space)
    rollout = make_rollout(agent.training_policy())
    assert all(space.contains(action) for action in rollout.action[rollout.is_alive])
    assert np.isfinite(list(agent.learn(rollout).values())).all()
