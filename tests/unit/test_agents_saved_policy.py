"""A saved policy acts alone, from one file of plain data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlcore.agents import builtin_agents
from rlcore.agents.saved_policy import load_policy
from rlcore.agents.space_encoding import decode_space, encode_space
from rlcore.agents.specs import MLPSpec
from rlcore.execution.learning.specs import RecurrentSpec, register
from rlcore.foundation.errors import CheckpointError, ConfigError, ContractError, SpaceError
from rlcore.foundation.registry import Registry
from tests.agents_toy import (
    TWO_NUMBERS,
    ToyHistory,
    discrete_sac_spec,
    dqn_spec,
    draw_mixed,
    lane_randomness,
    make_agent,
    make_rollout,
    ppo_spec,
    sac_spec,
)

SCALED = MLPSpec(sizes=(16, 8), observation_scaling="running")


def saved(path: Path, spec: Any, **changes: Any) -> Any:
    agent = make_agent(spec, **changes)
    for seed in range(3):
        agent.learn(make_rollout(agent.training_policy(), seed=seed, lanes=30))
    agent.save_policy(path / "policy.pt")
    return agent


@pytest.mark.parametrize(
    ("spec", "action_space"),
    [
        (ppo_spec(network=SCALED), spaces.Discrete(3)),
        (dqn_spec(network=SCALED), spaces.Discrete(3)),
        (dqn_spec(value_head="dueling"), spaces.Discrete(3)),
        (ppo_spec(), spaces.Box(0.0, 4.0, (2,), np.float32)),
        (sac_spec(network=SCALED), TWO_NUMBERS),
        (sac_spec(), spaces.Box(-3.0, 3.0, (), np.float64)),
        (discrete_sac_spec(network=SCALED), spaces.Discrete(3, start=-1)),
    ],
    ids=["ppo", "dqn", "dueling dqn", "continuous", "sac", "sac of one number", "discrete sac"],
)
def test_acts_as_the_agent_did(tmp_path: Path, spec: Any, action_space: Any) -> None:
    agent = saved(tmp_path, spec, action_space=action_space)
    policy = load_policy(tmp_path / "policy.pt")
    assert policy.action_space == action_space
    observation = draw_mixed(np.random.default_rng(8), 40)
    batch = policy.act(observation)
    np.testing.assert_array_equal(batch, agent.evaluation_policy().decide(observation, None, None, lane_randomness(40)).action)
    for lane in range(5):
        single = policy.act({name: leaf[lane] for name, leaf in observation.items()})
        np.testing.assert_allclose(single, batch[lane], atol=1e-5)
        assert np.shape(single) == action_space.shape
    drawn = policy.act(observation, deterministic=False, randomness=lane_randomness(40))
    assert drawn.shape == batch.shape
    with pytest.raises(ContractError, match="randomness must be given"):
        policy.act(observation, deterministic=False)


def test_masks_and_spaces_are_honoured(tmp_path: Path) -> None:
    saved(tmp_path, ppo_spec())
    policy = load_policy(tmp_path / "policy.pt")
    observation = draw_mixed(np.random.default_rng(8), 4)
    one = {name: leaf[0] for name, leaf in observation.items()}
    assert policy.act(one, mask=np.array([False, False, True])) == 2
    assert set(policy.act(observation, mask=np.tile([False, True, False], (4, 1))).tolist()) == {1}
    with pytest.raises(SpaceError, match="kind"):
        policy.act(one | {"kind": 9})


def test_recurrent_policies_need_no_store(tmp_path: Path) -> None:
    interpreter = ToyHistory()
    agent = make_agent(ppo_spec(network=RecurrentSpec(hidden_size=8, output_size=4)), interpreter)
    agent.learn(make_rollout(agent.training_policy(), interpreter.draw))
    agent.save_policy(tmp_path / "policy.pt")
    registry = Registry()
    builtin_agents.register(registry)
    register(registry)
    policy = load_policy(tmp_path / "policy.pt", registry)
    reference = interpreter.draw(np.random.default_rng(3), 30)
    expected = agent.evaluation_policy().decide(reference, None, None, lane_randomness(30))
    np.testing.assert_array_equal(policy.act(interpreter.expand(reference)), expected.action)
    lanes = policy.evaluation_policy(interpreter).decide(reference, None, None, lane_randomness(30))
    np.testing.assert_array_equal(lanes.action, expected.action)
    with pytest.raises(ConfigError, match="recurrent"):
        load_policy(tmp_path / "policy.pt")


def test_files_that_are_no_policies_are_refused(tmp_path: Path) -> None:
    saved(tmp_path, ppo_spec())
    whole = (tmp_path / "policy.pt").read_bytes()
    assert isinstance(torch.load(tmp_path / "policy.pt", weights_only=True), dict)
    (tmp_path / "half.pt").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.pt").write_text("no policy")
    torch.save({"something": "else"}, tmp_path / "other.pt")
    data = torch.load(tmp_path / "policy.pt", weights_only=True)
    torch.save(data | {"version": 99}, tmp_path / "newer.pt")
    torch.save(data | {"model_kind": "oracle"}, tmp_path / "unknown.pt")
    for name in ("half", "text", "other", "newer", "unknown", "missing"):
        with pytest.raises(CheckpointError, match=f"{name}.pt"):
            load_policy(tmp_path / f"{name}.pt")


def test_loading_leaves_the_global_generator_alone(tmp_path: Path) -> None:
    saved(tmp_path, ppo_spec())
    before = torch.get_rng_state()
    load_policy(tmp_path / "policy.pt")
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(np.array([-np.inf, 0], np.float32), np.array([1, np.inf], np.float32)),
        spaces.Box(-1.0, 1.0, (), np.float64),
        spaces.Discrete(4, start=-2),
        spaces.MultiDiscrete([3, 4], start=[0, 1]),
        spaces.MultiBinary(2),
        spaces.MultiBinary([2]),
        spaces.MultiBinary((2, 3)),
        spaces.Dict({"b": spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 1, (2, 2), np.float32)]), "a": spaces.Discrete(3)}),
    ],
    ids=[
        "box",
        "scalar box",
        "discrete",
        "multi discrete",
        "multi binary",
        "multi binary of one row",
        "multi binary of rows",
        "nested",
    ],
)
def test_spaces_survive(space: Any) -> None:
    assert decode_space(encode_space(space)) == space
