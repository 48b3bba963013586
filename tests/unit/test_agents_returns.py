"""Return arithmetic: closed form CF7 and its known wrong variants, slow oracles, and tianshou's own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore.agents.returns import generalized_advantages, is_boundary, n_step_windows

REWARD = np.ones((4, 1))
VALUE = np.array([[2.0], [3.0], [4.0], [5.0]])


def advantages(terminated_at: int | None, truncated_at: int | None, final_value: float) -> np.ndarray:
    terminated, truncated = (
        np.arange(4)[:, None] == at if at is not None else np.zeros((4, 1), bool) for at in (terminated_at, truncated_at)
    )
    boundary = is_boundary(terminated, truncated, np.ones((4, 1), bool))
    next_value = np.array([[3.0], [4.0], [final_value], [6.0]])
    return generalized_advantages(REWARD, VALUE, np.where(terminated, 0.0, next_value), boundary, 0.9, 0.8)[:, 0]


def test_termination() -> None:
    np.testing.assert_allclose(advantages(2, None, 7.0), [1.2968, -0.56, -3, 1.4], atol=1e-12)


def test_truncation_takes_the_value_of_the_final_observation() -> None:
    np.testing.assert_allclose(advantages(None, 2, 7.0), [4.56272, 3.976, 3.3, 1.4], atol=1e-12)


@pytest.mark.parametrize(
    ("mistake", "expected"),
    [
        ("the boundary is ignored", [5.0852672, 4.70176, 4.308, 1.4]),
        ("the next episode's first observation is valued", [3.6296, 2.68, 1.5, 1.4]),
        ("the observation before the last step is valued", [3.16304, 2.032, 0.6, 1.4]),
    ],
)
def test_wrong_variants_give_other_numbers(mistake: str, expected: list[float]) -> None:
    boundary = np.array([[False], [False], [True], [True]])
    next_value = np.array([[3.0], [4.0], [7.0], [6.0]])
    if mistake.startswith("the boundary"):
        boundary[2] = False
    elif mistake.startswith("the next episode"):
        next_value[2] = 5.0
    else:
        next_value = np.array([[2.0], [3.0], [4.0], [5.0]])
        next_value[[0, 1, 3]] = [[3.0], [4.0], [6.0]]
    wrong = generalized_advantages(REWARD, VALUE, next_value, boundary, 0.9, 0.8)[:, 0]
    np.testing.assert_allclose(wrong, expected, atol=1e-12)
    assert not np.allclose(wrong, advantages(None, 2, 7.0))


def test_lambda_zero_is_the_one_step_error() -> None:
    boundary = np.array([[False], [True]])
    result = generalized_advantages(
        np.array([[0.0], [1.0]]), np.array([[0.3], [0.6]]), np.array([[0.6], [0.0]]), boundary, 0.95, 0.0
    )
    np.testing.assert_allclose(result[:, 0], [0.27, 0.40], atol=1e-12)


def scalar_advantages(reward, value, next_value, boundary, discount, gae_lambda):
    result = np.zeros(len(reward))
    for start in range(len(reward)):
        weight = 1.0
        for step in range(start, len(reward)):
            result[start] += weight * (reward[step] + discount * next_value[step] - value[step])
            if boundary[step]:
                break
            weight *= discount * gae_lambda
    return result


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), steps=st.integers(1, 9), lanes=st.integers(1, 5))
def test_agrees_with_the_sum_written_out_and_with_tianshou(seed: int, steps: int, lanes: int) -> None:
    rng = np.random.default_rng(seed)
    reward, value, next_value = rng.normal(size=(3, steps, lanes))
    terminated, truncated = rng.random((2, steps, lanes)) < 0.3
    boundary = is_boundary(terminated, truncated, np.ones((steps, lanes), bool))
    next_value = np.where(terminated, 0.0, next_value)
    ours = generalized_advantages(reward, value, next_value, boundary, 0.93, 0.7)
    for lane in range(lanes):
        columns = [column[:, lane] for column in (reward, value, next_value, boundary)]
        np.testing.assert_allclose(ours[:, lane], scalar_advantages(*columns, 0.93, 0.7), atol=1e-12)
    order = rng.permutation(lanes)
    mixed = generalized_advantages(*(column[:, order] for column in (reward, value, next_value, boundary)), 0.93, 0.7)
    assert (mixed == ours[:, order]).all()


def test_agrees_with_tianshou() -> None:
    from tianshou.algorithm.algorithm_base import _gae

    rng = np.random.default_rng(2)
    reward, value, next_value = rng.normal(size=(3, 40))
    ends = rng.random(40) < 0.2
    ends[-1] = True
    theirs = _gae(value, next_value, reward, ends, 0.97, 0.9)
    ours = generalized_advantages(*(column[:, None] for column in (reward, value, next_value, ends)), 0.97, 0.9)
    np.testing.assert_allclose(ours[:, 0], theirs, atol=1e-12)


def test_a_fragment_ends_where_its_lane_does() -> None:
    alive = np.array([[True, True], [True, False], [True, False]])
    nothing = np.zeros((3, 2), bool)
    np.testing.assert_array_equal(is_boundary(nothing, nothing, alive), [[False, True], [False, True], [True, True]])


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**6), rows=st.integers(1, 14), n=st.integers(1, 5))
def test_windows_agree_with_loops(seed: int, rows: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    reward = rng.normal(size=rows)
    boundary = rng.random(rows) < 0.3
    boundary[-1] = True
    terminated = boundary & (rng.random(rows) < 0.5)
    total, last, following = n_step_windows(reward, terminated, boundary, 0.9, n)
    for row in range(rows):
        expected, at = 0.0, row
        for k in range(n):
            at = row + k
            expected += 0.9**k * reward[at]
            if boundary[at]:
                break
        assert total[row] == pytest.approx(expected, abs=1e-12)
        assert row + last[row] == at
        # γ to the number of rewards summed, not to one (known failure T15); nothing follows a termination (T11).
        assert following[row] == pytest.approx(0.0 if terminated[at] else 0.9 ** (at - row + 1), abs=1e-12)
