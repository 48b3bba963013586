"""EnvWrapper works under tianshou's own collector and vector environments."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv, ShmemVectorEnv, SubprocVectorEnv

from rlcore.contracts import LaneStateInterpreter
from rlcore.environment.env_wrapper import EnvWrapper
from rlcore.environment.seed_sampling import training_draw
from tests.environment_toys import looped_spend_parts, spend_parts, spend_seeds
from tests.tianshou_toy import Choices, without_compilation

uncompiled = pytest.fixture(without_compilation, scope="module", autouse=True)
NUM_SEEDS = 20
SEEDS = spend_seeds(NUM_SEEDS)


def make_lanes():
    return EnvWrapper(spend_parts(), spend_seeds(NUM_SEEDS))


def make_looped():
    return EnvWrapper(looped_spend_parts(), spend_seeds(NUM_SEEDS))


def make_flat():
    return gymnasium.wrappers.FlattenObservation(make_lanes())


def spawned(env_fns):
    return SubprocVectorEnv(env_fns, context="spawn")


def random_choices():
    generator = np.random.default_rng(0)
    return Choices(spaces.Discrete(3), lambda count: generator.integers(3, size=count))


def collected(venv, **amount):
    """Return the collector and its transitions, in order, by environment."""
    venv.seed([100 + i for i in range(len(venv))])
    collector = Collector(random_choices(), venv, VectorReplayBuffer(600 * len(venv), len(venv)))
    collector.reset()
    stats = collector.collect(**amount)
    batch, _ = collector.buffer.sample(0)
    assert len(batch) == stats.n_collected_steps == collector.collect_step
    return stats, [batch[batch.info.env_id == env] for env in range(len(venv))]


def check_episodes(rows, root):
    """Every episode is the one that EnvWrapper plays alone, and the episodes are those of the root, none left out.

    The last one may be cut by the end of the collection. Position 0 of the sequence went into ``venv.seed``, which resets.
    """
    starts = np.flatnonzero(np.concatenate([[True], (rows.terminated | rows.truncated)[:-1]]))
    seed_id, visit = training_draw(root, NUM_SEEDS, 1, len(starts))
    np.testing.assert_array_equal(rows.info.seed_id[starts], seed_id)
    np.testing.assert_array_equal(rows.info.visit[starts], visit)
    alone = make_lanes()
    is_over = True
    for row in rows:
        if is_over:
            observation, info = alone.reset(options={"seed_id": int(row.info.seed_id)})
        for name in observation:
            np.testing.assert_array_equal(row.obs[name], observation[name])
        observation, reward, terminated, truncated, info = alone.step(row.act)
        for name in observation:
            np.testing.assert_array_equal(row.obs_next[name], observation[name])
        assert (row.rew, row.terminated, row.truncated) == (reward, terminated, truncated)
        assert row.info["reward/bargain"] + row.info["reward/haste"] == pytest.approx(reward, rel=1e-12)
        is_over = terminated or truncated
        if is_over:
            assert row.info.metrics.left_fraction == info["metrics"]["left_fraction"]
    return len(starts)


@pytest.mark.parametrize(
    ("kind", "make", "num_envs"),
    [
        (DummyVectorEnv, make_lanes, 3),
        (DummyVectorEnv, make_looped, 3),
        (SubprocVectorEnv, make_lanes, 2),
        (SubprocVectorEnv, make_looped, 2),
        (spawned, make_looped, 1),  # one, because a spawned process imports everything anew, which takes seconds
    ],
)
def test_steps_are_those_of_our_episodes(kind, make, num_envs):
    venv = kind([make] * num_envs)
    stats, by_env = collected(venv, n_step=40 * num_envs)
    venv.close()
    num_episodes = [check_episodes(rows, 100 + env) for env, rows in enumerate(by_env)]
    assert [len(rows) for rows in by_env] == [40] * num_envs and stats.n_collected_episodes > 6 * num_envs
    assert sum(num_episodes) - num_envs <= stats.n_collected_episodes <= sum(num_episodes)
    assert len({tuple(rows.info.seed_id[:10]) for rows in by_env}) == num_envs  # the environments differ


@pytest.mark.parametrize("kind", [DummyVectorEnv, SubprocVectorEnv])
def test_so_many_episodes_are_whole(kind):
    venv = kind([make_lanes] * 3)
    stats, by_env = collected(venv, n_episode=17)
    venv.close()
    assert sum(check_episodes(rows, 100 + env) for env, rows in enumerate(by_env)) == stats.n_collected_episodes == 17
    assert all((rows.terminated | rows.truncated)[-1] for rows in by_env)
    lens = [len(rows) for rows in by_env]
    assert sum(lens) == stats.lens.sum() == stats.n_collected_steps
    returns = sum(rows.rew.sum() for rows in by_env)
    assert returns == pytest.approx(stats.returns.sum(), rel=1e-9)


def test_two_collections_of_the_same_seeds_are_the_same():
    both = [collected(DummyVectorEnv([make_lanes] * 2), n_step=60)[1] for _ in range(2)]
    for one, other in zip(*both, strict=True):
        np.testing.assert_array_equal(one.rew, other.rew)
        np.testing.assert_array_equal(one.obs.past, other.obs.past)


def test_arrays_travel_through_shared_memory():
    venv = ShmemVectorEnv([make_flat] * 2)
    _, by_env = collected(venv, n_step=60)
    venv.close()
    plain = collected(DummyVectorEnv([make_flat] * 2), n_step=60)[1]
    for shared, own in zip(by_env, plain, strict=True):
        np.testing.assert_array_equal(shared.obs, own.obs)
        np.testing.assert_array_equal(shared.obs_next, own.obs_next)
        assert (shared.obs != shared.obs_next).any(axis=1).all()  # the step is a part of the observation


def test_dicts_do_not_because_tianshou_overwrites_them():
    """Why ShmemVectorEnv is not to be used with dicts: what it hands out are views of the memory that the next step fills.

    Should this fail, tianshou copies now, and the docstring of the test above may speak of dicts too.
    """
    venv = ShmemVectorEnv([make_lanes] * 2)
    before, _ = venv.reset()
    kept = [int(one["step"]) for one in before]
    venv.step(np.array([1, 1]))
    assert kept == [0, 0] and [int(one["step"]) for one in before] == [1, 1]
    venv.close()


class TupleObservation(LaneStateInterpreter):
    observation_space = spaces.Tuple((spaces.Box(0.0, 1.0, (), np.float64), spaces.Discrete(7)))

    def interpret(self, view, status):
        return view.left, view.step


def test_tuples_are_refused_by_tianshou():
    venv = DummyVectorEnv([lambda: EnvWrapper(spend_parts(state_interpreter=TupleObservation()), SEEDS)])
    with pytest.raises(TypeError, match="Tuple observation space is not supported"):
        venv.reset()


def test_one_environment_alone_is_taken_too():
    with pytest.warns(UserWarning, match="Single environment detected"):
        collector = Collector(random_choices(), make_lanes())
    collector.reset(gym_reset_kwargs={"seed": 3})
    assert collector.collect(n_episode=4).n_collected_episodes == 4
    batch, _ = collector.buffer.sample(0)
    done = batch.terminated | batch.truncated
    np.testing.assert_array_equal(batch.info.seed_id[done], training_draw(3, NUM_SEEDS, 0, 4)[0])
