"""The balance that the execution simulator is held to finds what it is for: shares, the cap, and money."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rlcore.contracts.reward import WeightedReward
from rlcore.environment.conformance import LawError, check_conservation
from rlcore.environment.parts import EnvironmentParts
from rlcore.execution.actions import CategoricalFractions
from rlcore.execution.future_change import shares_balance
from rlcore.execution.observations import CurrentStepObservation
from rlcore.execution.rewards import PriceAdvantageReward
from rlcore.execution.simulator import FastSimulator
from tests.execution_market import random_bars, random_orders, store_of

CAP = 0.05


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    bars = random_bars(seed=1, missing_fraction=0.2, zero_volume_fraction=0.2, extra=("bid", "ask"))
    return store_of(bars, tmp_path_factory.mktemp("thin"))


class LosesShares(FastSimulator):
    """Planted: a thousandth of what remains goes missing in every step."""

    def step(self, state, command):
        stepped = super().step(state, command)
        remaining = stepped.state.remaining * 0.999
        return replace(
            stepped,
            state=replace(stepped.state, remaining=remaining),
            outcome=replace(stepped.outcome, remaining=remaining),
        )


class Greedy(FastSimulator):
    """Planted: takes three times what the cap allows."""

    def _fill(self, command, remaining, num_ticks, volume, is_last):
        return super()._fill(command, remaining, num_ticks, volume * 3.0, is_last)


class PaysOtherPrices(FastSimulator):
    """Planted: a tenth of a basis point of every step's money comes from nowhere."""

    def step(self, state, command):
        stepped = super().step(state, command)
        value = stepped.outcome.step_value * (1 + 1e-5)
        total = state.filled_value + value
        return replace(
            stepped,
            state=replace(stepped.state, filled_value=total),
            outcome=replace(stepped.outcome, step_value=value, filled_value=total),
        )


class ForgetsMoney(FastSimulator):
    """Planted: the state's money is the last step's alone."""

    def step(self, state, command):
        stepped = super().step(state, command)
        return replace(stepped, state=replace(stepped.state, filled_value=stepped.outcome.step_value))


def check(simulator, orders):
    reward = WeightedReward({"pa": (PriceAdvantageReward(), 1.0)})
    parts = EnvironmentParts(simulator, CurrentStepObservation(), CategoricalFractions((0.0, 0.25, 0.5)), reward)
    return check_conservation(parts, orders, shares_balance(simulator))


@pytest.mark.parametrize("cap", [CAP, None])
@pytest.mark.parametrize("price", ["close", "bid_or_ask"])
def test_the_books_balance(store, cap, price):
    assert check(FastSimulator(store, 4, cap, price), random_orders(store, 60)).verdict == "holds"


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        (LosesShares, "filled . remaining - ordered"),
        (Greedy, "participation above the cap"),
        (PaysOtherPrices, "money of the step - money of its fills"),
        (ForgetsMoney, "money counted in the state - money of all steps"),
    ],
)
def test_a_planted_fault_is_found(store, planted, found):
    with pytest.raises(LawError, match=found):
        check(planted(store, 4, CAP, "close"), random_orders(store, 60))


def test_no_tick_takes_more_than_the_cap_in_the_last_bit(store):
    simulator = FastSimulator(store, 4, CAP, "close")
    orders = random_orders(store, 60)
    state = simulator.start(orders.take(np.arange(len(orders))))
    outcome = simulator.step(state, orders.quantity).outcome
    assert (outcome.filled <= CAP * outcome.volume).all() and (outcome.filled == CAP * outcome.volume).any()
