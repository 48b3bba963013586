"""What scales by a deviation, where there is none: equal advantages teach nothing, equal returns stay as they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from rlcore.environment.rollout import Rollout
from tests.agents_toy import a2c_spec, make_agent, make_rollout, ppo_spec

torch.set_num_threads(1)


def rewarded_alike(agent: Any, reward: float, seed: int, *, value: float | None) -> Rollout:
    """Return one-step episodes that all earn the same; with stored values all alike too, or those of the critic (None)."""
    rollout = make_rollout(agent.training_policy(), seed=seed, steps=1, lanes=33)
    alike = replace(
        rollout,
        reward=np.full(rollout.reward.shape, reward),
        terminated=np.ones_like(rollout.terminated),
        truncated=np.zeros_like(rollout.truncated),
    )
    return alike if value is None else replace(alike, value=np.full_like(rollout.value, value))


@pytest.mark.parametrize("make_spec", [ppo_spec, a2c_spec])
@pytest.mark.parametrize("scaling", ["batch", "iteration"])
@pytest.mark.parametrize("reward", [0.1, 100.1, 123_456.789])
def test_equal_advantages_are_scaled_to_zero_and_move_nothing(make_spec: Any, scaling: str, reward: float) -> None:
    # The mean of equal numbers is rounded: what is left of them, over a deviation of nothing, would be as large as any advantage.
    agent = make_agent(make_spec(advantage_scaling=scaling, entropy_weight=0.0, value_loss_weight=0.0))
    before = agent.state_dict()["model"]
    figures = agent.learn(rewarded_alike(agent, reward, 0, value=0.0))
    assert figures["policy_loss"] == 0.0
    torch.testing.assert_close(agent.state_dict()["model"], before, rtol=0, atol=0)


@pytest.mark.parametrize("make_spec", [ppo_spec, a2c_spec])
@pytest.mark.parametrize("reward", [1.0, 100.1, -0.003, 0.0])
def test_equal_returns_are_learned_as_they_are(make_spec: Any, reward: float) -> None:
    plain, scaled = (make_agent(make_spec(return_scaling=scaling)) for scaling in ("none", "running"))
    for seed in range(3):
        ours, theirs = (agent.learn(rewarded_alike(agent, reward, seed, value=None)) for agent in (scaled, plain))
        assert ours == theirs
    assert scaled.algorithm.value_scale == 1.0
    torch.testing.assert_close(scaled.state_dict()["model"], plain.state_dict()["model"], rtol=0, atol=0)
    # As soon as they differ, their deviation counts.
    scaled.learn(make_rollout(scaled.training_policy(), seed=9))
    assert scaled.algorithm.value_scale == pytest.approx(np.sqrt(scaled.algorithm.ret_rms.var), rel=1e-4)
    assert scaled.algorithm.value_scale != 1.0
