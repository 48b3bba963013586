"""Endless shuffled passes as a pure function of the position."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rlcore.environment.seed_sampling import training_draw
from rlcore.foundation.errors import ConfigError


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


def test_misuse_is_refused():
    with pytest.raises(ConfigError, match="must hold at least 1 seed, held 0"):
        training_draw(0, 0, 0, 1)
    with pytest.raises(ConfigError, match="must be at least 0, were -1 and 1"):
        training_draw(0, 3, -1, 1)
