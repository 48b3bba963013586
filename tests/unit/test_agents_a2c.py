"""A2C: its update against tianshou's own and against one written out; masks, continuous and multiple choices, fragments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from tianshou.algorithm.modelfree.a2c import A2C
from tianshou.algorithm.modelfree.ppo import PPO
from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory, RMSpropOptimizerFactory
from tianshou.data import Batch, VectorReplayBuffer
from tianshou.utils.torch_utils import policy_within_training_step

from rlcore.agents.on_policy import RolloutRows
from rlcore.agents.saved_policy import load_policy
from rlcore.agents.transitions import alive_steps
from rlcore.environment.rollout import Passage, Rollout
from rlcore.environment.seed_sampling import training_draw
from rlcore.environment.steps import run_steps, start_lanes
from rlcore.foundation.errors import CheckpointError, ConfigError, ContractError
from rlcore.foundation.lanes import map_lanes, take_lanes
from rlcore.foundation.random_streams import RandomStreams
from tests.agents_toy import (
    GivenObservation,
    a2c_spec,
    draw_mixed,
    lane_randomness,
    make_agent,
    make_rollout,
    ppo_spec,
)
from tests.environment_toys import looped_spend_parts, spend_seeds

torch.set_num_threads(1)
PLACES = GivenObservation(spaces.Box(-1.0, 1.0, (3,), np.float32))


def draw_places(rng: np.random.Generator, lanes: int) -> np.ndarray:
    return rng.uniform(-1, 1, (lanes, 3)).astype(np.float32)


def prepared(agent: Any, rollout: Rollout) -> RolloutRows:
    rows = RolloutRows(rollout, alive_steps(rollout))
    agent.algorithm._preprocess_batch(None, rows, np.arange(rows.num_rows))
    return rows


class TheirActor(torch.nn.Module):
    """Actor or critic over the network of ours, as tianshou's algorithms want to call them."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.layers, self.logits = model.network.layers, model.actor.logits

    def forward(self, obs: Any, state: Any = None, info: Any = None) -> tuple[torch.Tensor, None]:
        return self.logits(self.layers(torch.as_tensor(obs))), None


class TheirCritic(torch.nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.layers, self.value = model.network.layers, model.critic

    def forward(self, obs: Any) -> torch.Tensor:
        return self.value(self.layers(torch.as_tensor(obs)))


def their_buffer(rollout: Rollout) -> VectorReplayBuffer:
    lanes = rollout.is_alive.shape[1]
    buffer = VectorReplayBuffer(lanes * 20, lanes)
    for step in range(len(rollout.reward)):
        alive = np.flatnonzero(rollout.is_alive[step])
        ended, cut = rollout.terminated[step, alive], rollout.truncated[step, alive]
        row = Batch(
            obs=rollout.reference[step, alive],
            obs_next=rollout.next_reference[step, alive],
            act=rollout.action[step, alive],
            rew=rollout.reward[step, alive],
            terminated=ended,
            truncated=cut,
            done=ended | cut,
            info=Batch(),
        )
        if len(alive):
            buffer.add(row, buffer_ids=alive)
    return buffer


@pytest.mark.parametrize("kind", ["a2c", "ppo"])
def test_one_update_is_stock_tianshous(kind: str) -> None:
    """Stored values and log-probabilities give what recomputing them gives, in ended, cut and unfinished episodes alike."""
    shared = {"gae_lambda": 0.8, "entropy_weight": 0.05, "value_loss_weight": 0.7, "max_gradient_norm": 0.3}
    spec = (
        a2c_spec(**shared)
        if kind == "a2c"
        else ppo_spec(advantage_scaling="none", batch_size=1000, num_repeats=3, clip_range=0.05, **shared)
    )
    ours, twin = make_agent(spec, PLACES), make_agent(spec, PLACES)
    rollout = make_rollout(ours.training_policy(), draw_places, lanes=20)
    assert (rollout.terminated.any(), rollout.truncated.any()) == (True, True)
    buffer = their_buffer(rollout)
    assert len(buffer.unfinished_index()) > 0
    policy = ProbabilisticActorPolicy(
        actor=TheirActor(twin.model),  # type: ignore[arg-type]  # called in the same way
        dist_fn=lambda logits: torch.distributions.Categorical(logits=logits),  # type: ignore[arg-type]  # as above
        action_space=spaces.Discrete(3),
        action_scaling=False,
    )
    options: dict[str, Any] = {"gae_lambda": 0.8, "gamma": 0.9, "ent_coef": 0.05, "vf_coef": 0.7, "max_grad_norm": 0.3}
    if kind == "a2c":
        optim = RMSpropOptimizerFactory(lr=1e-2, alpha=0.99, eps=1e-5)
        theirs: Any = A2C(policy=policy, critic=TheirCritic(twin.model), optim=optim, **options)
    else:
        clip = {"eps_clip": 0.05, "advantage_normalization": False}
        optim = AdamOptimizerFactory(lr=1e-2)
        theirs = PPO(policy=policy, critic=TheirCritic(twin.model), optim=optim, **options, **clip)
    before = {name: value.clone() for name, value in twin.model.named_parameters()}
    with policy_within_training_step(policy):
        theirs.update(buffer, batch_size=None, repeat=spec.num_repeats if kind == "ppo" else 1)
    ours.learn(rollout)
    for name, value in ours.model.named_parameters():
        expected = dict(twin.model.named_parameters())[name]
        assert not torch.equal(expected, before[name])
        torch.testing.assert_close(value, expected, rtol=1e-3, atol=2e-5)


def oracle_loss(weights: Any, spec: Any, observation: Any, mask: Any, action: Any, advantage: Any, target: Any) -> torch.Tensor:
    """Mnih et al. 2016 from a dict of weights, with torch's own distribution."""
    one_hot = np.eye(4, dtype=np.float32)[observation["kind"] - 2]
    hidden = torch.from_numpy(np.concatenate([one_hot, observation["place"]], -1))  # Dict spaces are ordered by name
    for layer in ("network.layers.0", "network.layers.2"):
        hidden = torch.relu(hidden @ weights[f"{layer}.weight"].T + weights[f"{layer}.bias"])
    logits = hidden @ weights["actor.logits.weight"].T + weights["actor.logits.bias"]
    value = (hidden @ weights["critic.weight"].T + weights["critic.bias"])[:, 0]
    if mask is not None:
        logits = torch.where(torch.from_numpy(mask), logits, torch.tensor(-1e9))
    distribution = torch.distributions.Categorical(logits=logits)
    gain = (distribution.log_prob(torch.from_numpy(action)) * advantage).mean()
    return -gain + spec.value_loss_weight * ((value - target) ** 2).mean() - spec.entropy_weight * distribution.entropy().mean()


@pytest.mark.parametrize("masks", ["none", "drawn"])
@pytest.mark.parametrize(
    "options", [{}, {"entropy_weight": 0.3, "value_loss_weight": 2.0}, {"return_scaling": "running"}], ids=str
)
def test_loss_and_gradient_are_the_oracles(options: dict[str, Any], masks: str) -> None:
    spec = a2c_spec(**options)
    agent = make_agent(spec)
    rollout = make_rollout(agent.training_policy(), masks=masks)
    agent.learn(rollout)
    rows = prepared(agent, rollout)
    chosen = np.random.default_rng(0).permutation(rows.num_rows)[:20]
    loss, _ = agent.algorithm.loss(rows, chosen)
    agent.model.zero_grad()
    loss.backward()
    weights = {name: value.detach().clone().requires_grad_() for name, value in agent.model.named_parameters()}
    expected = oracle_loss(
        weights,
        spec,
        take_lanes(rows.reference, chosen),
        None if rows.mask is None else rows.mask[chosen],
        rows.action[chosen],
        *(torch.from_numpy(column[chosen]) for column in (rows.advantage, rows.target)),
    )
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    for name, value in agent.model.named_parameters():
        torch.testing.assert_close(value.grad, weights[name].grad, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("optimizer", ["rmsprop", "adam"])
def test_the_first_step_is_the_optimisers(optimizer: str) -> None:
    spec = a2c_spec(optimizer=optimizer, learning_rate=0.02, max_gradient_norm=None)
    agent, twin = make_agent(spec), make_agent(spec)
    rollout = make_rollout(agent.training_policy())
    rows = prepared(twin, rollout)
    twin.algorithm.loss(rows, np.arange(rows.num_rows))[0].backward()
    agent.learn(rollout)
    for after, before in zip(agent.model.parameters(), twin.model.parameters(), strict=True):
        gradient = before.grad
        assert gradient is not None
        # RMSprop: g / (√((1 − α) g²) + ε). Adam: its two corrections cancel, g / (|g| + ε).
        step = gradient / ((0.1 * gradient.abs() + 1e-5) if optimizer == "rmsprop" else (gradient.abs() + 1e-8))
        # Where the gradient is as small as its own rounding, the step is only bounded.
        is_clear = gradient.abs() > 1e-5
        torch.testing.assert_close(after[is_clear], (before - 0.02 * step)[is_clear], rtol=1e-3, atol=1e-4)


def test_one_gradient_step_of_an_iteration_and_one_pass_of_the_network() -> None:
    agent = make_agent(a2c_spec())
    rollout = make_rollout(agent.training_policy())
    rollout = replace(rollout, terminated=rollout.terminated | alive_steps(rollout).boundary)  # nothing is cut
    calls: list[int] = []
    agent.model.network.register_forward_pre_hook(lambda module, inputs: calls.append(1))
    figures = agent.learn(rollout)
    assert len(calls) == figures["gradient_steps"] == 1
    assert set(figures) == {
        "loss", "policy_loss", "value_loss", "entropy", "gradient_norm", "gradient_steps", "explained_variance", "learning_rate",
    }  # fmt: skip


@pytest.mark.parametrize("count", [1, 2])
def test_an_iteration_of_one_step(count: int) -> None:
    for scaling in ("none", "batch", "iteration"):
        agent = make_agent(a2c_spec(advantage_scaling=scaling))
        rollout = map_lanes(lambda leaf: leaf[:1], make_rollout(agent.training_policy(), lanes=count))
        assert all(np.isfinite(list(agent.learn(rollout).values())))
        assert all(torch.isfinite(value).all() for value in agent.model.parameters())


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-2.0, 5.0, (2,), np.float32),
        spaces.MultiDiscrete([3, 2, 4]),
        spaces.MultiDiscrete([[2, 5], [3, 1]], start=[[1, 0], [-2, 7]]),
    ],
    ids=str,
)
@pytest.mark.parametrize("make_spec", [a2c_spec, ppo_spec])
def test_an_agent_moves_towards_the_better_of_its_actions(make_spec: Any, space: Any) -> None:
    """What was rewarded becomes likelier, in every action space."""
    agent = make_agent(make_spec(entropy_weight=0.0, learning_rate=3e-3), action_space=space)
    rollout = make_rollout(agent.training_policy(), lanes=200)
    assert all(space.contains(action) for action in rollout.action[rollout.is_alive])
    assert rollout.action.dtype == space.dtype
    score = rollout.action.reshape(*rollout.is_alive.shape, -1).sum(-1)
    agent.learn(replace(rollout, reward=np.where(rollout.is_alive, score, 0.0), terminated=rollout.is_alive))
    again = make_rollout(agent.training_policy(), lanes=200)
    alive = rollout.is_alive
    assert again.action.reshape(*alive.shape, -1).sum(-1)[alive].mean() > score[alive].mean()


def test_multiple_choices_are_independent_categoricals() -> None:
    space = spaces.MultiDiscrete([3, 2, 4], start=[1, 0, -2])
    agent = make_agent(a2c_spec(), action_space=space)
    head = agent.model.actor
    with torch.no_grad():
        head.logits.weight.mul_(100)  # far from uniform
    parameters, _ = agent.algorithm.policy(draw_mixed(np.random.default_rng(1), 5))
    parts = [torch.distributions.Categorical(logits=part) for part in parameters.split([3, 2, 4], -1)]
    every = np.stack(np.meshgrid(np.arange(1, 4), np.arange(2), np.arange(-2, 2), indexing="ij"), -1).reshape(-1, 3)
    total = torch.zeros(5)
    for action in every:
        actions = np.tile(action, (5, 1))
        expected = sum(part.log_prob(torch.full((5,), int(a))) for part, a in zip(parts, action - space.start, strict=True))
        ours = head.log_prob(parameters, None, actions)
        torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)
        total += ours.exp()
    torch.testing.assert_close(total, torch.ones(5), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(head.entropy(parameters, None), sum(part.entropy() for part in parts), rtol=1e-5, atol=1e-6)
    head.entropy(parameters, None).sum().backward()
    assert all(torch.isfinite(value.grad).all() for value in head.parameters())
    np.testing.assert_array_equal(
        head.likeliest(parameters, None), torch.stack([part.probs.argmax(-1) for part in parts], -1).numpy() + space.start
    )


def test_multiple_choices_are_drawn_as_often_as_they_are_likely() -> None:
    agent = make_agent(a2c_spec(), action_space=spaces.MultiDiscrete([3, 2]))
    with torch.no_grad():
        agent.model.actor.logits.weight.mul_(150)
    lanes = 40_000
    one = draw_mixed(np.random.default_rng(4), 1)
    reference = {name: np.repeat(leaf, lanes, 0) for name, leaf in one.items()}
    action = agent.training_policy().decide(reference, None, None, lane_randomness(lanes)).action
    logits = agent.algorithm.policy(one)[0][0].detach()
    expected = torch.outer(torch.softmax(logits[:3], -1), torch.softmax(logits[3:], -1)).numpy()
    frequency = np.bincount(action @ [2, 1], minlength=6).reshape(3, 2) / lanes
    np.testing.assert_allclose(frequency, expected, atol=4 * np.sqrt(0.25 / lanes))
    assert np.ptp(expected) > 0.1  # the test could fail


def test_a_saved_policy_of_multiple_choices_acts_as_the_agent_did(tmp_path: Path) -> None:
    agent = make_agent(a2c_spec(), action_space=spaces.MultiDiscrete([3, 2], start=[5, -1]))
    agent.learn(make_rollout(agent.training_policy()))
    agent.save_policy(tmp_path / "policy.pt")
    observation = draw_mixed(np.random.default_rng(0), 20)
    expected = agent.evaluation_policy().decide(observation, None, None, lane_randomness(20)).action
    np.testing.assert_array_equal(load_policy(tmp_path / "policy.pt").act(observation), expected)


@pytest.mark.parametrize("space", [spaces.MultiDiscrete([3, 2]), spaces.Box(-1.0, 1.0, (1,), np.float32)], ids=str)
@pytest.mark.parametrize("policy", ["training_policy", "evaluation_policy"])
def test_masks_of_other_than_single_choices_are_refused(space: Any, policy: str) -> None:
    agent = make_agent(a2c_spec(), action_space=space)
    with pytest.raises(ConfigError, match="mask must be None"):
        getattr(agent, policy)().decide(draw_mixed(np.random.default_rng(0), 2), None, np.ones((2, 5), bool), lane_randomness(2))


def test_states_of_ppo_are_refused() -> None:
    with pytest.raises(CheckpointError, match="'a2c'"):
        make_agent(a2c_spec()).load_state_dict(make_agent(ppo_spec()).state_dict())
    with pytest.raises(ContractError, match="training_policy"):
        agent = make_agent(a2c_spec())
        agent.learn(replace(make_rollout(agent.training_policy()), value=None))


@pytest.mark.parametrize("make_spec", [a2c_spec, ppo_spec])
def test_fragments_of_the_engine_are_credited_within_their_episodes(make_spec: Any) -> None:
    """In a column of ``run_steps`` one episode follows another; what a column ends in goes on with the value of what is next."""
    parts, seeds = looped_spend_parts(), spend_seeds(7)
    space = parts.action_interpreter.action_space
    agent = make_agent(make_spec(advantage_scaling="none", gae_lambda=0.8), parts.state_interpreter, space)
    passage = Passage(RandomStreams(5), "train", 4)

    def draw(first: int, count: int) -> Any:
        return training_draw(5, len(seeds), first, count)

    running = start_lanes(parts, agent.training_policy(), seeds, draw, passage)
    seen = set()
    for _ in range(3):
        fragment = run_steps(parts, agent.training_policy(), seeds, draw, running, 7, passage)
        running, rollout = fragment.running, fragment.rollout
        rows = prepared(agent, rollout)
        advantage = rows.alive.table(rows.advantage)
        final = np.stack(
            [
                agent.algorithm.policy(map_lanes(lambda leaf, at=at: leaf[at], rollout.next_reference))[1].detach().numpy()
                for at in range(7)
            ]
        )
        done = rollout.terminated | rollout.truncated
        for lane in range(4):
            following = 0.0
            for step in reversed(range(7)):
                is_cut = bool(done[step, lane]) or step == 6
                next_value = 0.0 if rollout.terminated[step, lane] else final[step, lane]
                error = rollout.reward[step, lane] + 0.9 * next_value - rollout.value[step, lane]
                following = error + (0.0 if is_cut else 0.9 * 0.8 * following)
                assert advantage[step, lane] == pytest.approx(following, rel=1e-4, abs=1e-5)
                seen.add("terminated" if rollout.terminated[step, lane] else "truncated" if done[step, lane] else is_cut)
                if done[step, lane] and step < 6:
                    # The actor sees the next episode's first observation, the critic's target this one's last (T9).
                    assert rollout.reference["step"][step + 1, lane] == 0 < rollout.next_reference["step"][step, lane]
        assert all(np.isfinite(list(agent.learn(rollout).values())))
    assert seen == {"terminated", "truncated", True, False}
