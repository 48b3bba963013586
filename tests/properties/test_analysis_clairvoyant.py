"""Nobody with the same capacity beats perfect foresight: brute force over all ways to fill."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlcore.execution.clairvoyant import cheapest_fills
from rlcore.execution.metrics import average_price, price_advantage_bps


@settings(max_examples=60)
@given(
    prices=st.lists(st.integers(90, 110), min_size=3, max_size=4),
    capacities=st.lists(st.integers(0, 3), min_size=4, max_size=4),
    quantity=st.integers(1, 6),
    side=st.sampled_from([-1.0, 1.0]),
)
def test_no_other_way_to_fill_as_much_is_better(prices: list[int], capacities: list[int], quantity: int, side: float) -> None:
    price, capacity = np.array(prices, float), np.array(capacities[: len(prices)], float)
    best = cheapest_fills(np.array(side), np.array(float(quantity)), price, capacity)
    assert (best >= 0.0).all() and (best <= capacity).all()
    assert best.sum() == min(quantity, capacity.sum())
    twap = price.mean()
    for fills in itertools.product(*(range(int(c) + 1) for c in capacity)):
        filled = float(sum(fills))
        if not 0 < filled <= quantity:
            continue
        bound = cheapest_fills(np.array(side), np.array(filled), price, capacity)
        ours = price_advantage_bps(side, average_price(bound, price), twap)
        assert price_advantage_bps(side, average_price(np.array(fills, float), price), twap) <= ours + 1e-9


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_without_a_cap_everything_goes_to_the_best_tick(side: float) -> None:
    price = np.array([[10.0, 9.0, 11.0, 5.0]])
    capacity = np.array([[np.inf, np.inf, np.inf, 0.0]])  # the last tick does not trade
    filled = cheapest_fills(np.array([side]), np.array([7.0]), price, capacity)
    assert filled.tolist() == ([[0.0, 7.0, 0.0, 0.0]] if side > 0 else [[0.0, 0.0, 7.0, 0.0]])


def test_unknown_prices_of_ticks_without_capacity_do_no_harm() -> None:
    filled = cheapest_fills(np.array([1.0]), np.array([2.0]), np.array([[np.nan, 3.0]]), np.array([[0.0, 5.0]]))
    assert filled.tolist() == [[0.0, 2.0]]
