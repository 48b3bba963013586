"""Soft actor-critics: densities, targets, losses and gradients against ones written out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from tianshou.data import Batch
from torch.distributions import Normal, TransformedDistribution
from torch.distributions.transforms import TanhTransform

from rlcore.agents.soft_actor import SquashedGaussianHead
from rlcore.agents.specs import MLPSpec
from rlcore.agents.temperature import Temperature
from rlcore.agents.transitions import alive_steps
from rlcore.foundation.errors import ConfigError, ContractError
from tests.agents_toy import (
    TWO_NUMBERS,
    alive_count,
    discrete_sac_spec,
    draw_mixed,
    lane_randomness,
    make_agent,
    make_rollout,
    sac_spec,
)

BOTH = pytest.mark.parametrize("spec", [sac_spec(), discrete_sac_spec()], ids=["sac", "discrete sac"])


# The squashed Gaussian


def test_log_densities_are_those_of_a_transformed_normal() -> None:
    rng = torch.Generator().manual_seed(0)
    head = SquashedGaussianHead(3, TWO_NUMBERS).double()
    parameters = head(torch.randn(50, 3, generator=rng, dtype=torch.float64))
    normal = torch.randn(50, 2, generator=rng, dtype=torch.float64)
    squashed, log_density = head.draw(parameters, normal)
    mean, deviation = parameters[..., 0], parameters[..., 1].exp()
    oracle = TransformedDistribution(Normal(mean, deviation), TanhTransform())
    torch.testing.assert_close(squashed, torch.tanh(mean + deviation * normal))
    # The oracle takes the logarithm of 1 − tanh², which loses digits where that is small.
    torch.testing.assert_close(log_density, oracle.log_prob(squashed).sum(-1), rtol=1e-6, atol=1e-8)


def test_log_densities_stay_exact_where_the_squashing_rounds_to_one() -> None:
    head = SquashedGaussianHead(1, TWO_NUMBERS)
    parameters = torch.tensor([[[30.0, 0.0], [-30.0, 0.0]]])
    squashed, log_density = head.draw(parameters, torch.zeros(1, 2))
    assert squashed.tolist() == [[1.0, -1.0]]
    # log 4 − 2 |z| is the logarithm of 1 − tanh² z for great |z|.
    assert log_density.item() == pytest.approx(2 * (-0.5 * math.log(2 * math.pi) - (math.log(4.0) - 60.0)), rel=1e-6)


def test_choices_invert_the_distribution_function_and_stay_in_bounds() -> None:
    head = SquashedGaussianHead(1, TWO_NUMBERS)
    parameters = torch.tensor([[[0.3, -1.0], [-0.2, 0.5]]]).repeat(5, 1, 1)
    uniform = np.array([[0.5, 0.5], [0.1, 0.9], [0.0, 1 - 2.0**-53], [0.999, 0.001], [0.25, 0.75]])
    action = head.choose(parameters, None, uniform)
    assert action.dtype == np.float32 and action.shape == (5, 2)
    np.testing.assert_array_equal(action[0], head.likeliest(parameters, None)[0])
    assert all(TWO_NUMBERS.contains(one) for one in action)
    z = np.arctanh(head.squashed(action[[1, 3, 4]]).astype(np.float64))
    below = Normal(torch.tensor([0.3, -0.2]), torch.tensor([-1.0, 0.5]).exp()).cdf(torch.from_numpy(z)).numpy()
    np.testing.assert_allclose(below, uniform[[1, 3, 4]], atol=1e-4)
    extreme = head.choose(parameters * 100, None, uniform)
    assert all(TWO_NUMBERS.contains(one) for one in extreme)


def test_squashed_undoes_the_bounds() -> None:
    head = SquashedGaussianHead(1, TWO_NUMBERS)
    np.testing.assert_allclose(head.squashed(np.array([[-1.0, 0.0], [0.0, 2.0], [1.0, 3.0]])), [[-1, -1], [0, 0], [1, 0.5]])


# One gradient step


def learned(spec: Any, masks: str = "none", action_space: Any = None) -> Any:
    agent = make_agent(spec, action_space=action_space)
    for seed in range(3):  # so that the lagged critics are other networks
        agent.learn(make_rollout(agent.training_policy(), seed=seed, masks=masks))
    return agent


def oracle_mlp(weights: dict[str, torch.Tensor], observation: dict[str, np.ndarray]) -> torch.Tensor:
    one_hot = np.eye(4, dtype=np.float32)[observation["kind"] - 2]
    hidden = torch.from_numpy(np.concatenate([one_hot, observation["place"]], -1))
    for layer in ("network.layers.0", "network.layers.2"):
        hidden = torch.relu(hidden @ weights[f"{layer}.weight"].T + weights[f"{layer}.bias"])
    return hidden


def oracle_critic(weights: dict[str, torch.Tensor], observation: Any, squashed: torch.Tensor) -> torch.Tensor:
    hidden = torch.cat([oracle_mlp(weights, observation), squashed], -1)
    hidden = torch.relu(hidden @ weights["layers.0.weight"].T + weights["layers.0.bias"])
    return (hidden @ weights["layers.2.weight"].T + weights["layers.2.bias"])[:, 0]


def oracle_draw(weights: dict[str, torch.Tensor], observation: Any, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    layer = "head.mean_and_log_deviation"
    out = oracle_mlp(weights, observation) @ weights[f"{layer}.weight"].T + weights[f"{layer}.bias"]
    mean, log_deviation = out[:, :2], out[:, 2:].clamp(-20, 2)
    z = mean + log_deviation.exp() * noise
    action = torch.tanh(z)
    return action, (Normal(mean, log_deviation.exp()).log_prob(z) - torch.log(1 - action.square())).sum(-1)


def oracle_distribution(weights: dict[str, torch.Tensor], observation: Any, mask: np.ndarray | None) -> torch.Tensor:
    out = oracle_mlp(weights, observation) @ weights["head.logits.weight"].T + weights["head.logits.bias"]
    possible = torch.ones_like(out) if mask is None else torch.from_numpy(mask).float()
    share = torch.exp(out) * possible
    return share / share.sum(-1, keepdim=True)


def oracle_values(weights: dict[str, torch.Tensor], observation: Any) -> torch.Tensor:
    return oracle_mlp(weights, observation) @ weights["values.weight"].T + weights["values.bias"]


def leaves(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone().requires_grad_() for name, value in module.named_parameters()}


def assert_gradients(module: torch.nn.Module, weights: dict[str, torch.Tensor]) -> None:
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(parameter.grad, weights[name].grad, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("kind", ["sac", "discrete", "discrete with masks"])
def test_losses_and_gradients_are_the_oracles(kind: str) -> None:
    masks = "drawn" if kind.endswith("masks") else "none"
    # So small a rate that the critics' own step, which comes first, does not show in the actor's loss.
    small = {"learning_rate": 1e-12, "learning_rate_decay": None}
    agent = learned(sac_spec() if kind == "sac" else discrete_sac_spec(), masks)
    algorithm, memory = agent.algorithm, agent.cadence.memory
    for optimizer in (*algorithm.optimizers.values(), algorithm.alpha.optimizer):
        optimizer.learning_rate = small["learning_rate"]
    rows = np.random.default_rng(0).permutation(memory.num_rows)[:16]
    reference, (following, next_mask) = memory.reference(rows), memory.window_ends(rows)
    reward, discount = (torch.from_numpy(memory.column(name, rows)) for name in ("reward_sum", "bootstrap_discount"))
    assert 0.0 in discount.tolist() and 0.9 in [round(value, 6) for value in discount.tolist()]
    actor, critics = leaves(agent.model), [leaves(critic) for critic in algorithm.critics]
    lagged = [leaves(critic) for critic in algorithm.lagged]
    alpha = algorithm.alpha.value
    assert not torch.equal(next(iter(lagged[0].values())), next(iter(critics[0].values())))
    action = memory.column("action", rows)

    with torch.random.fork_rng():
        torch.manual_seed(4)
        noise, further_noise = torch.randn(16, 2), torch.randn(16, 2)
        torch.manual_seed(4)
        batch = Batch(row=rows)
        algorithm._preprocess_batch(batch, memory, rows)
        figures = algorithm._update_with_batch(batch).figures

    with torch.no_grad():
        if kind == "sac":
            drawn, log_density = oracle_draw(actor, following, noise)
            value = torch.minimum(*(oracle_critic(weights, following, drawn) for weights in lagged)) - alpha * log_density
        else:
            chance = oracle_distribution(actor, following, next_mask)
            least = torch.minimum(*(oracle_values(weights, following) for weights in lagged))
            value = (chance * (least - alpha * torch.log(chance.clamp_min(1e-30)))).sum(-1)
        target = reward + discount * value
    losses = []
    for weights, critic in zip(critics, algorithm.critics, strict=True):
        if kind == "sac":
            squashed = torch.from_numpy(np.stack([action[:, 0], action[:, 1] / 2 - 1], -1))
            taken = oracle_critic(weights, reference, squashed)
        else:
            taken = oracle_values(weights, reference)[torch.arange(16), torch.from_numpy(action)]
        loss = (taken - target).square().mean()
        loss.backward()
        losses.append(loss.item())
        assert_gradients(critic, weights)
    assert figures["critic_loss"] == pytest.approx(np.mean(losses), rel=1e-4)

    fixed = [{name: value.detach() for name, value in weights.items()} for weights in critics]
    if kind == "sac":
        drawn, log_density = oracle_draw(actor, reference, further_noise)
        least = torch.minimum(*(oracle_critic(weights, reference, drawn) for weights in fixed))
        loss = (alpha * log_density - least).mean()
        entropy, goal = -log_density.detach(), -2.0
    else:
        mask = memory.mask(rows)
        chance = oracle_distribution(actor, reference, mask)
        log_chance = torch.log(chance.clamp_min(1e-30))
        least = torch.minimum(*(oracle_values(weights, reference) for weights in fixed))
        loss = (chance * (alpha * log_chance - least)).sum(-1).mean()
        entropy = -(chance * log_chance).sum(-1).detach()
        count = 3 if mask is None else torch.from_numpy(mask.sum(-1)).float()
        goal = 0.98 * np.log(count) if mask is None else 0.98 * torch.log(count)
    loss.backward()
    assert figures["actor_loss"] == pytest.approx(loss.item(), rel=1e-3, abs=1e-5)
    assert figures["entropy"] == pytest.approx(entropy.mean().item(), rel=1e-4)
    assert_gradients(agent.model, actor)
    surplus = float((entropy - goal).mean())
    assert algorithm.alpha.log_value.grad.item() == pytest.approx(surplus, rel=1e-3, abs=1e-5)


@BOTH
def test_value_goes_on_after_a_truncation_or_a_cut_and_not_after_a_termination(spec: Any) -> None:
    agent = make_agent(spec)
    rollout = make_rollout(agent.training_policy())
    agent.learn(rollout)
    alive, memory = alive_steps(rollout), agent.cadence.memory
    rows = np.arange(memory.num_rows)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        agent.algorithm._preprocess_batch(Batch(row=rows), memory, rows)
        torch.manual_seed(0)
        with torch.no_grad():
            value = agent.algorithm.soft_value(alive.rows(rollout.next_reference), None).numpy()
    terminated, truncated = alive.rows(rollout.terminated), alive.rows(rollout.truncated)
    is_cut = alive.rows(alive.boundary) & ~terminated & ~truncated
    assert terminated.any() and truncated.any() and is_cut.any()
    expected = alive.rows(rollout.reward) + np.where(terminated, 0.0, 0.9 * value)
    np.testing.assert_allclose(agent.algorithm._target.numpy(), expected, rtol=1e-5)


@BOTH
def test_twins_differ_from_the_start_and_their_copies_follow_slowly(spec: Any) -> None:
    agent = make_agent(spec.model_copy(update={"network": MLPSpec(sizes=(8,), observation_scaling="running")}))
    first, second = (critic.state_dict() for critic in agent.algorithm.critics)
    assert not torch.equal(first["network.layers.0.weight"], second["network.layers.0.weight"])
    assert not torch.equal(first["network.layers.0.weight"], agent.model.state_dict()["network.layers.0.weight"])
    agent.learn(make_rollout(agent.training_policy(), seed=0))
    before = [{name: value.clone() for name, value in one.state_dict().items()} for one in agent.algorithm.lagged]
    steps = agent.cadence.num_gradient_steps
    while agent.cadence.num_gradient_steps == steps:
        rollout = make_rollout(agent.training_policy(), seed=1, lanes=2, steps=2)
        agent.learn(rollout)
    assert agent.cadence.num_gradient_steps == steps + 1
    for critic, lagged, old in zip(agent.algorithm.critics, agent.algorithm.lagged, before, strict=True):
        for name, value in critic.named_parameters():
            expected = old[name] + 0.1 * (value - old[name])
            torch.testing.assert_close(lagged.state_dict()[name], expected.detach(), rtol=1e-5, atol=1e-6)
        assert float(lagged.state_dict()["network.scaling.count"]) > 0


@BOTH
def test_the_actor_s_step_leaves_no_gradient_in_the_critics(spec: Any) -> None:
    agent = learned(spec)
    rows = np.arange(16)
    for critic in agent.algorithm.critics:
        critic.zero_grad()
    loss, _, _ = agent.algorithm.actor_loss(agent.cadence.memory, rows)
    loss.backward()
    for critic in agent.algorithm.critics:
        assert all(parameter.grad is None and parameter.requires_grad for parameter in critic.parameters())
    assert all(parameter.grad is not None for parameter in agent.model.parameters())


# Temperature


def test_temperature_falls_while_entropy_is_above_its_target_and_rises_below() -> None:
    temperature = Temperature(0.5, 0.1)
    assert temperature.value == pytest.approx(0.5)
    temperature.update(torch.tensor([1.0, 2.0]))
    assert temperature.value == pytest.approx(0.5 * math.exp(-0.1), rel=1e-3)  # Adam's first step is the learning rate
    lowest = temperature.value
    for _ in range(5):
        temperature.update(torch.tensor([-1.0, -4.0]))
    assert temperature.value > lowest


@BOTH
def test_a_fixed_temperature_stays(spec: Any) -> None:
    agent = learned(spec.model_copy(update={"temperature": "fixed", "initial_temperature": 0.3}))
    assert agent.algorithm.alpha.value == 0.3
    assert agent.state_dict()["temperature"] is None


# Acting


@BOTH
def test_actions_are_uniform_until_learning_starts(spec: Any) -> None:
    agent = make_agent(spec.model_copy(update={"learn_after": 40}))
    reference = draw_mixed(np.random.default_rng(0), 4000)
    same_place = {name: np.repeat(leaf[:1], 4000, 0) for name, leaf in reference.items()}
    action = agent.training_policy().decide(same_place, None, None, lane_randomness(4000)).action
    if action.ndim == 1:
        np.testing.assert_allclose(np.bincount(action, minlength=3) / 4000, 1 / 3, atol=0.03)
    else:
        shares = (action - TWO_NUMBERS.low) / (TWO_NUMBERS.high - TWO_NUMBERS.low)
        np.testing.assert_allclose(np.quantile(shares, [0.1, 0.5, 0.9], axis=0).T, [[0.1, 0.5, 0.9]] * 2, atol=0.03)
    seen = 0
    while seen < 40:
        rollout = make_rollout(agent.training_policy(), seed=seen)
        figures = agent.learn(rollout)
        seen += alive_count(rollout)
    assert figures["gradient_steps"] == int(0.15 * alive_count(rollout) + 1e-9)  # the warm-up is not made up for
    drawn = agent.training_policy().decide(same_place, None, None, lane_randomness(4000)).action
    assert np.std(drawn, 0).max() < np.std(action, 0).max() * 1.5
    fresh = make_agent(spec.model_copy(update={"warm_up_actions": "policy", "learn_after": 40}))
    own = fresh.training_policy().decide(same_place, None, None, lane_randomness(4000)).action
    assert not np.array_equal(own, action)


@BOTH
def test_draws_depend_on_the_randomness_handed_in_and_an_evaluation_on_none(spec: Any) -> None:
    agent = learned(spec)
    reference = draw_mixed(np.random.default_rng(0), 50)

    def act(policy: Any, step: int) -> np.ndarray:
        return policy.decide(reference, None, None, lane_randomness(50, step)).action  # type: ignore[no-any-return]  # an array

    np.testing.assert_array_equal(act(agent.training_policy(), 1), act(agent.training_policy(), 1))
    assert not np.array_equal(act(agent.training_policy(), 1), act(agent.training_policy(), 2))
    np.testing.assert_array_equal(act(agent.evaluation_policy(), 1), act(agent.evaluation_policy(), 2))
    assert all(agent._action_space.contains(one) for one in act(agent.training_policy(), 3))


def test_masks_hold_while_warming_up_drawing_and_evaluating() -> None:
    agent = make_agent(discrete_sac_spec(learn_after=30))
    reference = draw_mixed(np.random.default_rng(0), 3000)
    mask = np.tile(np.array([True, False, True]), (3000, 1))
    for _ in range(3):
        for policy in (agent.training_policy(), agent.evaluation_policy()):
            assert set(policy.decide(reference, None, mask, lane_randomness(3000)).action.tolist()) <= {0, 2}
        agent.learn(make_rollout(agent.training_policy(), masks="drawn"))


def test_masks_are_refused_for_numbers() -> None:
    agent = make_agent(sac_spec())
    reference = draw_mixed(np.random.default_rng(0), 4)
    for policy in (agent.training_policy(), agent.evaluation_policy()):
        with pytest.raises(ConfigError, match="mask must be None"):
            policy.decide(reference, None, np.ones((4, 2), bool), lane_randomness(4))


def test_forced_moves_teach_without_numbers_that_are_not_finite() -> None:
    agent = make_agent(discrete_sac_spec())
    for seed in range(4):
        rollout = make_rollout(agent.training_policy(), seed=seed, masks="drawn")
        assert rollout.mask is not None and rollout.next_mask is not None
        forced = np.eye(3, dtype=bool)[rollout.action]
        rollout.mask[:], rollout.next_mask[:] = forced, np.roll(forced, -1, 0)
        figures = agent.learn(rollout)
        assert all(np.isfinite(value) for value in figures.values())
    assert figures["entropy"] == 0.0


# What is refused


@pytest.mark.parametrize(
    ("spec", "space", "what"),
    [
        (sac_spec(), spaces.Discrete(3), "must be a Box"),
        (sac_spec(), spaces.Box(-np.inf, 1.0, (2,), np.float32), "finite bounds"),
        (sac_spec(), spaces.Box(np.array([0.0, 1.0]), np.array([1.0, 1.0]), dtype=np.float64), "low below high"),
        (sac_spec(), spaces.Box(0, 5, (2,), np.int64), "Box of floats"),
        (discrete_sac_spec(), spaces.Box(0.0, 1.0, (2,), np.float32), "must be Discrete"),
        (discrete_sac_spec(), spaces.MultiDiscrete([2, 3]), "must be Discrete"),
    ],
)
def test_other_action_spaces_are_refused(spec: Any, space: Any, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        make_agent(spec, action_space=space)


@BOTH
def test_nothing_is_remembered_that_is_not_finite(spec: Any) -> None:
    agent = make_agent(spec)
    rollout = make_rollout(agent.training_policy())
    rollout.reward[0, 0] = np.nan
    with pytest.raises(ContractError, match=r"reward.*must be finite"):
        agent.learn(rollout)
    assert agent.cadence.memory.num_rows == 0 and agent.cadence.num_transitions == 0
