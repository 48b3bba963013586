"""Return arithmetic: closed form CF7 and its known wrong variants, slow oracles, and tianshou's own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore.agents.on_policy import RolloutRows
from rlcore.agents.returns import generalized_advantages, is_boundary, n_step_windows
from rlcore.agents.specs import MLPSpec
from rlcore.agents.transitions import alive_steps
from rlcore.environment.rollout import Rollout
from rlcore.foundation.lanes import map_lanes
from tests.agents_toy import GivenObservation, a2c_spec, make_agent, ppo_spec

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
        ("truncation ends the episode", [1.2968, -0.56, -3, 1.4]),
        ("the boundary is ignored", [5.0852672, 4.70176, 4.308, 1.4]),
        ("the next episode's first observation is valued", [3.6296, 2.68, 1.5, 1.4]),
        ("the observation before the last step is valued", [3.16304, 2.032, 0.6, 1.4]),
    ],
)
def test_wrong_variants_give_other_numbers(mistake: str, expected: list[float]) -> None:
    boundary = np.array([[False], [False], [True], [True]])
    next_value = np.array([[3.0], [4.0], [7.0], [6.0]])
    if mistake.startswith("truncation"):
        next_value[2] = 0.0
    elif mistake.startswith("the boundary"):
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


@settings(max_examples=60)
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


@pytest.mark.parametrize("ending", ["terminated", "truncated", "the fragment stops"])
@pytest.mark.parametrize("at", range(4))
def test_a_boundary_at_every_step(at: int, ending: str) -> None:
    """An index that is off by one shows somewhere (known failure T10)."""
    steps = np.arange(4)[:, None]
    terminated, truncated = (steps == at) & (ending == "terminated"), (steps == at) & (ending == "truncated")
    alive = np.ones((4, 1), bool) if ending != "the fragment stops" else steps <= at
    boundary = is_boundary(terminated, truncated, alive)
    next_value = np.where(terminated, 0.0, np.array([[3.0], [4.0], [7.0], [6.0]]))
    result = generalized_advantages(np.where(alive, REWARD, 0.0), VALUE, next_value, boundary, 0.9, 0.8)
    error = [1 + 0.9 * float(next_value[t, 0]) - float(VALUE[t, 0]) for t in range(4)]
    for start in range(4):
        last = at if start <= at else 3  # of the episode that this step belongs to
        if not alive[start, 0]:
            continue
        expected = sum(0.72 ** (t - start) * error[t] for t in range(start, last + 1))
        assert result[start, 0] == pytest.approx(expected, abs=1e-12)


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), steps=st.integers(2, 9), lanes=st.integers(1, 4), data=st.data())
def test_fragments_cut_anywhere_give_the_same_errors(seed: int, steps: int, lanes: int, data: st.DataObject) -> None:
    """The one-step errors of two fragments are those of the whole; advantages differ by what lies beyond the cut, discounted."""
    rng = np.random.default_rng(seed)
    reward, value, final = rng.normal(size=(3, steps, lanes))
    terminated, truncated = rng.random((2, steps, lanes)) < 0.2
    alive = np.ones((steps, lanes), bool)
    boundary = is_boundary(terminated, truncated, alive)
    # As the engine has it: what follows inside an episode is the next row's own value.
    next_value = final.copy()
    next_value[:-1] = np.where(boundary[:-1], final[:-1], value[1:])
    next_value = np.where(terminated, 0.0, next_value)
    cut = data.draw(st.integers(1, steps - 1))
    whole, joined = {}, {}
    for gae_lambda in (0.0, 0.7):
        whole[gae_lambda] = generalized_advantages(reward, value, next_value, boundary, 0.93, gae_lambda)
        parts = [
            generalized_advantages(
                reward[part],
                value[part],
                next_value[part],
                is_boundary(terminated[part], truncated[part], alive[part]),
                0.93,
                gae_lambda,
            )
            for part in (slice(0, cut), slice(cut, steps))
        ]
        joined[gae_lambda] = np.concatenate(parts)
    np.testing.assert_array_equal(joined[0.0], whole[0.0])
    missing = np.zeros((steps, lanes))
    for lane in range(lanes):
        for step in range(cut):
            if not boundary[step:cut, lane].any():
                missing[step, lane] = (0.93 * 0.7) ** (cut - step) * whole[0.7][cut, lane]
    np.testing.assert_allclose(joined[0.7] + missing, whole[0.7], atol=1e-12)


def test_agrees_with_tianshou() -> None:
    from tianshou.algorithm.algorithm_base import _gae

    rng = np.random.default_rng(2)
    reward, value, next_value = rng.normal(size=(3, 40))
    ends = rng.random(40) < 0.2
    ends[-1] = True
    theirs = _gae(value, next_value, reward, ends, 0.97, 0.9)
    ours = generalized_advantages(*(column[:, None] for column in (reward, value, next_value, ends)), 0.97, 0.9)
    np.testing.assert_allclose(ours[:, 0], theirs, atol=1e-12)


class Known:
    """An agent whose critic says what it sees: V(s) = s."""

    def __init__(self, make_spec: Any, **options: Any) -> None:
        space = spaces.Box(0.0, 9.0, (1,), np.float32)
        spec = make_spec(network=MLPSpec(sizes=(1,)), gae_lambda=0.8, **options)
        self.agent = make_agent(spec, GivenObservation(space))
        with torch.no_grad():
            for value in (self.agent.model.network.layers[0].weight, self.agent.model.critic.weight):
                value.fill_(1.0)

    def rows(self, rollout: Rollout) -> RolloutRows:
        rows = RolloutRows(rollout, alive_steps(rollout))
        self.agent.algorithm._preprocess_batch(None, rows, np.arange(rows.num_rows))
        return rows

    def rollout(self, ending: str, lanes: int = 1) -> Rollout:
        """CF7 in the middle lane: an episode of three steps, whose final observation is 7, and the first step of the next one."""
        seen, after = np.array([2.0, 3.0, 4.0, 5.0], np.float32), np.array([3.0, 4.0, 7.0, 6.0], np.float32)
        rng = np.random.default_rng(0)
        columns = np.concatenate([seen, after]).reshape(2, 4, 1) * np.ones((2, 4, lanes), np.float32)
        reward, middle = np.ones((4, lanes)), lanes // 2
        noise = rng.uniform(1, 9, columns.shape).astype(np.float32)
        others = np.arange(lanes) != middle
        columns[:, :, others], reward[:, others] = noise[:, :, others], rng.normal(size=(4, lanes))[:, others]
        ended = (np.arange(4) == 2)[:, None] & np.ones((4, lanes), bool)
        ended[:, others] = rng.random((4, lanes))[:, others] < 0.4
        nothing = np.zeros((4, lanes), bool)
        with torch.no_grad():
            value = self.agent.algorithm.policy(columns[0].reshape(-1, 1))[1].numpy().reshape(4, lanes)
        return Rollout(
            seed_id=np.zeros((4, lanes), np.int64),
            visit=np.zeros((4, lanes), np.int64),
            step=np.zeros((4, lanes), np.int64),
            reference=columns[0][..., None],
            next_reference=columns[1][..., None],
            action=np.zeros((4, lanes), np.int64),
            reward=reward,
            components={},
            terminated=ended if ending == "terminated" else nothing,
            truncated=ended if ending == "truncated" else nothing,
            is_alive=~nothing,
            mask=None,
            next_mask=None,
            log_prob=np.zeros((4, lanes), np.float32),
            value=value,
            internal_state=None,
            auxiliary={},
        )


@pytest.mark.parametrize("make_spec", [ppo_spec, a2c_spec])
@pytest.mark.parametrize(
    ("ending", "expected"), [("terminated", [1.2968, -0.56, -3, 1.4]), ("truncated", [4.56272, 3.976, 3.3, 1.4])]
)
def test_an_agent_credits_as_the_closed_form_says(make_spec: Any, ending: str, expected: list[float]) -> None:
    known = Known(make_spec, advantage_scaling="none")
    rollout = known.rollout(ending)
    np.testing.assert_array_equal(rollout.value[:, 0], [2, 3, 4, 5])  # type: ignore[index]  # it is there
    np.testing.assert_allclose(known.rows(rollout).advantage, expected, rtol=1e-6)
    # Lanes beside it change nothing (known failures T13, T14), in whatever order they stand.
    beside = known.rollout(ending, lanes=5)
    rows = known.rows(beside)
    table = rows.alive.table(rows.advantage)
    np.testing.assert_allclose(table[:, 2], expected, rtol=1e-6)
    order = np.array([3, 2, 0, 4, 1])
    mixed = known.rows(map_lanes(lambda leaf: leaf[:, order], beside))
    np.testing.assert_array_equal(mixed.alive.table(mixed.advantage), table[:, order])


@pytest.mark.parametrize("make_spec", [ppo_spec, a2c_spec])
def test_advantages_are_scaled_after_they_are_credited(make_spec: Any) -> None:
    """Known failure T55: (A − mean) / deviation of the finished advantages; targets of the critic stay in units of reward."""
    raw, scaled = Known(make_spec, advantage_scaling="none"), Known(make_spec, advantage_scaling="iteration")
    rollout = raw.rollout("truncated")
    advantage = np.array([4.56272, 3.976, 3.3, 1.4])
    np.testing.assert_allclose(scaled.rows(rollout).advantage, (advantage - advantage.mean()) / advantage.std(), rtol=1e-5)
    np.testing.assert_allclose(scaled.rows(rollout).target, advantage + np.array([2, 3, 4, 5]), rtol=1e-6)
    np.testing.assert_array_equal(scaled.rows(rollout).target, raw.rows(rollout).target)


@pytest.mark.parametrize("make_spec", [ppo_spec, a2c_spec])
@pytest.mark.parametrize("cut", [1, 2, 3])
def test_an_agent_values_what_a_fragment_stops_before(make_spec: Any, cut: int) -> None:
    """λ = 0: the errors of an episode in two fragments are those of the whole."""
    known = Known(make_spec, advantage_scaling="none")
    known.agent.algorithm.gae_lambda = 0.0
    rollout = known.rollout("truncated", lanes=3)
    whole = known.rows(rollout)
    expected = whole.alive.table(whole.advantage)
    for part in (slice(0, cut), slice(cut, 4)):
        # Inside an episode the engine's next reference is the next row's reference.
        rows = known.rows(map_lanes(lambda leaf, part=part: leaf[part], _continuing(rollout)))
        np.testing.assert_allclose(rows.alive.table(rows.advantage), expected[part], rtol=1e-6)


def _continuing(rollout: Rollout) -> Rollout:
    after = rollout.next_reference.copy()
    after[:-1] = np.where(rollout.truncated[:-1, :, None], after[:-1], rollout.reference[1:])
    return replace(rollout, next_reference=after)


def test_a_fragment_ends_where_its_lane_does() -> None:
    alive = np.array([[True, True], [True, False], [True, False]])
    nothing = np.zeros((3, 2), bool)
    np.testing.assert_array_equal(is_boundary(nothing, nothing, alive), [[False, True], [False, True], [True, True]])


@settings(max_examples=100)
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
