"""A day's completeness, against a scalar reading of its definition."""

from __future__ import annotations

import numpy as np
import pytest

from rlcore.market.completeness import coverage_of, is_complete_day, longest_silence


def day(ticks: list[int], length: int = 390) -> np.ndarray:
    has_bar = np.zeros((1, length), bool)
    has_bar[0, ticks] = True
    return has_bar


@pytest.mark.parametrize(
    ("ticks", "session", "silence"),
    [([0, 1, 2, 3], 4, 0), ([1, 2, 3], 4, 1), ([0, 1], 4, 2), ([], 4, 4), ([0, 3], 4, 2), ([0, 5], 6, 4), ([1], 3, 1)],
)
def test_longest_silence(ticks: list[int], session: int, silence: int) -> None:
    assert longest_silence(day(ticks, 6), np.array([session])).tolist() == [silence]


def test_coverage_counts_the_session_only() -> None:
    assert coverage_of(day([0, 1, 2], 6), np.array([3])).tolist() == [1.0]


@pytest.mark.parametrize("every", [2, 5, 20, 60])
def test_evenly_thin_trading_is_complete(every: int) -> None:
    assert is_complete_day(day(list(range(0, 390, every))), np.array([390])).all()


@pytest.mark.parametrize("minutes", [60, 120, 300])
def test_liquid_day_with_a_hole_is_not(minutes: int) -> None:
    for first in (0, 100, 390 - minutes):
        ticks = [tick for tick in range(390) if not first <= tick < first + minutes]
        assert not is_complete_day(day(ticks), np.array([390])).any()


def test_a_tenth_may_be_missing() -> None:
    assert is_complete_day(day(list(range(351))), np.array([390])).all()
    assert not is_complete_day(day(list(range(350))), np.array([390])).any()


def test_an_empty_day_is_not_complete() -> None:
    assert not is_complete_day(day([]), np.array([390])).any()


def test_random_thin_days_pass() -> None:
    generator = np.random.default_rng(0)
    has_bar = generator.random((2000, 390)) < generator.uniform(0.05, 0.8, (2000, 1))
    assert is_complete_day(has_bar, np.full(2000, 390)).all()
