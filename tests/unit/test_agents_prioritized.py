"""Prioritised replay: its probabilities and weights are the paper's, and what weighs nothing teaches nothing."""

# ruff: noqa: NPY002  # the global generator is what is tested
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tianshou.data import Batch

from rlcore.agents.off_policy_specs import PrioritySpec
from rlcore.agents.prioritized_draw import PrioritizedDraw
from rlcore.agents.sum_tree import SumTree
from tests.agents_toy import PRIORITIES, discrete_sac_spec, dqn_spec, make_agent, make_rollout, sac_spec


@pytest.mark.parametrize("size", [1, 10, 64, 65, 5000])
def test_a_mass_finds_the_leaf_that_cumulated_weights_reach(size: int) -> None:
    rng = np.random.default_rng(size)
    weight = rng.random(size) * (rng.random(size) < 0.7)
    weight[rng.integers(0, size)] = 1.0
    tree = SumTree(size)
    tree.set(np.arange(size), weight)
    assert tree.total == pytest.approx(weight.sum())
    mass = rng.random(500) * tree.total
    np.testing.assert_array_equal(tree.find(mass), np.searchsorted(weight.cumsum(), mass, side="right"))


def test_rounding_never_finds_what_weighs_nothing() -> None:
    tree = SumTree(300)
    tree.set(np.arange(70), np.full(70, 0.1))  # sums of tenths are not exact
    assert set(tree.find(np.full(5, np.nextafter(tree.total, np.inf)))) == {69}


def test_sums_depend_on_the_leaves_alone() -> None:
    rng = np.random.default_rng(0)
    weight = rng.random(5000)
    at_once, in_steps = SumTree(5000), SumTree(5000)
    at_once.set(np.arange(5000), weight)
    in_steps.set(np.arange(5000), rng.random(5000))
    for part in np.array_split(rng.permutation(5000), 37):
        in_steps.set(part, weight[part])
    assert at_once.total == in_steps.total
    mass = rng.random(1000) * at_once.total
    np.testing.assert_array_equal(at_once.find(mass), in_steps.find(mass))


def drawing(error: list[float], **changes: Any) -> PrioritizedDraw:
    draw = PrioritizedDraw(8, PrioritySpec(**({"exponent": 0.5, "initial_correction": 0.4, "num_gradient_steps": 6} | changes)))
    rows = np.arange(len(error))
    draw.added(rows)
    draw.learned(rows, np.array(error))
    return draw


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0])
def test_rows_are_drawn_in_proportion_to_powers_of_their_errors(exponent: float) -> None:
    np.random.seed(0)
    error = np.array([1.0, -4.0, 9.0, 16.0])
    draw = drawing(list(error), exponent=exponent)
    counts = np.bincount(np.concatenate([draw.draw(4, 32)[0] for _ in range(500)]), minlength=4)
    expected = np.abs(error) ** exponent / (np.abs(error) ** exponent).sum()
    np.testing.assert_allclose(counts / counts.sum(), expected, atol=0.01)


def test_each_share_of_the_sum_gives_one_row() -> None:
    np.random.seed(0)
    draw = drawing([1.0, 1.0, 1.0, 1.0], exponent=1.0)
    for _ in range(20):
        np.testing.assert_array_equal(draw.draw(4, 8)[0], [0, 0, 1, 1, 2, 2, 3, 3])


def test_weights_are_analytic_and_their_correction_grows_to_one() -> None:
    # p^α = 1, 2, 3, 4 of a sum of 10: N · P = 0.4, 0.8, 1.2, 1.6 with N = 4.
    np.random.seed(0)
    draw = drawing([1.0, 4.0, 9.0, 16.0])
    for number in range(9):
        correction = 0.4 + 0.6 * min(number / 6, 1.0)
        assert draw.correction == pytest.approx(correction)
        rows, weight = draw.draw(4, 64)
        expected = np.array([0.4, 0.8, 1.2, 1.6])[rows] ** -correction
        np.testing.assert_allclose(weight, expected / expected.max(), rtol=1e-5)
        assert weight.max() == 1.0


def test_full_correction_makes_weighted_means_those_of_an_even_draw() -> None:
    # Σ_i P_i · w_i x_i is proportional to Σ_i x_i: w_i P_i is the same for every row.
    np.random.seed(0)
    draw = drawing([0.5, 2.0, 7.0], initial_correction=1.0, exponent=0.9)
    rows, weight = draw.draw(3, 200)
    chance = np.array([0.5, 2.0, 7.0]) ** 0.9
    product = weight * chance[rows]
    np.testing.assert_allclose(product, product[0], rtol=1e-5)


def test_new_rows_are_as_likely_as_the_most_surprising_so_far() -> None:
    draw = drawing([1.0, 4.0, 9.0, 16.0])
    draw.learned(np.array([3]), np.array([0.0]))
    draw.added(np.array([4, 0]))
    weights = draw.state_dict(5)["weights"].numpy()
    np.testing.assert_allclose(weights, [4.0, 2.0, 3.0, 1e-3, 4.0], rtol=1e-5)


AGENTS = {
    "dqn, huber": dqn_spec(priorities=PRIORITIES),
    "dqn, squares": dqn_spec(priorities=PRIORITIES, huber_threshold=None),
    "sac": sac_spec(priorities=PRIORITIES),
    "discrete sac": discrete_sac_spec(priorities=PRIORITIES),
}


def prepared(spec: Any) -> tuple[Any, np.ndarray]:
    agent = make_agent(spec)
    for seed in range(3):
        agent.learn(make_rollout(agent.training_policy(), seed=seed))
    rows = np.random.default_rng(0).permutation(agent.cadence.memory.num_rows)[:16]
    return agent, rows


def critics_of(agent: Any) -> list[torch.nn.Module]:
    return [agent.model] if hasattr(agent, "epsilon") else list(agent.algorithm.critics)


def one_step(agent: Any, rows: np.ndarray, weight: np.ndarray) -> None:
    batch = Batch(row=rows, weight=weight.astype(np.float32))
    torch.manual_seed(1)
    agent.algorithm._preprocess_batch(batch, agent.cadence.memory, rows)
    agent.algorithm._update_with_batch(batch)


@pytest.mark.parametrize("spec", AGENTS.values(), ids=AGENTS.keys())
def test_weight_zero_moves_no_value(spec: Any) -> None:
    # tianshou's Huber loss forgets the weights (reference: its DQN with huber_loss_delta).
    with torch.random.fork_rng():
        agent, rows = prepared(spec)
        one_step(agent, rows, np.zeros(16))
        for critic in critics_of(agent):
            assert all(not parameter.grad.any() for parameter in critic.parameters())
        one_step(agent, rows, np.ones(16))
        for critic in critics_of(agent):
            assert any(bool(parameter.grad.any()) for parameter in critic.parameters())


@pytest.mark.parametrize("spec", AGENTS.values(), ids=AGENTS.keys())
def test_gradients_are_weighted_sums_over_rows(spec: Any) -> None:
    def gradient(weight: np.ndarray) -> list[torch.Tensor]:
        agent, rows = prepared(spec.model_copy(update={"max_gradient_norm": None}))
        one_step(agent, rows, weight)
        return [parameter.grad.clone() for parameter in critics_of(agent)[0].parameters()]

    with torch.random.fork_rng():
        weight = np.random.default_rng(2).random(16)
        half = np.arange(16) < 8
        first, second, both = gradient(weight * half), gradient(weight * ~half), gradient(weight)
        for one, other, total in zip(first, second, both, strict=True):
            torch.testing.assert_close(one + other, total, rtol=1e-4, atol=1e-6)


def test_learned_rows_get_the_errors_of_that_step() -> None:
    agent, rows = prepared(dqn_spec(priorities=PRIORITIES, target_update_every=1000))
    memory, algorithm = agent.cadence.memory, agent.algorithm
    with torch.no_grad():
        reference = memory.reference(rows)
        values = algorithm.policy(reference).numpy()[np.arange(16), memory.column("action", rows)]
        following, _ = memory.window_ends(rows)
        best = algorithm.policy(following).argmax(-1).numpy()
        valued = algorithm.policy(following, model=algorithm.lagged).numpy()[np.arange(16), best]
    target = memory.column("reward_sum", rows) + memory.column("bootstrap_discount", rows) * valued
    before = memory.draw.state_dict(memory.num_rows)["weights"].numpy()
    one_step(agent, rows, np.ones(16))
    after = memory.draw.state_dict(memory.num_rows)["weights"].numpy()
    np.testing.assert_allclose(after[rows], (np.abs(values - target) + 1e-6) ** 0.7, rtol=1e-4)
    others = np.setdiff1d(np.arange(memory.num_rows), rows)
    np.testing.assert_array_equal(after[others], before[others])


def test_only_what_is_remembered_is_drawn_around_the_head_of_the_ring() -> None:
    agent = make_agent(dqn_spec(priorities=PRIORITIES, memory_size=37, batch_size=16))
    for seed in range(8):
        agent.learn(make_rollout(agent.training_policy(), seed=seed))
        rows, weight = agent.cadence.memory.draw.draw(agent.cadence.memory.num_rows, 64)
        assert rows.max() < agent.cadence.memory.num_rows <= 37
        assert (weight > 0).all() and np.isfinite(weight).all()
