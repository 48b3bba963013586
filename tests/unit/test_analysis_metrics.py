"""Execution quality against metrics.md: worked by hand, and identities that hold for any fills."""

from __future__ import annotations

import numpy as np
import pytest

from rlcore.execution.metrics import (
    average_price,
    fill_rate,
    gain_loss_ratio,
    implementation_shortfall,
    participation,
    price_advantage_bps,
    shortfall_in_bps,
    slippage_bps,
    win_rate,
)


def test_shortfall_by_hand() -> None:
    # Buy 1000, decided at 100, arrival 101, 600 filled at 102 and 200 at 103, end price 105, fees 50.
    parts = implementation_shortfall(1.0, 1000.0, [600.0, 200.0], [102.0, 103.0], 100.0, 101.0, 105.0, 50.0)
    assert parts.delay == pytest.approx(1000.0)
    assert parts.trading == pytest.approx(600.0 + 400.0)
    assert parts.opportunity == pytest.approx(800.0)
    assert parts.total == pytest.approx(2850.0)
    assert shortfall_in_bps(parts.total, 1000.0, 100.0) == pytest.approx(285.0)


def test_decomposition_is_exact_for_any_fills_and_leading_shape() -> None:
    random = np.random.default_rng(1)
    shape = (3, 4)
    side = random.choice([-1.0, 1.0], shape)
    filled = random.random((*shape, 7)) * (random.random((*shape, 7)) < 0.6)
    price = 50.0 + random.standard_normal((*shape, 7))
    price[filled == 0.0] = np.nan
    quantity = filled.sum(-1) + random.random(shape)
    decision, arrival, end = (50.0 + random.standard_normal(shape) for _ in range(3))
    fees = random.random(shape)
    parts = implementation_shortfall(side, quantity, filled, price, decision, arrival, end, fees)
    oracle = np.zeros(shape)
    for at in np.ndindex(*shape):
        done = [(q, p) for q, p in zip(filled[at], price[at], strict=True) if q > 0]
        left = quantity[at] - sum(q for q, _ in done)
        oracle[at] = sum(side[at] * q * (p - decision[at]) for q, p in done)
        oracle[at] += side[at] * left * (end[at] - decision[at]) + fees[at]
    np.testing.assert_allclose(parts.total, oracle, rtol=0, atol=1e-12)


def test_buy_and_sell_of_the_same_fills_mirror_each_other() -> None:
    mean = average_price([1.0, 3.0], [10.0, 12.0])
    assert mean == pytest.approx(11.5)
    assert price_advantage_bps(1.0, mean, 11.0) == pytest.approx(-1e4 * 0.5 / 11.0)
    assert price_advantage_bps(-1.0, mean, 11.0) == -price_advantage_bps(1.0, mean, 11.0) == slippage_bps(1.0, mean, 11.0)


def test_parts_of_price_advantage_add_up() -> None:
    random = np.random.default_rng(2)
    filled, price = random.random((5, 4)), 20.0 + random.random((5, 4))
    twap = price.mean(-1)
    steps = (filled * price_advantage_bps(1.0, price, twap[:, None])).sum(-1) / filled.sum(-1)
    np.testing.assert_allclose(steps, price_advantage_bps(1.0, average_price(filled, price), twap), rtol=0, atol=1e-9)


def test_nothing_filled_is_unknown_and_not_ten_thousand_bps() -> None:
    mean = average_price([0.0, 0.0], [10.0, np.nan])
    assert np.isnan(mean) and np.isnan(price_advantage_bps(1.0, mean, 10.0))
    assert fill_rate(0.0, 5.0) == 0.0
    assert np.isnan(participation(0.0, 0.0))
    # Opportunity cost remains.
    left = implementation_shortfall(-1.0, 10.0, [0.0, 0.0], [np.nan, np.nan], 10.0, 10.0, 9.0)
    assert shortfall_in_bps(left.total, 10.0, 10.0) == pytest.approx(1000.0)


@pytest.mark.parametrize("benchmark", [0.0, np.nan])
def test_a_bad_benchmark_never_looks_neutral(benchmark: float) -> None:
    assert np.isnan(price_advantage_bps(1.0, 10.0, benchmark))


def test_a_filled_order_needs_no_end_price() -> None:
    assert implementation_shortfall(1.0, 2.0, [2.0], [11.0], 10.0, 10.0, np.nan).total == pytest.approx(2.0)


def test_win_rate_and_gain_loss_ratio() -> None:
    gains = np.array([3.0, 1.0, -1.0, 0.0, np.nan])
    assert win_rate(gains) == pytest.approx(0.5)
    assert gain_loss_ratio(gains) == pytest.approx(2.0)
    assert np.isnan(gain_loss_ratio([1.0, 2.0])) and np.isnan(gain_loss_ratio([-1.0])) and np.isnan(win_rate([np.nan]))
    symmetric = np.array([-2.0, -1.0, 1.0, 2.0])
    assert gain_loss_ratio(symmetric) == 1.0
