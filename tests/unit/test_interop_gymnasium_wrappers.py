"""EnvWrapper under gymnasium's wrappers, its checker and its registry."""

from __future__ import annotations

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces, wrappers
from gymnasium.utils.env_checker import check_env

from rlcore.contracts import (
    LaneActionInterpreter,
)
from rlcore.environment import EnvWrapper
from tests.environment_toys import spend_parts, spend_seeds
from tests.gymnasium_toys import NUM_SEEDS, make_lanes, make_looped, make_three


def test_a_time_limit_truncates():
    env = wrappers.TimeLimit(make_lanes(), 2)
    for _ in range(4):  # the unfinished episode leaves nothing behind
        observation, info = env.reset()
        assert observation["step"] == 0 and observation["left"] == 1.0
        assert env.step(0)[2:4] == (False, False)
        *_, terminated, truncated, info = env.step(0)
        assert (terminated, truncated) == (False, True) and "metrics" not in info


def test_flat_observations_are_the_same_numbers():
    env, flat = make_lanes(), wrappers.FlattenObservation(make_lanes())
    observation, _ = env.reset(seed=1)
    flattened, _ = flat.reset(seed=1)
    for _ in range(5):
        np.testing.assert_array_equal(flattened, spaces.flatten(env.observation_space, observation))
        assert flattened in flat.observation_space
        observation, reward, *_ = env.step(0)
        flattened, same, *_ = flat.step(0)
        assert reward == same


def test_normalised_observations_have_the_moments_of_what_was_seen():
    plain, env = (
        wrappers.FlattenObservation(make_lanes()),
        wrappers.NormalizeObservation(wrappers.FlattenObservation(make_lanes())),
    )
    seen = [plain.reset(seed=1)[0]]
    env.reset(seed=1)
    for _ in range(200):
        observation, _, terminated, truncated, _ = plain.step(1)
        normalised, *_ = env.step(1)
        seen.append(observation)
        if terminated or truncated:
            seen.append(plain.reset()[0])
            env.reset()
    np.testing.assert_allclose(env.obs_rms.mean, np.mean(seen, axis=0), rtol=1e-3, atol=1e-3)
    assert np.isfinite(normalised).all()


class Fraction(LaneActionInterpreter):
    action_space = spaces.Box(0.0, 1.0, (1,), np.float32)

    def interpret(self, view, action, status):
        return action[:, 0].astype(np.float64)


def make_fraction():
    return EnvWrapper(spend_parts(action_interpreter=Fraction()), spend_seeds(NUM_SEEDS))


def test_rescaled_and_clipped_actions():
    plain = make_fraction()
    rescaled = wrappers.RescaleAction(make_fraction(), np.float32(-1), np.float32(1))
    clipped = wrappers.ClipAction(make_fraction())
    for env in (plain, rescaled, clipped):
        env.reset(seed=3)
    spent = plain.step(np.array([1.0], np.float32))
    np.testing.assert_equal(rescaled.step(np.array([1.0], np.float32)), spent)
    np.testing.assert_equal(clipped.step(np.array([7.0], np.float32)), spent)


@pytest.mark.parametrize("make", [make_looped, make_three, make_fraction, lambda: wrappers.FlattenObservation(make_lanes())])
def test_gymnasiums_checker_has_nothing_to_say(make):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*spec.*")  # there is none outside gymnasium.make
        warnings.filterwarnings("ignore", message=".*infinity.*")  # "past" has no upper bound
        warnings.filterwarnings("ignore", message=".*different from the unwrapped.*")  # a wrapper is what is to be checked
        warnings.filterwarnings("ignore", message=".*(symmetric|normalized).*")  # fractions are what they are
        check_env(make(), skip_render_check=True)


def test_an_environment_that_gymnasium_makes():
    gymnasium.register(id="FillwrightSpend-v0", entry_point=make_lanes, max_episode_steps=4)
    try:
        env = gymnasium.make("FillwrightSpend-v0")
        env.reset(seed=2)
        assert [env.step(0)[3] for _ in range(4)] == [False, False, False, True]
        assert isinstance(env.unwrapped, EnvWrapper) and env.unwrapped.action_mask is None
    finally:
        del gymnasium.registry["FillwrightSpend-v0"]
