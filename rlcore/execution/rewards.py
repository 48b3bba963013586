"""Reward terms of order execution. Each credits what was filled, not what was intended; weights live in ``WeightedReward``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.reward import LaneReward
from rlcore.contracts.status import LaneStatus
from rlcore.execution.metrics import BPS, ratio
from rlcore.execution.states import StepOutcome

Floats = NDArray[np.float64]

_BPS = np.array(BPS)  # an array, because NumPy takes half as long again to take in a number
_ROUNDING = 1e-12  # relative: a TWAP schedule meets its own benchmark only up to rounding


class PriceAdvantageReward(LaneReward[StepOutcome]):
    """Fill prices against the window's TWAP B, in basis points, each fill weighted by its share of the order.

    r = 1e4 · s · Σ_i (q_i / Q) · (B − p_i) / B. Over an episode the terms add up to fill rate × price advantage; a step that
    fills nothing earns 0.
    """

    def reward(self, outcome: StepOutcome, status: LaneStatus) -> Floats:
        order, twap = outcome.order, outcome.window_twap
        gain = twap * outcome.step_quantity - outcome.step_value
        reward: Floats = order.side * _BPS * gain / (order.quantity * twap)
        return reward


class ConcentrationPenalty(LaneReward[StepOutcome]):
    """Fills crowded into few ticks cost: r = −Σ_i (q_i / Q)² over the ticks of the step.

    The weight says what it is worth in the reward's unit: QlibRL's ``PAPenaltyReward`` (Fang et al. 2021) has 100 (bps).
    """

    def reward(self, outcome: StepOutcome, status: LaneStatus) -> Floats:
        concentration: Floats = np.einsum("lt,lt->l", outcome.filled, outcome.filled) / np.square(outcome.order.quantity)
        return -concentration


class ShortfallReward(LaneReward[StepOutcome]):
    """Minus implementation shortfall against the arrival price P_a, in basis points, as it comes about.

    r = −1e4 · s · Σ_i (q_i / Q) · (p_i − P_a) / P_a, and at the end of the episode besides −1e4 · s · (R / Q) · (P_e − P_a) / P_a
    for the R shares that stay unfilled, marked at the window's last price P_e. Over an episode they add up to −``shortfall_bps``.
    """

    def reward(self, outcome: StepOutcome, status: LaneStatus) -> Floats:
        order, arrival = outcome.order, outcome.arrival_price
        cost = outcome.step_value - arrival * outcome.step_quantity
        is_left = status.is_done & (outcome.remaining > 0.0)
        cost = cost + np.where(is_left, outcome.remaining * (outcome.end_price - arrival), 0.0)
        return -BPS * order.side * cost / (order.quantity * arrival)


class ThresholdedTerminalReward(LaneReward[StepOutcome]):
    """The sparse reward of Lin & Beling (2020), paid exactly once, in the step that ends the episode.

    With P̄ the average price of all fills and B the TWAP of the order's own window, g = P̄ / B for a sell and B / P̄ for a buy:
    −1 where g < 1, 0 where 1 ≤ g < 1.1, +1 where g ≥ 1.1. An order that filled nothing gets −1. g = 1 is met up to rounding.
    """

    def reward(self, outcome: StepOutcome, status: LaneStatus) -> Floats:
        average = ratio(outcome.filled_value, outcome.filled_quantity)
        is_buy = outcome.order.side > 0.0
        gain = np.where(is_buy, ratio(outcome.window_twap, average), ratio(average, outcome.window_twap)) * (1.0 + _ROUNDING)
        grade = np.where(gain >= 1.1, 1.0, np.where(gain >= 1.0, 0.0, -1.0))  # NaN, nothing filled, compares as False: −1
        return np.where(status.is_done, grade, 0.0)
