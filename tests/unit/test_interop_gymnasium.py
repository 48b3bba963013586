"""EnvWrapper under gymnasium's vector environments and wrappers: nothing is lost, doubled, aliased or cast."""

from __future__ import annotations

import copy
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces, wrappers
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from rlcore.contracts import (
    SequenceSeedSet,
    StateInterpreter,
)
from rlcore.environment import EnvWrapper, looped_parts, training_draw
from tests.gymnasium_toys import NUM_SEEDS, Anything, One, ThreeSteps, make_lanes, make_looped, make_three

NUM_ENVS = 3
ROOTS = [11, 22, 33]
MODES = list(AutoresetMode)


def choose(observation):
    """Return actions that depend on the episode, for one observation or a batch."""
    return (np.floor(observation["past"].sum(axis=-1) * 10).astype(np.int64) + observation["step"]) % 3


def row_of(batch, index):
    return {name: value[index] for name, value in batch.items()}


def played_alone(root, num_steps, make=make_lanes):
    """Return so many steps (observation, action, next observation, reward, terminated, truncated, info) of one environment."""
    env = make()
    observation, _ = env.reset(seed=root)
    steps = []
    for _ in range(num_steps):
        action = choose(observation)
        after, *rest = env.step(action)
        steps.append((observation, action, after, *rest))
        observation = env.reset()[0] if rest[1] or rest[2] else after
    return steps


def one_info(infos, index):
    """Return what the vector's infos say of one environment, as that environment said it."""
    own = {}
    for key, value in infos.items():
        if not key.startswith("_") and key not in ("final_obs", "final_info") and infos[f"_{key}"][index]:
            own[key] = one_info(value, index) if isinstance(value, dict) else value[index]
    return own


def played_together(envs, num_steps, seed):
    """Return the steps of every environment, those of resetting left out as the mode of autoreset wants it."""
    mode = envs.metadata["autoreset_mode"]
    observations, _ = envs.reset(seed=seed)
    steps = [[] for _ in range(envs.num_envs)]
    was_done = np.zeros(envs.num_envs, bool)
    for _ in range(num_steps):
        actions = choose(observations)
        after, rewards, terminated, truncated, infos = envs.step(actions)
        is_done = terminated | truncated
        for i in range(envs.num_envs):
            if mode is AutoresetMode.NEXT_STEP and was_done[i]:
                assert rewards[i] == 0.0 and not is_done[i] and after["step"][i] == 0
                continue
            is_final = mode is AutoresetMode.SAME_STEP and is_done[i]
            final = infos["final_obs"][i] if is_final else row_of(after, i)
            info = one_info(infos["final_info"] if is_final else infos, i)
            steps[i].append(
                (row_of(observations, i), actions[i], final, rewards[i], bool(terminated[i]), bool(truncated[i]), info)
            )
        if mode is AutoresetMode.DISABLED and is_done.any():
            after, _ = envs.reset(options={"reset_mask": is_done})
        observations, was_done = after, is_done
    return steps


def check_same(steps, wanted):
    assert len(steps) == len(wanted) and sum(step[4] or step[5] for step in steps) >= 3
    for got, want in zip(steps, wanted, strict=True):
        np.testing.assert_equal(got, want)
        for name in ("past", "left"):
            assert got[2][name].dtype == want[2][name].dtype


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize("make", [make_lanes, make_looped])
@pytest.mark.parametrize("kind", [SyncVectorEnv, AsyncVectorEnv])
def test_every_environment_plays_as_it_does_alone(kind, make, mode):
    envs = kind([make] * NUM_ENVS, autoreset_mode=mode)
    for _ in range(2):  # the second time after other episodes, some of them unfinished: a reset leaves nothing of them
        for steps, root in zip(played_together(envs, 30, ROOTS), ROOTS, strict=True):
            check_same(steps, played_alone(root, len(steps), make))
    envs.close()


def test_infos_become_arrays():
    envs = SyncVectorEnv([make_looped] * 2, autoreset_mode=AutoresetMode.NEXT_STEP)
    _, infos = envs.reset(seed=5)
    wanted = [int(training_draw(root, NUM_SEEDS, 0, 1)[0][0]) for root in (5, 6)]
    assert infos["seed_id"].tolist() == wanted and infos["_seed_id"].all() and "metrics" not in infos
    *_, infos = envs.step(np.array([1, 2]))
    assert infos["aux_info"]["left"].tolist() == [0.875, 0.5]
    assert infos["aux_info"]["pair"].tolist() == [[1, 1], [1, 1]]
    assert infos["aux_info"]["label"].tolist() == ["step 1", "step 1"]
    *_, terminated, _truncated, infos = envs.step(np.array([0, 2]))
    assert terminated.tolist() == infos["_metrics"].tolist() == [False, True]
    assert infos["metrics"]["left_fraction"][1] == 0.0 and infos["metrics"]["_left_fraction"].tolist() == [False, True]


@pytest.mark.parametrize("kind", [SyncVectorEnv, partial(AsyncVectorEnv, shared_memory=True)])
def test_seeds_give_distinct_and_reproducible_sequences(kind):
    envs = kind([make_lanes] * NUM_ENVS)
    first, again = played_together(envs, 40, [1, 2, 3]), played_together(envs, 40, 1)  # an integer counts up
    np.testing.assert_equal(first, again)
    sequences = [tuple(step[6]["seed_id"] for step in steps) for steps in first]
    assert len(set(sequences)) == NUM_ENVS
    other = played_together(envs, 40, [9, 2, 3])
    np.testing.assert_equal(other[1:], first[1:])  # an environment does not depend on its neighbours
    with pytest.raises(AssertionError):
        np.testing.assert_equal(other[0], first[0])
    envs.close()


def test_the_second_reset_follows_from_the_seed_too():
    one, other = make_lanes(), make_lanes()
    for env in (one, other):
        env.reset(seed=5)
    for _ in range(40):
        np.testing.assert_equal(one.reset(), other.reset())
    assert one.reset(seed=5)[1]["seed_id"] == make_lanes().reset(seed=5)[1]["seed_id"]


# Wrappers.


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
@pytest.mark.parametrize("inside", [True, False])
def test_episode_statistics_report_three_and_three_and_three(mode, inside):
    if inside:
        envs = SyncVectorEnv([lambda: wrappers.RecordEpisodeStatistics(make_three())] * 2, autoreset_mode=mode)
    else:
        envs = wrappers.vector.RecordEpisodeStatistics(SyncVectorEnv([make_three] * 2, autoreset_mode=mode))
    envs.reset(seed=0)
    reported = []
    for _ in range(24):
        *_, terminated, _, infos = envs.step(np.zeros(2, np.int64))
        if terminated.any():
            said = infos["final_info"] if mode is AutoresetMode.SAME_STEP and inside else infos
            reported += [(said["episode"]["r"][i], said["episode"]["l"][i]) for i in np.flatnonzero(terminated)]
            if mode is AutoresetMode.DISABLED:
                envs.reset(options={"reset_mask": terminated})
    assert len(reported) >= 12 and set(reported) == {(3.0, 3)}


# What is handed out belongs to the caller, in the types that the spaces declare.


DEEP = spaces.Dict(
    {
        "a": spaces.Dict(
            {
                "b": spaces.Dict({"bits": spaces.MultiBinary((2, 3))}),
                "pair": spaces.Tuple((spaces.Discrete(5, start=-2), spaces.Box(-1.0, 1.0, (2,), np.float16))),
            }
        ),
        "many": spaces.MultiDiscrete([3, 4], dtype=np.int32),
        "bytes": spaces.Box(0, 255, (4,), np.uint8),
        "scalar": spaces.Box(-1.0, 1.0, (), np.float64),
    }
)
RAGGED = spaces.Dict(
    {
        "text": spaces.Text(5),
        "words": spaces.Sequence(spaces.Text(4)),
        "rows": spaces.Sequence(spaces.Box(0, 1, (2,)), stack=True),
    }
)


class Sampled(StateInterpreter):
    """Shows whatever its space samples, by the number of the seed and the step."""

    def __init__(self, space) -> None:
        self._space = space

    @property
    def observation_space(self):
        return self._space

    def interpret(self, state, status):
        space = copy.deepcopy(self._space)
        space.seed(100 * status.initial_state + state)
        return space.sample()


def make_sampled(space):
    return EnvWrapper(looped_parts(ThreeSteps, Sampled(space), Anything(), One(), max_steps=3), SequenceSeedSet(range(4)))


@pytest.mark.parametrize(
    ("space", "kind"),
    [
        (DEEP, SyncVectorEnv),
        (DEEP, partial(AsyncVectorEnv, shared_memory=True)),
        (DEEP, partial(AsyncVectorEnv, shared_memory=False)),
        (RAGGED, SyncVectorEnv),
        # gymnasium shares no ragged memory, and of shared texts it shows the first for ever
        (RAGGED, partial(AsyncVectorEnv, shared_memory=False)),
    ],
)
def test_nested_spaces_travel_whole(space, kind):
    envs = kind([lambda: make_sampled(space)] * 2)
    observations, infos = envs.reset(seed=[1, 2])
    for step in range(3):
        seen = gymnasium.vector.utils.iterate(envs.observation_space, observations)
        for observation, seed_id in zip(seen, infos["seed_id"], strict=True):
            expected = copy.deepcopy(space)
            expected.seed(100 * int(seed_id) + step)
            np.testing.assert_equal(observation, expected.sample())
        observations, *_, infos = envs.step(np.zeros(2, np.int64))
    envs.close()


@pytest.mark.parametrize("space", [DEEP, RAGGED])
def test_what_was_handed_out_may_be_changed(space):
    def spoil(value):
        if isinstance(value, dict):
            for key in value:
                spoil(value[key])
                value[key] = None
        elif isinstance(value, tuple):
            for child in value:
                spoil(child)
        elif isinstance(value, np.ndarray):
            value[...] = 1

    env, untouched = make_sampled(space), make_sampled(space)
    observation, info = env.reset(seed=1)
    spoil(observation)
    info.clear()
    np.testing.assert_equal(env.reset(seed=1), untouched.reset(seed=1))
    for _ in range(3):
        stepped, wanted = env.step(0), untouched.step(0)
        np.testing.assert_equal(stepped, wanted)
        assert wanted[0] in space
        spoil(stepped[0])
        stepped[4].clear()


def test_observations_keep_their_type_and_rewards_all_their_digits():
    env = make_lanes()
    env.reset(options={"seed_id": 0})
    observation, reward, *_ = env.step(1)
    assert {name: value.dtype for name, value in observation.items()} == {
        "left": np.float64,
        "past": np.float32,
        "step": np.int64,
    }
    envs = SyncVectorEnv([make_lanes])
    envs.reset(options={"seed_id": 0})
    _, rewards, *_ = envs.step(np.array([1]))
    assert rewards.dtype == np.float64 and rewards[0] == reward and float(np.float32(reward)) != reward
