"""Decisions: independent of neighbours to the bit, drawn as they should be, within masks; and the sentinel."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlcore.agents.specs import MLPSpec
from rlcore.foundation.errors import ContractError
from rlcore.foundation.random_streams import LaneRandomness
from tests.agents_toy import dqn_spec, draw_mixed, lane_randomness, make_agent, make_rollout, ppo_spec, shuffled

torch.set_num_threads(1)
SIZED = MLPSpec(sizes=(64, 64))


def trained(spec: Any) -> Any:
    agent = make_agent(spec)
    agent.learn(make_rollout(agent.training_policy(), lanes=40))
    return agent


@pytest.mark.parametrize("lanes", [256, 1024, 4096])
@pytest.mark.parametrize("spec", [ppo_spec(network=SIZED), dqn_spec(network=SIZED)], ids=["ppo", "dqn"])
def test_a_row_does_not_depend_on_its_neighbours_nor_on_its_place(spec: Any, lanes: int) -> None:
    policy = trained(spec).training_policy()
    rng = np.random.default_rng(lanes)
    reference, mask = draw_mixed(rng, lanes), rng.random((lanes, 3)) < 0.7
    mask[:, 1] = True
    randomness = lane_randomness(lanes)
    whole = policy.decide(reference, None, mask, randomness)
    for _ in range(5):
        order = rng.permutation(lanes)
        moved = policy.decide(shuffled(reference, order), None, mask[order], LaneRandomness(randomness.key[order]))
        for name in ("action", "log_prob", "value"):
            ours, theirs = getattr(whole, name), getattr(moved, name)
            assert (ours is None and theirs is None) or (ours[order] == theirs).all(), name
    # Other company, the last lane repeated as the engine does.
    few = np.minimum(np.arange(lanes), lanes // 7)
    padded = policy.decide(shuffled(reference, few), None, mask[few], LaneRandomness(randomness.key[few]))
    assert (padded.action == whole.action[few]).all()
    assert (padded.value == whole.value[few]).all()


def test_frequencies_are_the_probabilities_within_the_mask() -> None:
    agent = trained(ppo_spec(learning_rate=0.1))
    one = draw_mixed(np.random.default_rng(4), 1)
    lanes = 40_000
    reference = {name: np.repeat(leaf, lanes, 0) for name, leaf in one.items()}
    logits = agent.model(one, agent._reader)[0].detach().numpy()[0].astype(float)
    for possible in ([True, True, True], [True, False, True], [False, True, True], [False, False, True]):
        odds = np.exp(logits) * possible
        expected = odds / odds.sum()
        mask = np.tile(possible, (lanes, 1))
        decision = agent.training_policy().decide(reference, None, mask, lane_randomness(lanes))
        frequency = np.bincount(decision.action, minlength=3) / lanes
        np.testing.assert_allclose(frequency, expected, atol=4 * np.sqrt(0.25 / lanes))
        assert (frequency[~np.array(possible)] == 0).all()
        np.testing.assert_allclose(np.exp(decision.log_prob), expected[decision.action], rtol=1e-4)


def test_extreme_random_numbers_never_choose_the_impossible() -> None:
    head = make_agent(ppo_spec()).model.actor
    logits = torch.tensor([[0.3, -0.2, 0.1]])
    for uniform in (0.0, np.nextafter(1.0, 0.0)):
        for bits in ("100", "010", "001", "011", "110"):
            possible = [bit == "1" for bit in bits]
            action = int(head.choose(logits, np.array([possible]), np.array([[uniform]]))[0])
            assert possible[action]
            assert action == (np.flatnonzero(possible)[0] if uniform == 0 else np.flatnonzero(possible)[-1])


def test_evaluation_takes_the_likeliest_possible_action_and_no_randomness() -> None:
    agent = trained(ppo_spec())
    reference = draw_mixed(np.random.default_rng(1), 200)
    nothing = LaneRandomness(np.zeros(0, np.uint64))
    logits = agent.model(reference, agent._reader)[0].detach().numpy()
    mask = np.random.default_rng(2).random((200, 3)) < 0.5
    mask[:, 0] = True
    action = agent.evaluation_policy().decide(reference, None, mask, nothing).action
    np.testing.assert_array_equal(action, np.where(mask, logits, -np.inf).argmax(-1))


def test_choices_may_start_anywhere() -> None:
    for spec in (ppo_spec(), dqn_spec()):
        agent = make_agent(spec, action_space=spaces.Discrete(3, start=-1))
        rollout = make_rollout(agent.training_policy(), lanes=60)
        assert set(np.unique(rollout.action[rollout.is_alive])) == {-1, 0, 1}
        assert np.isfinite(list(agent.learn(rollout).values())).all()


def test_a_lane_without_any_possible_action_is_named() -> None:
    mask = np.ones((4, 3), bool)
    mask[2] = False
    for spec in (ppo_spec(), dqn_spec()):
        with pytest.raises(ContractError, match="lane 2"):
            make_agent(spec).training_policy().decide(draw_mixed(np.random.default_rng(0), 4), None, mask, lane_randomness(4))


@pytest.mark.parametrize("spec", [ppo_spec(), dqn_spec()], ids=["ppo", "dqn"])
def test_sentinel_names_the_field_and_the_lane(spec: Any) -> None:
    agent = make_agent(spec)
    reference = draw_mixed(np.random.default_rng(0), 6)
    reference["place"][4, 1] = np.nan
    with pytest.raises(ContractError, match=r"lane 4: observation\['place'\] was nan"):
        agent.training_policy().decide(reference, None, None, lane_randomness(6))
    with torch.no_grad():
        next(agent.model.parameters()).fill_(np.nan)
    with pytest.raises(ContractError, match="its parameters are to blame"):
        agent.training_policy().decide(draw_mixed(np.random.default_rng(0), 6), None, None, lane_randomness(6))


@pytest.mark.parametrize("spec", [ppo_spec(), dqn_spec()], ids=["ppo", "dqn"])
def test_policies_travel_to_other_processes(spec: Any) -> None:
    policy = trained(spec).training_policy()
    reference = draw_mixed(np.random.default_rng(0), 50)
    there = pickle.loads(pickle.dumps(policy)).decide(reference, None, None, lane_randomness(50))
    here = policy.decide(reference, None, None, lane_randomness(50))
    assert (there.action == here.action).all()
    assert (there.value == here.value).all()
