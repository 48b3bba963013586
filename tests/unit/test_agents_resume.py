"""Saved agents go on as if they had never been saved: to the bit, with everything that moves, and hurting nobody's dict."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
import torch

from rlcore.agents.specs import LinearDecaySpec, MLPSpec
from rlcore.execution.learning.specs import RecurrentSpec
from rlcore.foundation.errors import CheckpointError
from tests.agents_toy import (
    PRIORITIES,
    ToyHistory,
    a2c_spec,
    discrete_sac_spec,
    dqn_spec,
    make_agent,
    make_rollout,
    ppo_spec,
    sac_spec,
)

DECAY = LinearDecaySpec(num_iterations=6, final_fraction=0.1)
SCALED = MLPSpec(sizes=(16, 8), observation_scaling="running")
SPECS = {
    "ppo": ppo_spec(),
    "ppo with everything": ppo_spec(network=SCALED, learning_rate_decay=DECAY, return_scaling="running", value_clip_range=0.2),
    "a2c": a2c_spec(),
    "a2c with everything": a2c_spec(network=SCALED, learning_rate_decay=DECAY, return_scaling="running", optimizer="adam"),
    "dqn": dqn_spec(),
    "dqn with everything": dqn_spec(
        network=SCALED,
        learning_rate_decay=DECAY,
        num_return_steps=3,
        memory_size=60,
        priorities=PRIORITIES,
        value_head="dueling",
    ),
    "sac": sac_spec(),
    "sac with everything": sac_spec(network=SCALED, learning_rate_decay=DECAY, memory_size=60, priorities=PRIORITIES),
    "sac, fixed temperature, long warm-up": sac_spec(temperature="fixed", learn_after=90),
    "discrete sac": discrete_sac_spec(),
    "discrete sac with everything": discrete_sac_spec(
        network=SCALED, learning_rate_decay=DECAY, memory_size=60, priorities=PRIORITIES, max_gradient_norm=1.0
    ),
}


def assert_same(left: Any, right: Any) -> None:
    assert type(left) is type(right)
    if isinstance(left, torch.Tensor):
        assert left.dtype == right.dtype and torch.equal(left, right)
    elif isinstance(left, dict):
        assert left.keys() == right.keys()
        for key in left:
            assert_same(left[key], right[key])
    elif isinstance(left, list | tuple):
        assert len(left) == len(right)
        for ours, theirs in zip(left, right, strict=True):
            assert_same(ours, theirs)
    else:
        assert left == right


def iterate(agent: Any, first: int, last: int, masks: str = "none") -> list[dict[str, float]]:
    return [agent.learn(make_rollout(agent.training_policy(), seed=seed, masks=masks)) for seed in range(first, last)]


def through_a_file(state: dict[str, Any]) -> dict[str, Any]:
    stream = io.BytesIO()
    torch.save(state, stream)
    stream.seek(0)
    return torch.load(stream, weights_only=True)  # type: ignore[no-any-return]  # a dict was saved


@pytest.mark.parametrize("masks", ["none", "drawn"])
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
def test_stopping_in_the_middle_changes_no_bit(spec: Any, masks: str) -> None:
    if spec.kind == "sac":
        masks = "none"  # actions in a Box have none
    straight = make_agent(spec)
    figures = iterate(straight, 0, 6, masks)
    interrupted = make_agent(spec)
    first_half = iterate(interrupted, 0, 3, masks)
    resumed = make_agent(spec)
    resumed.load_state_dict(through_a_file(interrupted.state_dict()))
    second_half = iterate(resumed, 3, 6, masks)
    assert_same(resumed.state_dict(), straight.state_dict())
    assert first_half + second_half == figures


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
def test_a_state_is_nobody_elses(spec: Any) -> None:
    agent = make_agent(spec)
    iterate(agent, 0, 2)
    state = agent.state_dict()
    kept = copy.deepcopy(state)
    iterate(agent, 2, 4)
    assert_same(state, kept)  # going on does not reach into it
    other = make_agent(spec)
    other.load_state_dict(state)
    iterate(other, 2, 4)
    assert_same(state, kept)  # nor does loading (tianshou pops from it, torch's Adam would write into it)
    third = make_agent(spec)
    third.load_state_dict(state)  # twice from one dict
    iterate(third, 2, 4)
    assert_same(third.state_dict(), other.state_dict())
    assert_same(other.state_dict(), agent.state_dict())


@pytest.mark.parametrize("make", [ppo_spec, dqn_spec, sac_spec, discrete_sac_spec])
def test_recurrent_agents_resume_too(make: Any) -> None:
    interpreter = ToyHistory()
    spec = make(network=RecurrentSpec(hidden_size=8, output_size=4))

    def go(agent: Any, first: int, last: int) -> None:
        for seed in range(first, last):
            agent.learn(make_rollout(agent.training_policy(), interpreter.draw, seed=seed))

    straight, interrupted, resumed = (make_agent(spec, interpreter) for _ in range(3))
    go(straight, 0, 4)
    go(interrupted, 0, 2)
    resumed.load_state_dict(through_a_file(interrupted.state_dict()))
    go(resumed, 2, 4)
    assert_same(resumed.state_dict(), straight.state_dict())


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
def test_an_evaluation_changes_nothing_in_training(spec: Any) -> None:
    judged, left_alone = make_agent(spec), make_agent(spec)
    for seed in range(3):
        make_rollout(judged.evaluation_policy(), seed=seed + 50, lanes=7)
        iterate(judged, seed, seed + 1)
        iterate(left_alone, seed, seed + 1)
    assert_same(judged.state_dict(), left_alone.state_dict())


def test_fresh_agents_depend_on_their_root_alone() -> None:
    first = make_agent(ppo_spec(), root=1).state_dict()
    torch.manual_seed(123)
    assert_same(make_agent(ppo_spec(), root=1).state_dict(), first)
    with pytest.raises(AssertionError):
        assert_same(make_agent(ppo_spec(), root=2).state_dict(), first)


def test_states_of_other_agents_are_refused() -> None:
    with pytest.raises(CheckpointError, match="'dqn'"):
        make_agent(ppo_spec()).load_state_dict(make_agent(dqn_spec()).state_dict())
    with pytest.raises(CheckpointError, match="must fit"):
        make_agent(ppo_spec()).load_state_dict(make_agent(ppo_spec(network=MLPSpec(sizes=(5,)))).state_dict())
