"""Arithmetic of execution quality: free functions that reduce over the last (tick) axis and accept any leading shape.

Symbols: side s = +1 buy, −1 sell; ordered quantity Q; fills q_i at prices p_i; filled quantity Q_f = Σ q_i. Costs are positive
when the trader loses. Nothing filled gives NaN where an average price would be needed, never 0 or ±10,000 bps; an unknown
benchmark gives NaN too, so that bad data cannot look neutral.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

BPS = 1e4  # basis points in one
_ZERO = np.array(0.0)  # an array, because NumPy takes half as long again to take in a number


def traded_value(filled: ArrayLike, price: ArrayLike) -> NDArray[np.float64]:
    """Return Σ q_i p_i over the last axis; a price that nobody traded at may be NaN."""
    filled = np.asarray(filled, np.float64)
    value: NDArray[np.float64] = np.where(filled != 0.0, filled * np.asarray(price, np.float64), 0.0).sum(axis=-1)
    return value


def average_price(filled: ArrayLike, price: ArrayLike) -> NDArray[np.float64]:
    """Return P̄ = Σ q_i p_i / Q_f over the last axis, NaN where nothing was filled."""
    return ratio(traded_value(filled, price), np.asarray(filled, np.float64).sum(axis=-1))


def ratio(numerator: ArrayLike, denominator: ArrayLike) -> NDArray[np.float64]:
    """Return numerator / denominator, NaN where the denominator is zero or unknown."""
    # NaN in place of zero, so that the division needs no mask and gives no warning.
    divisor = np.array(denominator, np.float64)
    divisor[divisor == _ZERO] = np.nan
    quotient: NDArray[np.float64] = np.asarray(numerator, np.float64) / divisor
    return quotient


def slippage_bps(side: ArrayLike, price: ArrayLike, benchmark: ArrayLike) -> NDArray[np.float64]:
    """Return 1e4 · s · (P̄ − B) / B: what was lost against the benchmark price B (arrival, TWAP, VWAP, …)."""
    benchmark = np.asarray(benchmark, np.float64)
    return BPS * np.asarray(side) * ratio(np.asarray(price, np.float64) - benchmark, benchmark)


def price_advantage_bps(side: ArrayLike, price: ArrayLike, benchmark: ArrayLike) -> NDArray[np.float64]:
    """Return PA = −slippage: what was won against the benchmark price, by convention the window's TWAP."""
    return -slippage_bps(side, price, benchmark)


def fill_rate(filled_quantity: ArrayLike, quantity: ArrayLike) -> NDArray[np.float64]:
    """Return Q_f / Q."""
    return ratio(filled_quantity, quantity)


def participation(filled_quantity: ArrayLike, market_volume: ArrayLike) -> NDArray[np.float64]:
    """Return Q_f / Σ V over the working interval, NaN where the market did not trade."""
    return ratio(filled_quantity, market_volume)


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Perold's implementation shortfall in money, and the parts that add up to it exactly. All of one shape."""

    delay: NDArray[np.float64]  # s · Q · (P_a − P_d): the market moved before work began
    trading: NDArray[np.float64]  # s · Σ q_i (p_i − P_a): what the fills cost against arrival
    opportunity: NDArray[np.float64]  # s · (Q − Q_f) · (P_e − P_a): what was left undone, at the end price
    fees: NDArray[np.float64]

    @property
    def total(self) -> NDArray[np.float64]:
        """s · Σ q_i (p_i − P_d) + s · (Q − Q_f) · (P_e − P_d) + fees."""
        return self.delay + self.trading + self.opportunity + self.fees


def implementation_shortfall(
    side: ArrayLike,
    quantity: ArrayLike,
    filled: ArrayLike,
    price: ArrayLike,
    decision_price: ArrayLike,
    arrival_price: ArrayLike,
    end_price: ArrayLike,
    fees: ArrayLike = 0.0,
) -> Shortfall:
    """Return the shortfall of orders whose fills lie along the last axis of ``filled`` and ``price`` (Perold 1988).

    Args:
        side, quantity: of the order, shape (…).
        filled, price: shares and price per tick, shape (…, ticks).
        decision_price: P_d, when the order was decided; equal to ``arrival_price`` where nothing lies between.
        arrival_price: P_a, when work on it could begin.
        end_price: P_e, at which shares left undone are marked.
        fees: money paid, shape (…).
    """
    side, quantity = np.asarray(side, np.float64), np.asarray(quantity, np.float64)
    decision_price, arrival_price = np.asarray(decision_price, np.float64), np.asarray(arrival_price, np.float64)
    filled_quantity = np.asarray(filled, np.float64).sum(axis=-1)
    opportunity = opportunity_cost(side, quantity - filled_quantity, arrival_price, end_price)
    trading = trading_cost(side, filled_quantity, traded_value(filled, price), arrival_price)
    delay = side * quantity * (arrival_price - decision_price)
    return Shortfall(delay, trading, opportunity, np.broadcast_to(np.asarray(fees, np.float64), trading.shape))


def trading_cost(
    side: ArrayLike, filled_quantity: ArrayLike, filled_value: ArrayLike, arrival_price: ArrayLike
) -> NDArray[np.float64]:
    """Return s · (Σ q_i p_i − Q_f · P_a): what the fills cost against arrival, in money."""
    filled_quantity, arrival_price = np.asarray(filled_quantity, np.float64), np.asarray(arrival_price, np.float64)
    cost: NDArray[np.float64] = np.asarray(filled_value, np.float64) - filled_quantity * arrival_price
    return np.asarray(side, np.float64) * cost


def opportunity_cost(side: ArrayLike, left: ArrayLike, arrival_price: ArrayLike, end_price: ArrayLike) -> NDArray[np.float64]:
    """Return s · R · (P_e − P_a), in money, for the R shares left undone; 0 where R is 0, whatever is (un)known about P_e."""
    left = np.asarray(left, np.float64)
    change = np.asarray(end_price, np.float64) - np.asarray(arrival_price, np.float64)
    cost = np.asarray(side, np.float64) * left * change
    return np.where(left == _ZERO, _ZERO, cost)


def shortfall_in_bps(money: ArrayLike, quantity: ArrayLike, decision_price: ArrayLike) -> NDArray[np.float64]:
    """Return money as bps of the paper portfolio's value: 1e4 · money / (Q · P_d)."""
    return BPS * ratio(money, np.asarray(quantity, np.float64) * np.asarray(decision_price, np.float64))


def win_rate(gains: ArrayLike) -> NDArray[np.float64]:
    """Return the share of finite entries along the last axis that lie above zero, NaN where there is none."""
    gains = np.asarray(gains, np.float64)
    return ratio((gains > 0.0).sum(axis=-1), np.isfinite(gains).sum(axis=-1))


def gain_loss_ratio(gains: ArrayLike) -> NDArray[np.float64]:
    """Return GLR = E[x | x > 0] / |E[x | x < 0]| along the last axis; NaN, not infinity, where nobody lost (or nobody won)."""
    gains = np.asarray(gains, np.float64)
    won, lost = gains > 0.0, gains < 0.0
    mean_won = ratio(np.where(won, gains, 0.0).sum(axis=-1), won.sum(axis=-1))
    mean_lost = ratio(np.where(lost, -gains, 0.0).sum(axis=-1), lost.sum(axis=-1))
    return ratio(mean_won, mean_lost)
