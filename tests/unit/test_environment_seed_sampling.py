"""Endless shuffled passes as a pure function of the position."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rlcore.environment.evaluation import evaluate
from rlcore.environment.random_actions import RandomActions
from rlcore.environment.seed_sampling import InterleavedDraw, finite_passes, training_draw
from rlcore.foundation.errors import ConfigError
from rlcore.foundation.random_streams import RandomStreams
from tests.environment_toys import SpendAction, spend_parts, spend_seeds


@given(
    root=st.integers(0, 2**63 - 1),
    num_seeds=st.integers(1, 40),
    start=st.integers(0, 200),
    cuts=st.lists(st.integers(0, 30), max_size=6),
)
def test_how_the_sequence_is_cut_makes_no_difference(root, num_seeds, start, cuts):
    whole = training_draw(root, num_seeds, start, sum(cuts))
    position, pieces = start, []
    for count in cuts:
        pieces.append(training_draw(root, num_seeds, position, count))
        position += count
    for column, of_pieces in zip(whole, zip(*pieces, strict=True), strict=False):
        np.testing.assert_array_equal(column, np.concatenate(of_pieces))


@given(root=st.integers(0, 2**63 - 1), num_seeds=st.integers(1, 40), number=st.integers(0, 10**6))
def test_every_pass_holds_every_seed_once(root, num_seeds, number):
    seed_id, visit = training_draw(root, num_seeds, number * num_seeds, num_seeds)
    assert sorted(seed_id) == list(range(num_seeds)) and set(visit) == {number}


def test_orders_are_uniform():
    # 6 orders of 3 seeds, 6000 passes: chi-squared with 5 degrees of freedom.
    seed_id, _ = training_draw(0, 3, 0, 18000)
    _, counts = np.unique(seed_id.reshape(6000, 3), axis=0, return_counts=True)
    assert len(counts) == 6 and stats.chisquare(counts).pvalue > 1e-4


def test_roots_have_orders_of_their_own():
    assert (training_draw(0, 1000, 0, 1000)[0] != training_draw(1, 1000, 0, 1000)[0]).mean() > 0.99


@given(
    root=st.integers(0, 2**63 - 1),
    num_seeds=st.integers(1, 30),
    num_groups=st.integers(1, 9),
    start=st.integers(0, 50),
    count=st.integers(0, 40),
)
def test_groups_together_draw_what_one_alone_would(root, num_seeds, num_groups, start, count):
    whole = training_draw(root, num_seeds, start * num_groups, count * num_groups)
    draws = [InterleavedDraw(root, num_seeds, group, num_groups) for group in range(num_groups)]
    shares = [pickle.loads(pickle.dumps(draw))(start, count) for draw in draws]
    for column, of_groups in zip(whole, zip(*shares, strict=True), strict=True):
        np.testing.assert_array_equal(column, np.stack(of_groups, axis=1).ravel())


@given(root=st.integers(0, 2**63 - 1), num_seeds=st.integers(1, 30), repeats=st.integers(1, 5))
def test_finite_passes_hold_every_seed_so_often(root, num_seeds, repeats):
    np.testing.assert_array_equal(finite_passes(num_seeds, repeats), np.concatenate([np.arange(num_seeds)] * repeats))
    shuffled = finite_passes(num_seeds, repeats, order="shuffled", root=root)
    for one_pass in shuffled.reshape(repeats, num_seeds):
        assert sorted(one_pass) == list(range(num_seeds))
    np.testing.assert_array_equal(shuffled, finite_passes(num_seeds, repeats, order="shuffled", root=root))


def test_repeated_and_shuffled_passes_are_evaluated_exactly():
    parts, seeds, policy = spend_parts(), spend_seeds(7), RandomActions(SpendAction.action_space)

    def table_of(seed_ids):
        return evaluate(parts, policy, seeds, RandomStreams(0), "validation", 4, seed_ids)

    in_order, shuffled = table_of(finite_passes(7, 3)), table_of(finite_passes(7, 3, order="shuffled", root=5))
    assert in_order["seed_id"].tolist() == [*range(7)] * 3
    assert shuffled["seed_id"].tolist() != in_order["seed_id"].tolist()
    # A seed's k-th visit is the same episode in any order, and another than its first.
    for seed_id in range(7):
        of_seed = [table["return"][table["seed_id"] == seed_id].tolist() for table in (in_order, shuffled)]
        assert of_seed[0] == of_seed[1] and len(of_seed[0]) == 3 and len(set(of_seed[0])) > 1


def test_misuse_is_refused():
    with pytest.raises(ConfigError, match="repeats must be at least 1, was 0"):
        finite_passes(3, 0)
    with pytest.raises(ConfigError, match="order must be in_order or shuffled, was 'random'"):
        finite_passes(3, order="random")
    with pytest.raises(ConfigError, match="must hold at least 1 seed, held 0"):
        training_draw(0, 0, 0, 1)
    with pytest.raises(ConfigError, match="must be at least 0, were -1 and 1"):
        training_draw(0, 3, -1, 1)
