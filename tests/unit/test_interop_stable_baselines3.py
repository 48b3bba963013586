"""Stable-Baselines3 trains on EnvWrapper, on a task whose best policy is known."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from gymnasium import spaces

from rlcore.agents.isolated_randomness import isolated_randomness
from rlcore.contracts import ActionInterpreter, Reward, SequenceSeedSet, Simulator, StateInterpreter
from rlcore.environment import EnvWrapper, looped_parts

stable_baselines3 = pytest.importorskip(
    "stable_baselines3", reason="needs the extra `interop` (stable-baselines3)", exc_type=ImportError
)

from stable_baselines3 import DQN, PPO  # noqa: E402  # only where it is installed
from stable_baselines3.common.env_checker import check_env  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv  # noqa: E402

LENGTH, PATIENCE, STEP_COST = 6, 12, 0.02
STARTS = range(1, LENGTH)


class Corridor(Simulator):
    """From one of five places to the right end, which is worth 1; the left end is worth nothing; each step costs a little."""

    def __init__(self, initial) -> None:
        self.place, self.num_steps = initial, 0

    def step(self, action):
        self.place += action
        self.num_steps += 1

    def get_state(self):
        return self.place, self.num_steps

    def done(self):
        return self.place in (0, LENGTH)

    def truncated(self):
        return not self.done() and self.num_steps == PATIENCE


# Always to the right: 1 - 0.02 x the way to go.
BEST = np.mean([1 - STEP_COST * (LENGTH - start) for start in STARTS])


class Flat(StateInterpreter):
    observation_space = spaces.Box(0.0, 1.0, (2,), np.float32)

    def interpret(self, state, status):
        return np.array([state[0] / LENGTH, state[1] / PATIENCE], np.float32)


class Named(StateInterpreter):
    observation_space = spaces.Dict({"place": spaces.Box(0.0, 1.0, (1,), np.float32), "step": spaces.Discrete(PATIENCE + 1)})

    def interpret(self, state, status):
        return {"place": np.array([state[0] / LENGTH], np.float32), "step": state[1]}


class LeftOrRight(ActionInterpreter):
    action_space = spaces.Discrete(2)

    def interpret(self, state, action, status):
        return 2 * int(action) - 1


class Pull(ActionInterpreter):
    """To the right where the pull is positive."""

    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def interpret(self, state, action, status):
        return 1 if action[0] > 0 else -1


class Arrival(Reward):
    def reward(self, outcome, status):
        return float(outcome[0] == LENGTH) - STEP_COST


def make_env(observation=Flat, action=LeftOrRight):
    parts = looped_parts(Corridor, observation(), action(), Arrival(), max_steps=PATIENCE)
    return EnvWrapper(parts, SequenceSeedSet(STARTS))


def mean_return(model, env):
    """Return the mean over every seed, each played once."""
    total = 0.0
    for seed_id in range(len(STARTS)):
        observation, _ = env.reset(options={"seed_id": seed_id})
        is_over = False
        while not is_over:
            action, _ = model.predict(observation, deterministic=True)
            observation, reward, terminated, truncated, _ = env.step(action)
            total += reward
            is_over = terminated or truncated
    return total / len(STARTS)


@pytest.mark.parametrize(
    ("policy", "observation", "action"),
    [("MlpPolicy", Flat, LeftOrRight), ("MultiInputPolicy", Named, LeftOrRight), ("MlpPolicy", Flat, Pull)],
)
def test_ppo_learns_to_go_right(policy, observation, action):
    def make():
        return make_env(observation, action)

    with isolated_randomness(0, 0):  # it seeds the global generators
        model = PPO(policy, DummyVecEnv([make] * 4), n_steps=64, batch_size=64, learning_rate=3e-3, gamma=0.95, seed=1)
        before = mean_return(model, make())
        model.learn(2560)
    assert before < 0.9 * BEST <= mean_return(model, make()) <= BEST + 1e-9


def test_dqn_learns_to_go_right():
    with isolated_randomness(0, 0):
        model = DQN(
            "MlpPolicy",
            make_env(),
            learning_rate=3e-3,
            gamma=0.95,
            learning_starts=200,
            target_update_interval=100,
            exploration_fraction=0.5,
            seed=0,
        )
        before = mean_return(model, make_env())
        model.learn(3000)
    assert before < 0.9 * BEST <= mean_return(model, make_env()) <= BEST + 1e-9


@pytest.mark.parametrize("action", [LeftOrRight, Pull])
@pytest.mark.parametrize("observation", [Flat, Named])
def test_its_checker_has_nothing_to_say(observation, action):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(make_env(observation, action), skip_render_check=True)


@pytest.mark.parametrize("kind", [DummyVecEnv, lambda fns: SubprocVecEnv(fns, start_method="fork")])
def test_its_vector_environments_see_whole_episodes(kind):
    envs = kind([make_env] * 2)
    envs.seed(7)
    observations = envs.reset()
    alone = []
    for index in range(2):
        env = make_env()
        observation, _ = env.reset(seed=7 + index)
        np.testing.assert_array_equal(observation, observations[index])
        alone.append(env)
    actions = np.random.default_rng(0).integers(2, size=(60, 2))
    num_ended = 0
    for pair in actions:
        observations, rewards, dones, infos = envs.step(pair)
        for index, env in enumerate(alone):
            observation, reward, terminated, truncated, info = env.step(pair[index])
            assert rewards[index] == pytest.approx(reward, rel=1e-6) and dones[index] == (terminated or truncated)
            assert infos[index]["seed_id"] == info["seed_id"] and infos[index]["reward/reward"] == reward
            if dones[index]:
                num_ended += 1
                np.testing.assert_array_equal(infos[index]["terminal_observation"], observation)
                assert infos[index]["TimeLimit.truncated"] is truncated
                observation, _ = env.reset()
            np.testing.assert_array_equal(observations[index], observation)
    envs.close()
    assert num_ended > 8
