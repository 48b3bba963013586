"""DQN: its loss against one written out, targets that stop where episodes do, a memory that forgets the oldest."""

# ruff: noqa: NPY002  # the global generator is what is tested
from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlcore.agents.isolated_randomness import isolated_randomness
from rlcore.agents.replay_memory import ReplayMemory, UniformDraw
from rlcore.agents.transitions import alive_steps
from rlcore.environment.rollout import Rollout
from rlcore.foundation.errors import ConfigError, ContractError
from tests.agents_toy import alive_count, dqn_spec, draw_mixed, lane_randomness, make_agent, make_rollout, ppo_spec


def counted_rollout(first: int, lengths: list[int], ending: str) -> Rollout:
    """Return episodes whose observations, actions and rewards are 0, 1, 2, … in the order of time, lane by lane."""
    steps, lanes = max(lengths), len(lengths)
    alive = np.arange(steps)[:, None] < np.array(lengths)
    number = np.zeros((steps, lanes))
    number.T[alive.T] = first + np.arange(sum(lengths))
    is_last = np.arange(steps)[:, None] == np.array(lengths) - 1
    return Rollout(
        seed_id=np.tile(np.arange(lanes), (steps, 1)),
        visit=np.zeros((steps, lanes), np.int64),
        step=np.tile(np.arange(steps)[:, None], (1, lanes)),
        reference={"x": number[..., None].astype(np.float32)},
        next_reference={"x": (number + 0.5)[..., None].astype(np.float32)},
        action=number.astype(np.int64),
        reward=number,
        components={},
        terminated=is_last & (ending == "terminated"),
        truncated=is_last & (ending == "truncated"),
        is_alive=alive,
        mask=None,
        next_mask=None,
        log_prob=None,
        value=None,
        internal_state=None,
        auxiliary={},
    )


@pytest.mark.parametrize("ending", ["terminated", "truncated"])
def test_windows_in_memory_stop_where_the_episode_does(ending: str) -> None:
    memory = ReplayMemory(10, 0.5, 2, UniformDraw())
    memory.add(counted_rollout(0, [3, 1], ending))
    rows = np.arange(4)
    # 0+1/2, 1+2/2, 2 alone, 3 alone.
    np.testing.assert_allclose(memory.column("reward_sum", rows), [0.5, 2.0, 2.0, 3.0])
    follows = 0.0 if ending == "terminated" else 0.5
    np.testing.assert_allclose(memory.column("bootstrap_discount", rows), [0.25, follows / 2, follows, follows])
    np.testing.assert_allclose(memory.window_ends(rows)[0]["x"][:, 0], [1.5, 2.5, 2.5, 3.5])


def test_windows_stay_whole_around_the_head_of_the_ring() -> None:
    memory = ReplayMemory(7, 1.0, 3, UniformDraw())
    first = 0
    for lengths in ([3, 2], [4], [1, 3, 2]):  # 15 rows through 7 places
        memory.add(counted_rollout(first, lengths, "truncated"))
        first += sum(lengths)
    ends = np.cumsum([3, 2, 4, 1, 3, 2]) - 1
    rows = np.arange(memory.num_rows)
    numbers = memory.column("action", rows)
    assert sorted(numbers) == list(range(8, 15))  # the youngest
    for row, number in zip(rows, numbers, strict=True):
        last = min(number + 2, ends[np.searchsorted(ends, number)])
        assert memory.column("reward_sum", rows[row : row + 1])[0] == sum(range(number, last + 1))
        assert memory.window_ends(rows[row : row + 1])[0]["x"][0, 0] == last + 0.5
        assert memory.reference(rows[row : row + 1])["x"][0, 0] == number


def test_more_than_fits_at_once_keeps_the_last() -> None:
    memory = ReplayMemory(4, 1.0, 2, UniformDraw())
    memory.add(counted_rollout(0, [9], "truncated"))
    rows = np.arange(4)
    np.testing.assert_array_equal(np.sort(memory.column("action", rows)), [5, 6, 7, 8])


def oracle_values(weights, observation):
    one_hot = np.eye(4, dtype=np.float32)[observation["kind"] - 2]
    hidden = torch.from_numpy(np.concatenate([one_hot, observation["place"]], -1))
    for layer in ("network.layers.0", "network.layers.2"):
        hidden = torch.relu(hidden @ weights[f"{layer}.weight"].T + weights[f"{layer}.bias"])
    return hidden @ weights["values.weight"].T + weights["values.bias"]


@pytest.mark.parametrize("masks", ["none", "drawn"])
@pytest.mark.parametrize("threshold", [None, 0.5])
@pytest.mark.parametrize("target", ["double", "maximum"])
def test_loss_and_gradient_are_the_oracles(target: str, threshold: float | None, masks: str) -> None:
    agent = make_agent(dqn_spec(target=target, huber_threshold=threshold, num_return_steps=3, target_update_every=1000))
    rollout = make_rollout(agent.training_policy(), masks=masks)
    # What is still open at the end would wait for the next rollout; cut from outside, it has the same target at once.
    cut = rollout.truncated.copy()
    cut[-1] |= rollout.is_alive[-1] & ~rollout.terminated[-1]
    rollout = replace(rollout, truncated=cut)
    for seed in range(3):  # so that the lagged copy is another network
        agent.learn(make_rollout(agent.training_policy(), seed=seed, masks=masks))
    memory = ReplayMemory(100, 0.9, 3, UniformDraw())
    memory.add(rollout)
    algorithm = agent.algorithm
    rows = np.random.default_rng(0).integers(0, memory.num_rows, 16)
    algorithm._preprocess_batch(None, memory, rows)
    agent.model.zero_grad()
    loss, _ = algorithm.loss(rows)
    loss.backward()

    weights = {name: value.detach().clone().requires_grad_() for name, value in agent.model.named_parameters()}
    lagged = dict(algorithm.lagged.named_parameters())
    assert not torch.equal(lagged["values.weight"], weights["values.weight"])
    alive = alive_steps(rollout)
    errors = []
    for row in rows:
        step, lane = alive.step[row], alive.lane[row]
        total, weight, at = 0.0, 1.0, step
        for _ in range(3):
            total += weight * rollout.reward[at, lane]
            weight *= 0.9
            is_over = bool((rollout.terminated | rollout.truncated)[at, lane]) or at + 1 == len(rollout.reward)
            is_over = is_over or not rollout.is_alive[at + 1, lane]
            if is_over:
                break
            at += 1
        at = at if is_over else at - 1
        following = {name: leaf[at, lane][None] for name, leaf in rollout.next_reference.items()}
        possible = np.ones(3, bool) if rollout.next_mask is None else rollout.next_mask[at, lane]
        with torch.no_grad():
            theirs = torch.where(torch.from_numpy(possible), oracle_values(lagged, following)[0], -torch.inf)
            ours = torch.where(torch.from_numpy(possible), oracle_values(weights, following)[0], -torch.inf)
            estimate = theirs[ours.argmax()] if target == "double" else theirs.max()
        goal = total + (0.0 if rollout.terminated[at, lane] else weight * float(estimate))
        observation = {name: leaf[step, lane][None] for name, leaf in rollout.reference.items()}
        errors.append(oracle_values(weights, observation)[0, rollout.action[step, lane]] - goal)
    error = torch.stack(errors)
    if threshold is None:
        expected = error.square().mean()
    else:
        size = error.abs()
        expected = torch.where(size <= threshold, 0.5 * size.square(), threshold * (size - 0.5 * threshold)).mean()
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-4)
    for name, value in agent.model.named_parameters():
        assert value.grad is not None
        torch.testing.assert_close(value.grad, weights[name].grad, rtol=1e-4, atol=1e-5)


def test_dueling_streams_are_value_and_centred_advantages() -> None:
    agent = make_agent(dqn_spec(value_head="dueling"))
    for seed in range(3):
        agent.learn(make_rollout(agent.training_policy(), seed=seed))
    weights = dict(agent.model.named_parameters())
    observation = draw_mixed(np.random.default_rng(0), 20)
    one_hot = np.eye(4, dtype=np.float32)[observation["kind"] - 2]
    hidden = torch.from_numpy(np.concatenate([one_hot, observation["place"]], -1))
    for layer in ("network.layers.0", "network.layers.2"):
        hidden = torch.relu(hidden @ weights[f"{layer}.weight"].T + weights[f"{layer}.bias"])

    def stream(name: str) -> torch.Tensor:
        inner = torch.relu(hidden @ weights[f"values.{name}.0.weight"].T + weights[f"values.{name}.0.bias"])
        return inner @ weights[f"values.{name}.2.weight"].T + weights[f"values.{name}.2.bias"]

    value, advantage = stream("value"), stream("advantage")
    expected = value + advantage - advantage.mean(1, keepdim=True)
    torch.testing.assert_close(agent.algorithm.policy(observation), expected)
    # A mask changes which action is taken, and the value of none.
    mask = np.tile(np.array([True, False, True]), (20, 1))
    decision = agent.evaluation_policy().decide(observation, None, mask, lane_randomness(20))
    assert set(decision.action.tolist()) <= {0, 2}
    np.testing.assert_allclose(decision.value, expected[:, [0, 2]].max(1).values.detach(), rtol=1e-5)


def test_values_are_not_squeezed_through_a_softmax() -> None:
    # QlibRL's D10: values there lie between 0 and 1 and sum to 1. A reward of 40 that ends the episode is worth 40.
    agent = make_agent(
        dqn_spec(huber_threshold=None, gradient_steps_per_transition=10.0, max_gradient_norm=None, memory_size=300)
    )
    rollout = make_rollout(agent.training_policy(), lanes=30)
    rollout.reward[:] = 40.0 * rollout.is_alive
    rollout.terminated[:] = rollout.is_alive
    for _ in range(3):
        agent.learn(rollout)
    values = agent.evaluation_policy().decide(draw_mixed(np.random.default_rng(0), 20), None, None, lane_randomness(20)).value
    np.testing.assert_allclose(values, 40.0, rtol=0.1)


def test_exploration_falls_with_transitions_and_never_touches_an_evaluation() -> None:
    agent = make_agent(dqn_spec())
    reference = draw_mixed(np.random.default_rng(0), 4000)
    greedy = agent.evaluation_policy().decide(reference, None, None, lane_randomness(4000)).action
    assert agent.epsilon == 1.0
    seen = 0
    for seed in range(8):
        explored = agent.training_policy().decide(reference, None, None, lane_randomness(4000, seed)).action
        greedy = agent.evaluation_policy().decide(reference, None, None, lane_randomness(4000, seed)).action
        # A random action is the greedy one a third of the time.
        assert (explored != greedy).mean() == pytest.approx(agent.epsilon * 2 / 3, abs=0.03)
        rollout = make_rollout(agent.training_policy(), seed=seed)
        seen += alive_count(rollout)
        assert agent.learn(rollout)["epsilon"] == pytest.approx(max(0.1, 1.0 - 0.9 * min(seen / 200, 1.0)))


def test_random_actions_honour_masks_and_are_uniform_over_the_possible() -> None:
    agent = make_agent(dqn_spec())
    reference = draw_mixed(np.random.default_rng(0), 6000)
    mask = np.tile(np.array([True, False, True]), (6000, 1))
    action = agent.training_policy().decide(reference, None, mask, lane_randomness(6000)).action
    np.testing.assert_allclose(np.bincount(action, minlength=3) / 6000, [0.5, 0.0, 0.5], atol=0.03)
    greedy = agent.evaluation_policy().decide(reference, None, mask, lane_randomness(6000)).action
    assert set(greedy.tolist()) <= {0, 2}


def test_gradient_steps_are_paid_for_by_transitions_without_a_burst() -> None:
    agent = make_agent(dqn_spec(learn_after=60, gradient_steps_per_transition=0.3))
    seen, paid, taken = 0, 0, 0.0
    for seed in range(6):
        rollout = make_rollout(agent.training_policy(), seed=seed)
        seen += alive_count(rollout)
        paid += alive_count(rollout) if seen >= 60 else 0
        taken += agent.learn(rollout)["gradient_steps"]
        assert taken == int(0.3 * paid + 1e-9)


def test_lagged_copy_follows_every_so_many_steps_with_its_statistics() -> None:
    from rlcore.agents.specs import MLPSpec

    network = MLPSpec(sizes=(8,), observation_scaling="running")
    agent = make_agent(dqn_spec(network=network, target_update_every=4, gradient_steps_per_transition=1.0))
    agent.learn(make_rollout(agent.training_policy(), seed=0))
    steps = agent.cadence.num_gradient_steps
    before = {name: value.clone() for name, value in agent.algorithm.lagged.state_dict().items()}
    rollout = make_rollout(agent.training_policy(), seed=1)
    agent.learn(rollout)
    after = agent.algorithm.lagged.state_dict()
    assert agent.cadence.num_gradient_steps == steps + alive_count(rollout)
    assert not torch.equal(before["values.weight"], after["values.weight"])
    assert float(before["network.scaling.count"]) == 0
    assert float(after["network.scaling.count"]) > 0


@pytest.mark.parametrize("column", ["reward", "reference", "next_reference"])
def test_nothing_is_remembered_that_is_not_finite(column: str) -> None:
    agent = make_agent(dqn_spec())
    rollout = make_rollout(agent.training_policy())
    lane = int(np.flatnonzero(rollout.is_alive[1])[0])
    leaf = rollout.reward if column == "reward" else getattr(rollout, column)["place"]
    leaf[1, lane] = np.inf
    step = 2 if column == "next_reference" else 1
    with pytest.raises(ContractError, match=rf"must be finite.*inf.*seed {lane} at step {step}"):
        agent.learn(rollout)
    assert agent.cadence.memory.num_rows == 0


def test_boxes_are_refused() -> None:
    with pytest.raises(ConfigError, match="Discrete"):
        make_agent(dqn_spec(), action_space=spaces.Box(0, 1, (1,), np.float32))


def test_updates_leave_the_global_generators_alone() -> None:
    for spec in (ppo_spec(), dqn_spec()):
        agent = make_agent(spec)
        rollout = make_rollout(agent.training_policy())
        numpy_state, torch_state = np.random.get_state()[1].copy(), torch.get_rng_state()
        agent.learn(rollout)
        assert (np.random.get_state()[1] == numpy_state).all()
        assert torch.equal(torch.get_rng_state(), torch_state)


def test_isolated_randomness_depends_on_its_key_alone() -> None:
    def draw(root: int, number: int) -> tuple[float, float]:
        with isolated_randomness(root, number):
            return float(np.random.random()), float(torch.rand(()))

    np.random.seed(0)
    first = draw(1, 2)
    np.random.seed(5)
    torch.manual_seed(9)
    assert draw(1, 2) == first
    assert draw(1, 3) != first
    assert draw(2, 2) != first
    state = np.random.get_state()[1].copy()
    with pytest.raises(ZeroDivisionError), isolated_randomness(1, 2):
        np.random.random()
        raise ZeroDivisionError
    assert (np.random.get_state()[1] == state).all()
