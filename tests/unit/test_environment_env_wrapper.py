"""The parts as a gymnasium environment."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

from rlcore.contracts import LaneActionInterpreter
from rlcore.environment.env_wrapper import EnvWrapper
from rlcore.environment.evaluation import evaluate
from rlcore.environment.random_actions import SameAction
from rlcore.environment.seed_sampling import training_draw
from rlcore.foundation.errors import ConfigError, ContractError, SpaceError
from rlcore.foundation.random_streams import RandomStreams
from tests.environment_toys import SPENDING, SpendAction, WorldSeeds, looped_spend_parts, spend_parts, spend_seeds

both_forms = pytest.mark.parametrize("form", [spend_parts, looped_spend_parts])


@both_forms
def test_gymnasiums_checker_has_nothing_to_say(form):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Without a spec (there is none outside gymnasium.make) the checker cannot try other render modes.
        warnings.filterwarnings("ignore", message=".*spec.*")
        warnings.filterwarnings("ignore", message=".*infinity.*")  # "past" has no upper bound
        check_env(EnvWrapper(form(), spend_seeds()), skip_render_check=True)


def play(env, action=1, **reset):
    observation, info = env.reset(**reset)
    steps = [(observation, info)]
    is_over = False
    while not is_over:
        observation, reward, terminated, truncated, info = env.step(action)
        steps.append((observation, reward, terminated, truncated, info))
        is_over = terminated or truncated
    return steps


@both_forms
def test_episodes_are_those_of_an_evaluation(form):
    seeds, parts = spend_seeds(6), form()
    table = evaluate(parts, SameAction(SpendAction.action_space, 1), seeds, RandomStreams(0), "test", 4)
    env = EnvWrapper(form(), seeds)
    for seed_id in range(6):
        first, *steps = play(env, options={"seed_id": seed_id})
        assert first[1] == {"seed_id": seed_id, "visit": 0}
        assert len(steps) == table["num_steps"][seed_id]
        assert sum(step[1] for step in steps) == table["return"][seed_id]
        assert steps[-1][3] is bool(table["is_truncated"][seed_id])
        assert steps[-1][4]["metrics"] == {"left_fraction": table["left_fraction"][seed_id]}
        assert all("metrics" not in step[4] for step in steps[:-1])
        for name in ("bargain", "haste"):
            total = sum(step[4][f"reward/{name}"] for step in steps)
            assert total == pytest.approx(table[f"reward/{name}"][seed_id], rel=1e-12)
        for step in steps:
            assert step[1] == pytest.approx(step[4]["reward/bargain"] + step[4]["reward/haste"], rel=1e-12)


def test_types_are_pythons_and_the_spaces():
    env = EnvWrapper(spend_parts(), spend_seeds())
    observation, _ = env.reset(seed=1)
    assert observation in env.observation_space
    observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
    assert observation in env.observation_space
    assert (type(reward), type(terminated), type(truncated), type(info)) == (float, bool, bool, dict)
    assert observation["past"].dtype == np.float32 and observation["past"].shape == (24,)


def test_observations_belong_to_the_caller():
    env = EnvWrapper(spend_parts(), spend_seeds())
    observation, _ = env.reset(options={"seed_id": 0})
    observation["past"][:] = 99.0
    observation["left"][...] = 0.0
    untouched, *_ = play(EnvWrapper(spend_parts(), spend_seeds()), options={"seed_id": 0})
    again = env.step(1)
    other = EnvWrapper(spend_parts(), spend_seeds())
    other.reset(options={"seed_id": 0})
    assert again[1] == other.step(1)[1] and untouched[0]["past"].max() == 0.0


def test_seeds_follow_the_training_sequence_of_the_given_root():
    env = EnvWrapper(spend_parts(), spend_seeds(5))
    wanted = [(int(i), int(v)) for i, v in zip(*training_draw(42, 5, 0, 12), strict=True)]
    for _ in range(2):  # the second time after other episodes: nothing of them is left
        infos = [env.reset(seed=42)[1]] + [env.reset()[1] for _ in range(11)]
        assert [(info["seed_id"], info["visit"]) for info in infos] == wanted
    env.reset(seed=42)
    env.reset(options={"seed_id": 3})
    assert env.reset()[1]["seed_id"] == wanted[1][0]  # a chosen seed leaves the sequence where it was
    assert EnvWrapper(spend_parts(), spend_seeds(5), root=42).reset()[1]["seed_id"] == wanted[0][0]


def test_unseeded_environments_differ():
    seeds = spend_seeds(1000)
    firsts = {EnvWrapper(spend_parts(), seeds).reset()[1]["seed_id"] for _ in range(6)}
    assert len(firsts) > 1  # all six the same: one in 1000**5


def test_seeding_does_not_touch_numpys_global_state():
    before = np.random.get_state()[1].copy()  # noqa: NPY002  # the legacy state is what must not move
    play(EnvWrapper(spend_parts(), spend_seeds()), seed=3)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_misuse_has_an_error_that_says_what_to_do():
    env = EnvWrapper(spend_parts(), spend_seeds(3))
    with pytest.raises(ContractError, match="call reset first"):
        env.step(0)
    with pytest.raises(ConfigError, match=r"option of reset must be one of seed_id, was 'seedid' \(did you mean 'seed_id'\?\)"):
        env.reset(options={"seedid": 1})
    with pytest.raises(ConfigError, match="seed_id must be a whole number from 0 to 2, was 3"):
        env.reset(options={"seed_id": 3})
    env.reset(seed=0)
    with pytest.raises(SpaceError, match=r"action must lie in \{0, …, 2\}, was 3"):
        env.step(3)
    with pytest.raises(SpaceError, match="action must be"):
        env.step(None)
    while not any(env.step(2)[2:4]):
        pass
    with pytest.raises(ContractError, match="call reset first"):
        env.step(2)
    with pytest.raises(ConfigError, match="seeds must hold at least 1 seed, held 0"):
        EnvWrapper(spend_parts(), WorldSeeds(np.zeros((0, 25))))


class NestedAction(LaneActionInterpreter):
    """The same choices through a dict of a continuous and a discrete action, with a mask of its own."""

    action_space = spaces.Dict({"fraction": spaces.Box(0, 1, (1,), np.float32), "wait": spaces.Discrete(2)})

    def interpret(self, view, action, status):
        return np.where(action["wait"] == 1, 0.0, action["fraction"][:, 0].astype(np.float64))


def test_actions_may_be_nested():
    env = EnvWrapper(spend_parts(action_interpreter=NestedAction()), spend_seeds())
    check_env(env, skip_render_check=True)
    env.reset(options={"seed_id": 0})
    *_, info = env.step({"fraction": np.array([0.5], np.float32), "wait": 0})
    assert info["reward/haste"] == -0.25 * 0.5**2
    with pytest.raises(SpaceError, match=r"action must have the keys of its space, lacked \['wait'\]"):
        env.step({"fraction": np.array([0.5], np.float32)})
    with pytest.raises(SpaceError, match=r"action\['fraction'\] must lie in \[0.0, 1.0\], was 1.5"):
        env.step({"fraction": np.array([1.5], np.float32), "wait": 0})


class MaskedAction(SpendAction):
    def mask(self, view, status):
        return view.left[:, None] >= SPENDING


def test_the_mask_of_now_is_offered():
    env = EnvWrapper(spend_parts(action_interpreter=MaskedAction()), spend_seeds())
    assert env.action_mask is None
    env.reset(options={"seed_id": 0})
    env.step(2)
    env.step(1)  # 0.375 is left
    assert env.action_mask.tolist() == [True, True, False]
    assert EnvWrapper(spend_parts(), spend_seeds()).action_mask is None
