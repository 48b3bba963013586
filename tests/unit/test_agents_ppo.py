"""PPO: its loss against one written out in plain torch, what it credits, what it must not recompute, what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlcore.agents.on_policy import RolloutRows
from rlcore.agents.specs import LinearDecaySpec, MLPSpec
from rlcore.agents.transitions import alive_steps
from rlcore.foundation.errors import ContractError
from rlcore.foundation.lanes import take_lanes
from tests.agents_toy import (
    MIXED_SPACE,
    GivenObservation,
    alive_count,
    draw_mixed,
    lane_randomness,
    make_agent,
    make_rollout,
    ppo_spec,
)

OPTIONS = {
    "plain": {},
    "value clip": {"value_clip_range": 0.1},
    "scaled in each batch": {"advantage_scaling": "batch"},
    "not scaled": {"advantage_scaling": "none"},
    "returns scaled": {"return_scaling": "running"},
    "loose clip": {"clip_range": 0.01, "entropy_weight": 0.3, "value_loss_weight": 2.0},
}


def prepared(agent, rollout):
    rows = RolloutRows(rollout, alive_steps(rollout))
    agent.algorithm._preprocess_batch(None, rows, np.arange(rows.num_rows))
    return rows


def features_of(observation):
    one_hot = np.eye(4, dtype=np.float32)[observation["kind"] - 2]
    return torch.from_numpy(np.concatenate([one_hot, observation["place"]], -1))  # Dict spaces are ordered by name


def oracle_loss(weights, spec, observation, mask, action, old_log_prob, old_value, advantage, target):
    """The loss of Schulman et al. 2017 from a dict of weights, with torch's own distribution."""
    hidden = features_of(observation)
    for layer in ("network.layers.0", "network.layers.2"):
        hidden = torch.relu(hidden @ weights[f"{layer}.weight"].T + weights[f"{layer}.bias"])
    logits = hidden @ weights["actor.logits.weight"].T + weights["actor.logits.bias"]
    value = (hidden @ weights["critic.weight"].T + weights["critic.bias"])[:, 0]
    if mask is not None:
        logits = torch.where(torch.from_numpy(mask), logits, torch.tensor(-1e9))
    distribution = torch.distributions.Categorical(logits=logits)
    ratio = torch.exp(distribution.log_prob(torch.from_numpy(action)) - old_log_prob)
    if spec.advantage_scaling == "batch":
        advantage = (advantage - advantage.mean()) / (advantage.std(unbiased=False) + 1e-8)
    surrogate = torch.min(ratio * advantage, torch.clamp(ratio, 1 - spec.clip_range, 1 + spec.clip_range) * advantage)
    errors = (value - target) ** 2
    if spec.value_clip_range is not None:
        near = old_value + torch.clamp(value - old_value, -spec.value_clip_range, spec.value_clip_range)
        errors = torch.max(errors, (near - target) ** 2)
    return -surrogate.mean() + spec.value_loss_weight * errors.mean() - spec.entropy_weight * distribution.entropy().mean()


@pytest.mark.parametrize("masks", ["none", "drawn"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_loss_and_gradient_are_the_oracles(options, masks) -> None:
    spec = ppo_spec(**options)
    agent = make_agent(spec)
    rollout = make_rollout(agent.training_policy(), masks=masks)
    agent.learn(rollout)  # so that the policy is not the one that collected: ratios differ from 1
    rows = prepared(agent, rollout)
    chosen = np.random.default_rng(0).permutation(rows.num_rows)[:20]
    loss, _ = agent.algorithm.loss(rows, chosen)
    agent.model.zero_grad()
    loss.backward()
    weights = {name: value.detach().clone().requires_grad_() for name, value in agent.model.named_parameters()}
    columns = (rows.log_prob, rows.value, rows.advantage, rows.target)
    expected = oracle_loss(
        weights,
        spec,
        take_lanes(rows.reference, chosen),
        None if rows.mask is None else rows.mask[chosen],
        rows.action[chosen],
        *(torch.from_numpy(column[chosen]) for column in columns),
    )
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    for name, value in agent.model.named_parameters():
        assert value.grad is not None
        torch.testing.assert_close(value.grad, weights[name].grad, rtol=2e-5, atol=2e-6)


def test_gradient_step_is_adams_on_the_shortened_gradient() -> None:
    spec = ppo_spec(batch_size=1000, num_repeats=1, max_gradient_norm=0.01)
    agent = make_agent(spec)
    rollout = make_rollout(agent.training_policy())
    twin = make_agent(spec)
    rows = prepared(twin, rollout)
    parameters = list(twin.model.parameters())
    optimizer = torch.optim.Adam(parameters, lr=spec.learning_rate)
    # The order of rows is drawn inside the update; in one batch it moves sums by rounding only.
    twin.algorithm.loss(rows, np.arange(rows.num_rows))[0].backward()
    torch.nn.utils.clip_grad_norm_(parameters, 0.01)
    optimizer.step()
    agent.learn(rollout)
    for ours, theirs in zip(agent.model.parameters(), parameters, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


def test_advantages_use_stored_values_and_value_final_observations_where_cut() -> None:
    spec = ppo_spec(gae_lambda=0.8, advantage_scaling="none")
    agent = make_agent(spec)
    rollout = make_rollout(agent.training_policy(), lanes=30)
    stored = replace(rollout, value=np.random.default_rng(1).normal(size=rollout.value.shape).astype(np.float32))
    rows = prepared(agent, stored)
    final = {}
    for step, lane in np.argwhere(rollout.is_alive):
        reference = {name: leaf[step, lane][None] for name, leaf in rollout.next_reference.items()}
        final[step, lane] = float(agent.evaluation_policy().decide(reference, None, None, lane_randomness(1)).value[0])
    kinds = set()
    for row, (step, lane) in enumerate(zip(rows.alive.step, rows.alive.lane, strict=True)):
        expected, weight, at = 0.0, 1.0, step
        while True:
            goes_on = (
                at + 1 < len(stored.reward)
                and stored.is_alive[at + 1, lane]
                and not (stored.terminated | stored.truncated)[at, lane]
            )
            if goes_on:
                following = float(stored.value[at + 1, lane])
            else:
                following = 0.0 if stored.terminated[at, lane] else final[at, lane]
                kinds.add("ended" if stored.terminated[at, lane] else "truncated" if stored.truncated[at, lane] else "fragment")
            expected += weight * (stored.reward[at, lane] + 0.9 * following - float(stored.value[at, lane]))
            if not goes_on:
                break
            weight, at = weight * 0.9 * 0.8, at + 1
        assert rows.advantage[row] == pytest.approx(expected, rel=1e-4, abs=1e-4)
        assert rows.target[row] == pytest.approx(expected + stored.value[step, lane], rel=1e-4, abs=1e-4)
    assert kinds == {"ended", "truncated", "fragment"}


def test_the_shared_network_runs_once_for_each_batch_and_never_to_recompute() -> None:
    agent = make_agent(ppo_spec(batch_size=10, num_repeats=3))
    rollout = make_rollout(agent.training_policy())
    rollout = replace(rollout, terminated=rollout.terminated | alive_steps(rollout).boundary)  # nothing is cut
    calls = []
    agent.model.network.register_forward_pre_hook(lambda module, inputs: calls.append(1))
    figures = agent.learn(rollout)
    assert len(calls) == figures["gradient_steps"] == 3 * (alive_count(rollout) // 10)


@pytest.mark.parametrize("scaling", ["none", "batch", "iteration"])
@pytest.mark.parametrize("count", [1, 3])
def test_batches_of_one_sample(scaling: str, count: int) -> None:
    agent = make_agent(ppo_spec(batch_size=1, advantage_scaling=scaling))
    rollout = take_steps(make_rollout(agent.training_policy(), lanes=count), 1)
    figures = agent.learn(rollout)
    assert all(np.isfinite(value) for value in figures.values())
    assert all(torch.isfinite(value).all() for value in agent.model.parameters())


def take_steps(rollout, steps):
    from rlcore.foundation.lanes import map_lanes

    return map_lanes(lambda leaf: leaf[:steps], rollout)


def test_running_scale_of_returns_is_their_deviation() -> None:
    agent = make_agent(ppo_spec(return_scaling="running", advantage_scaling="none"))
    rollout = make_rollout(agent.training_policy(), lanes=50)
    assert agent.algorithm.value_scale == pytest.approx(1.0)
    rows = prepared(agent, rollout)
    returns = rows.advantage.astype(float) + np.asarray(rows.alive.rows(rollout.value), float)
    assert agent.algorithm.value_scale == pytest.approx(returns.std(), rel=1e-4)
    assert rows.target.std() == pytest.approx(1.0, rel=1e-4)
    # The stored value stays in units of reward.
    reference = draw_mixed(np.random.default_rng(0), 4)
    raw = agent.model(reference, agent._reader)[1].detach().numpy()
    decided = agent.training_policy().decide(reference, None, None, lane_randomness(4)).value
    np.testing.assert_allclose(decided, raw * returns.std(), rtol=1e-4)


def test_learning_rate_falls_in_a_line() -> None:
    agent = make_agent(ppo_spec(learning_rate=0.1, learning_rate_decay=LinearDecaySpec(num_iterations=4, final_fraction=0.2)))
    rates = [agent.learn(make_rollout(agent.training_policy(), seed=k))["learning_rate"] for k in range(6)]
    np.testing.assert_allclose(rates, [0.1, 0.08, 0.06, 0.04, 0.02, 0.02], rtol=1e-12)


@pytest.mark.parametrize("column", ["reward", "value", "log_prob", "observation"])
def test_nothing_is_learned_from_numbers_that_are_not_finite(column: str) -> None:
    agent = make_agent(ppo_spec())
    rollout = make_rollout(agent.training_policy())
    step, lane = 1, int(np.flatnonzero(rollout.is_alive[1])[0])
    leaf = rollout.reference["place"] if column == "observation" else getattr(rollout, column)
    leaf[step, lane] = np.nan
    before = agent.state_dict()
    with pytest.raises(ContractError, match=rf"{column}.*nan.*seed {lane} at step {step}"):
        agent.learn(rollout)
    torch.testing.assert_close(agent.state_dict()["model"], before["model"], rtol=0, atol=0)


def test_an_infinite_gradient_leaves_the_parameters_as_they_were() -> None:
    agent = make_agent(ppo_spec(advantage_scaling="none", num_repeats=1))
    rollout = make_rollout(agent.training_policy())
    huge = replace(rollout, reward=np.where(rollout.is_alive, 1e30, 0.0))
    before = agent.state_dict()
    with pytest.raises(ContractError, match="must be finite"):
        agent.learn(huge)
    torch.testing.assert_close(agent.state_dict()["model"], before["model"], rtol=0, atol=0)


def test_rollouts_of_somebody_else_are_refused() -> None:
    agent = make_agent(ppo_spec())
    rollout = make_rollout(agent.training_policy())
    with pytest.raises(ContractError, match="training_policy"):
        agent.learn(replace(rollout, log_prob=None))
    with pytest.raises(ContractError, match="at least one step"):
        agent.learn(replace(rollout, is_alive=np.zeros_like(rollout.is_alive)))


@pytest.mark.parametrize(
    "box",
    [
        spaces.Box(-2.0, 5.0, (2,), np.float32),
        spaces.Box(0.0, np.inf, (), np.float32),
        spaces.Box(np.array([-np.inf, -np.inf], np.float32), np.array([3.0, np.inf], np.float32)),
    ],
    ids=["bounded", "half bounded", "mixed"],
)
def test_continuous_actions_lie_in_their_space_and_have_their_own_density(box) -> None:
    agent = make_agent(ppo_spec(), action_space=box)
    lanes = 20_000
    reference = {name: np.repeat(leaf, lanes, 0) for name, leaf in draw_mixed(np.random.default_rng(3), 1).items()}
    decision = agent.training_policy().decide(reference, None, None, lane_randomness(lanes))
    assert decision.action.shape == (lanes, *box.shape)
    assert decision.action.dtype == box.dtype
    assert (decision.action >= box.low).all() and (decision.action <= box.high).all()
    # Importance weights q/p of a density q on the same range average to one, if log_prob is p.
    parameters = agent.model(reference, agent._reader)[0]
    narrower = parameters - torch.tensor([0.0, 0.5])
    ratio = np.exp(agent.model.actor.log_prob(narrower, None, decision.action).detach().numpy() - decision.log_prob)
    assert ratio.mean() == pytest.approx(1.0, abs=0.05)
    figures = agent.learn(make_rollout(agent.training_policy()))
    assert np.isfinite(list(figures.values())).all()


def test_density_integrates_to_one() -> None:
    for box, grid in [
        (spaces.Box(-2.0, 5.0, (1,), np.float64), np.linspace(-2, 5, 200_001)[1:-1]),
        (spaces.Box(1.0, np.inf, (1,), np.float64), 1 + np.exp(np.linspace(-12, 12, 200_001))),
    ]:
        agent = make_agent(ppo_spec(), action_space=box)
        one = draw_mixed(np.random.default_rng(3), 1)
        parameters = agent.model(one, agent._reader)[0].expand(len(grid), -1, -1)
        density = np.exp(agent.model.actor.log_prob(parameters, None, grid[:, None]).detach().numpy())
        assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=1e-3)


def test_statistics_of_observations_move_after_the_update_only() -> None:
    spec = ppo_spec(network=MLPSpec(sizes=(8,), observation_scaling="running"))
    agent = make_agent(spec, GivenObservation(MIXED_SPACE))
    first, second = (make_rollout(agent.training_policy(), seed=seed) for seed in (0, 1))
    scaling = agent.model.network.scaling
    seen = []
    agent.model.network.layers.register_forward_pre_hook(lambda module, inputs: seen.append(float(scaling.count)))
    agent.learn(first)
    assert set(seen) == {0.0}
    agent.learn(second)
    both = np.concatenate(
        [
            np.concatenate([np.eye(4)[r["kind"] - 2], r["place"]], -1)
            for r in (alive_steps(x).rows(x.reference) for x in (first, second))
        ]
    )
    np.testing.assert_allclose(scaling.mean.numpy(), both.mean(0), atol=1e-6)
    np.testing.assert_allclose(scaling.variance.numpy(), both.var(0), atol=1e-6)
    before = agent.state_dict()
    agent.evaluation_policy().decide(draw_mixed(np.random.default_rng(9), 5), None, None, lane_randomness(5))
    torch.testing.assert_close(agent.state_dict()["model"], before["model"], rtol=0, atol=0)
