"""Two-way clustered intervals: by hand, and by the coverage they must have."""

from __future__ import annotations

import numpy as np
import pytest

from rlcore.execution.clustered_mean import clustered_mean, confidence_interval

NUM_DRAWS = 1500


def test_by_hand() -> None:
    # Two days, two instruments, one order each: x = day effect + instrument effect exactly.
    estimate = clustered_mean([0.0, 2.0, 4.0, 6.0], np.ones(4), [1, 1, 2, 2], ["a", "b", "a", "b"])
    # u = (−3, −1, 1, 3)/4; day sums ∓1: V_day = 2/1·2 = 4; instrument sums ∓½: V_instrument = 2·½ = 1; cells: 4/3·20/16 = 5/3.
    assert estimate.mean == 3.0
    assert estimate.standard_error == pytest.approx(4.0**0.5)  # 4 + 1 − 5/3 < 4: the floor holds
    assert estimate.degrees_of_freedom == 1.0


def test_one_cluster_per_order_is_the_plain_standard_error() -> None:
    values = np.random.default_rng(1).standard_normal(40)
    estimate = clustered_mean(values, np.ones(40), np.arange(40), np.zeros(40))
    assert estimate.standard_error == pytest.approx(values.std(ddof=1) / 40**0.5)
    assert estimate.degrees_of_freedom == 39.0


def test_weights_count_like_copies_of_an_order() -> None:
    day, instrument = np.array([1, 1, 2, 2, 3, 3]), np.array([1, 2, 1, 2, 1, 2])
    values, copies = np.array([3.0, 1.0, -2.0, 0.5, 4.0, 1.0]), np.array([1, 2, 3, 1, 2, 1])
    weighted = clustered_mean(values, copies, day, instrument)
    copied = clustered_mean(*(np.repeat(x, copies) for x in (values, np.ones(6), day, instrument)))
    assert weighted.mean == pytest.approx(copied.mean)
    assert weighted.standard_error == pytest.approx(copied.standard_error)


def test_too_little_to_know_gives_nan_and_not_zero() -> None:
    estimate = clustered_mean([1.0, 2.0], np.ones(2), ["d", "d"], ["a", "b"])
    assert estimate.mean == 1.5 and np.isnan(confidence_interval(estimate, 0.95)).all()
    assert clustered_mean([], [], [], []).num_days == 0


@pytest.mark.parametrize(
    ("day_sd", "instrument_sd", "order_sd"),
    [(1.0, 1.0, 1.0), (1.0, 1.0, 3.0), (1.0, 0.0, 1.0), (0.0, 1.0, 1.0)],
)
@pytest.mark.parametrize("is_unbalanced", [False, True])
def test_nominal_95_percent_covers_92_to_98_percent(
    day_sd: float, instrument_sd: float, order_sd: float, is_unbalanced: bool
) -> None:
    """12 days × 22 instruments; unbalanced: a third of the orders missing, and weights that vary fivefold."""
    random = np.random.default_rng(7)
    day, instrument = (grid.ravel() for grid in np.meshgrid(np.arange(12), np.arange(22), indexing="ij"))
    num_covered = 0
    for _ in range(NUM_DRAWS):
        kept = random.random(len(day)) < (0.67 if is_unbalanced else 1.0)
        days, instruments = day[kept], instrument[kept]
        values = (
            day_sd * random.standard_normal(12)[days]
            + instrument_sd * random.standard_normal(22)[instruments]
            + order_sd * random.standard_normal(len(days))
        )
        weights = random.uniform(0.2, 1.0, len(days)) if is_unbalanced else np.ones(len(days))
        low, high = confidence_interval(clustered_mean(values, weights, days, instruments), 0.95)
        num_covered += low <= 0.0 <= high
    assert 0.92 <= num_covered / NUM_DRAWS <= 0.98


def test_ignoring_the_clusters_would_not_cover() -> None:
    """The planted violation: orders taken as independent cover far less than they claim."""
    random = np.random.default_rng(8)
    day, instrument = (grid.ravel() for grid in np.meshgrid(np.arange(12), np.arange(22), indexing="ij"))
    num_covered = 0
    for _ in range(300):
        values = random.standard_normal(12)[day] + random.standard_normal(22)[instrument] + random.standard_normal(264)
        low, high = confidence_interval(clustered_mean(values, np.ones(264), np.arange(264), np.zeros(264)), 0.95)
        num_covered += low <= 0.0 <= high
    assert num_covered / 300 < 0.6
