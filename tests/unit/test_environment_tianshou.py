"""EnvWrapper works under tianshou's own collector and vector environments."""

from __future__ import annotations

import numpy as np
from tianshou.algorithm.algorithm_base import RandomActionPolicy
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv

from rlcore.environment.env_wrapper import EnvWrapper
from rlcore.environment.seed_sampling import training_draw
from tests.environment_toys import looped_spend_parts, spend_parts, spend_seeds


def test_a_collector_gathers_whole_episodes_that_are_ours():
    seeds = spend_seeds(20)
    venv = DummyVectorEnv([lambda: EnvWrapper(spend_parts(), seeds), lambda: EnvWrapper(looped_spend_parts(), seeds)])
    buffer = VectorReplayBuffer(400, 2)
    policy = RandomActionPolicy(EnvWrapper(spend_parts(), seeds).action_space)
    collector = Collector(policy, venv, buffer)
    collector.reset(gym_reset_kwargs={"seed": 3})
    stats = collector.collect(n_step=100, random=True)
    batch, _ = buffer.sample(0)
    assert stats.n_collected_steps == 100 == len(batch)
    components = batch.info["reward/bargain"] + batch.info["reward/haste"]
    np.testing.assert_allclose(batch.rew, components, rtol=1e-12)
    assert (batch.obs.past.shape, batch.obs.left.shape) == ((100, 24), (100,))
    first_seed = int(batch.info["seed_id"][0])
    assert first_seed in {int(training_draw(3, 20, position, 1)[0][0]) for position in (0, 1)}
    is_done = batch.terminated | batch.truncated
    assert is_done.sum() == stats.n_collected_episodes > 10
    assert (batch.obs_next.left[batch.terminated] == 0.0).all() and (batch.obs_next.left[batch.truncated] > 0.0).all()
