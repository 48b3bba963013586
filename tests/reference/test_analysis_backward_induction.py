"""The generic core against the exact problems of closed_forms.md CF5 and against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rlcore.execution.backward_induction import InventoryProblem, evaluate_plan, solve
from rlcore.foundation.errors import ContractError

CHAIN = np.array([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])
SIGNAL = np.array([-1.0, 0.0, 1.0])


def integer_almgren_chriss(risk: float) -> InventoryProblem:
    """T=4, Q=8, cost n² + risk · x_after², everything must be traded."""
    steps, quantity = 4, 8
    before, after = np.arange(quantity + 1)[:, None], np.arange(quantity + 1)[None, :]
    cost = np.where(after <= before, (before - after) ** 2 + risk * after**2, np.inf).astype(float)
    reward = np.repeat(-cost[None, :, :, None], steps, axis=0)
    reward[-1, :, 1:] = -np.inf
    return InventoryProblem(reward, np.ones((steps, 1, 1)))


@pytest.mark.parametrize(
    ("risk", "trades", "cost"),
    [(0.0, [2, 2, 2, 2], 16.0), (0.1, [3, 2, 2, 1], 21.5), (0.5, [4, 2, 1, 1], 32.5), (1.0, [5, 2, 1, 0], 40.0)],
)
def test_integer_almgren_chriss(risk: float, trades: list[int], cost: float) -> None:
    problem = integer_almgren_chriss(risk)
    solution = solve(problem)
    assert -solution.value[0, 8, 0] == pytest.approx(cost, abs=1e-12)
    # Other schedules can be as cheap; the paper's must cost the same and ours must too.
    path = [8, *(8 - np.cumsum(trades))]
    assert -sum(problem.reward[k, path[k], path[k + 1], 0] for k in range(4)) == pytest.approx(cost, abs=1e-12)
    level, total = 8, 0.0
    for step in range(4):
        to = solution.best_level[step, level, 0]
        total -= problem.reward[step, level, to, 0]
        level = to
    assert total == pytest.approx(cost, abs=1e-12) and level == 0


def signal_problem(steps: int = 5, quantity: int = 5) -> InventoryProblem:
    """Reward (q − n) · 0.5 s − 0.1 n²; must finish."""
    before, after = np.arange(quantity + 1)[:, None], np.arange(quantity + 1)[None, :]
    reward = after[..., None] * 0.5 * SIGNAL - 0.1 * ((before - after) ** 2)[..., None]
    reward = np.where((after <= before)[..., None], reward, -np.inf)
    reward = np.repeat(reward[None], steps, axis=0)
    reward[-1, :, 1:] = -np.inf
    return InventoryProblem(reward, np.repeat(CHAIN[None], steps, axis=0))


def test_signal_problem() -> None:
    problem = signal_problem()
    solution = solve(problem)
    assert solution.value[0, 5] == pytest.approx([-1.9336, 0.1562, 4.1910], abs=5e-5)
    assert (5 - solution.best_level[0, 5]).tolist() == [3, 1, 0]
    plan = np.maximum(np.arange(6) - 1, 0)[None, :, None].repeat(5, 0).repeat(3, 2)
    assert evaluate_plan(problem, plan)[0, 5] == pytest.approx([-3.5625, -0.5, 2.5625], abs=1e-12)


def test_the_optimum_is_the_best_of_all_plans() -> None:
    problem = signal_problem(steps=2, quantity=2)
    values = []
    # By signal from level 2, then by level and signal; plans that buy back cannot be carried out.
    downwards = [range(level + 1) for level in (2, 2, 2, 0, 0, 0, 1, 1, 1, 2, 2, 2)]
    for choice in itertools.product(*downwards):
        plan = np.zeros((2, 3, 3), np.int64)
        plan[0, 2], plan[1] = choice[:3], np.array(choice[3:]).reshape(3, 3)
        with np.errstate(invalid="ignore"):
            values.append(evaluate_plan(problem, plan)[0, 2])
    assert len(values) == 3**3 * 2**3 * 3**3
    best = np.max(np.nan_to_num(np.array(values), nan=-np.inf), axis=0)
    assert solve(problem).value[0, 2] == pytest.approx(best, abs=1e-12)


def test_following_the_best_levels_earns_the_value() -> None:
    problem = signal_problem()
    solution = solve(problem)
    np.testing.assert_allclose(evaluate_plan(problem, solution.best_level)[0, 5], solution.value[0, 5], rtol=0, atol=1e-12)


def test_probabilities_must_add_up() -> None:
    problem = signal_problem()
    with pytest.raises(ContractError, match="must sum to 1"):
        InventoryProblem(problem.reward, problem.transition * 0.9)
