"""V* and TWAP's value on the Markov-signal market: against an independent recursion, and against the real simulator."""

from __future__ import annotations

import itertools
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from rlcore.contracts.reward import WeightedReward
from rlcore.environment.evaluation import evaluate
from rlcore.environment.parts import EnvironmentParts
from rlcore.execution.actions import CategoricalFractions
from rlcore.execution.baselines import build_baseline
from rlcore.execution.dynamic_program import NoExactValueError, Window, solve_window, value_orders
from rlcore.execution.observations import CurrentStepObservation
from rlcore.execution.orders import OrderSet
from rlcore.execution.rewards import ShortfallReward
from rlcore.execution.signal_optimum import build_optimum
from rlcore.execution.simulator import FastSimulator
from rlcore.foundation.random_streams import RandomStreams
from rlcore.market.markov_signal import MarkovSignal
from rlcore.market.store import MarketStore
from rlcore.market.synthetic import SyntheticMarket, build_synthetic

FRACTIONS = (0.0, 0.25, 0.5, 1.0)
SIGNAL = MarkovSignal((-1.0, 0.0, 1.0), ((0.8, 0.15, 0.05), (0.2, 0.6, 0.2), (0.05, 0.15, 0.8)), drift_bps=6.0, signal_ticks=3)
TICKS_PER_STEP = 3


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> MarketStore:
    """10,000 instrument-days of 12 ticks: four steps a day."""
    market = SyntheticMarket(
        num_instruments=50,
        num_days=200,
        root_seed=11,
        calendar="10:00-10:12 UTC",
        daily_volatility_bps=8.0,
        mean_tick_volume=1e9,
        signal=SIGNAL,
    )
    return build_synthetic(market, tmp_path_factory.mktemp("market") / "store")


def all_orders(store: MarketStore, start: int = 0, end: int = 12, quantity: float = 1000.0) -> OrderSet:
    """A buy and a sell of every instrument-day."""
    row = np.repeat(np.arange(store.num_rows), 2)
    count = len(row)
    return OrderSet(
        store,
        row=row,
        side=np.tile([1.0, -1.0], store.num_rows),
        quantity=np.full(count, quantity),
        start_tick=np.full(count, start),
        end_tick=np.full(count, end),
    )


def environment(store: MarketStore, cap: float | None = 0.1) -> EnvironmentParts:
    return EnvironmentParts(
        FastSimulator(store, TICKS_PER_STEP, cap, "close"),
        CurrentStepObservation(("signal",)),
        CategoricalFractions(FRACTIONS),
        WeightedReward({"shortfall": (ShortfallReward(), 1.0)}),
    )


def slow_optimum(signal: MarkovSignal, start: int, end: int, ticks_per_step: int, side: float) -> float:
    """V* tick by tick: what each share filled in a tick gained is the drift since the window's start. Plain recursion."""
    size = len(signal.values)
    matrix, drift = np.array(signal.transition), signal.drift_of_state / signal.signal_ticks * 1e4

    def law_at(tick: int, now: int, known: int | None) -> np.ndarray:
        """Law of the state that moves ``tick``, for somebody who decides at ``now``."""
        if known is None:
            return signal.stationary
        one = np.zeros(size)
        one[known] = 1.0
        return one @ np.linalg.matrix_power(matrix, tick // signal.signal_ticks - now // signal.signal_ticks)

    @cache
    def value(now: int, remaining: float, known: int | None) -> float:
        if remaining <= 1e-12:
            return 0.0
        until = min((now // ticks_per_step + 1) * ticks_per_step, end)
        best = -np.inf
        for fraction in (remaining,) if until == end else FRACTIONS:
            trade = min(fraction, remaining)
            total, held = 0.0, remaining
            for tick in range(now, until):
                total += -side * held * float(law_at(tick, now, known) @ drift)
                held -= trade / (until - now)
            if until < end:
                after = round(remaining - trade, 12)
                # Before the first whole signal step has passed nothing is known; then the state of the coming tick is shown.
                if until < signal.signal_ticks:
                    total += value(until, after, None)
                else:
                    total += sum(p * value(until, after, z) for z, p in enumerate(law_at(until, now, known)))
            best = max(best, total)
        return best

    if start < signal.signal_ticks:
        return value(start, 1.0, None)
    return sum(p * value(start, 1.0, z) for z, p in enumerate(signal.stationary))


SKEWED = MarkovSignal((-2.0, 1.0), ((0.7, 0.3), (0.4, 0.6)), drift_bps=5.0, signal_ticks=4)


@pytest.mark.parametrize("signal", [SIGNAL, SKEWED])
@pytest.mark.parametrize(("start", "end"), [(0, 12), (1, 12), (4, 11), (7, 12), (5, 6)])
@pytest.mark.parametrize("ticks_per_step", [2, 3, 6])
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_optimum_agrees_with_a_plain_recursion(
    signal: MarkovSignal, start: int, end: int, ticks_per_step: int, side: float
) -> None:
    solved = solve_window(signal, Window(start, end, side), ticks_per_step, FRACTIONS)
    assert solved.optimal_bps == pytest.approx(slow_optimum(signal, start, end, ticks_per_step, side), abs=1e-10)


@pytest.mark.parametrize("signal", [SIGNAL, SKEWED])
def test_twap_by_enumeration_of_paths(signal: MarkovSignal) -> None:
    """E of the mean over ticks of the drift so far, path by path."""
    ticks, step = 12, signal.signal_ticks
    expected = 0.0
    for states in itertools.product(range(len(signal.values)), repeat=ticks // step):
        probability = signal.stationary[states[0]]
        for a, b in itertools.pairwise(states):
            probability *= signal.transition[a][b]
        drift = np.repeat([signal.drift_of_state[x] / step for x in states], step)
        expected += probability * np.cumsum(drift).mean() * 1e4
    for side in (1.0, -1.0):
        solved = solve_window(signal, Window(0, ticks, side), 3, FRACTIONS)
        assert solved.twap_bps == pytest.approx(-side * expected, abs=1e-10)
        assert solved.optimal_bps >= solved.twap_bps - 1e-12


def test_without_a_drift_there_is_nothing_to_win() -> None:
    quiet = MarkovSignal(SIGNAL.values, SIGNAL.transition, drift_bps=0.0, signal_ticks=3)
    solved = solve_window(quiet, Window(0, 12, 1.0), 3, FRACTIONS)
    assert solved.optimal_bps == solved.twap_bps == 0.0


def test_the_optimal_policy_earns_its_value_in_the_real_simulator(store: MarketStore) -> None:
    parts, orders = environment(store), all_orders(store)
    optimum, twap = build_optimum(parts, orders), build_baseline("twap", parts, store)
    values = {value.side: value for value in value_orders(parts.simulator, orders, FRACTIONS)}
    gains = {}
    for name, baseline in (("optimum", optimum), ("twap", twap)):
        frame = evaluate(baseline.parts, baseline.policy, orders, RandomStreams(1), "backtest", 4096).to_frame()
        assert (frame["fill_rate"] == 1.0).all()
        gains[name] = -frame["shortfall_bps"].to_numpy()
        # Reward without weights or penalty is the same money.
        np.testing.assert_allclose(frame["return"], gains[name], rtol=0, atol=1e-7)
    is_buy = frame["side"].to_numpy() == "buy"
    for side, own in (("buy", is_buy), ("sell", ~is_buy)):
        for name, expected in (("optimum", values[side].optimal_bps), ("twap", values[side].twap_bps)):
            error = gains[name][own].std() / own.sum() ** 0.5
            assert abs(gains[name][own].mean() - expected) < 4 * error, (side, name)
        paired = gains["optimum"][own] - gains["twap"][own]
        error = paired.std() / own.sum() ** 0.5
        assert values[side].gain_bps > 20 * error  # there is something to win, and the test would see it missing
        assert abs(paired.mean() - values[side].gain_bps) < 4 * error


def test_windows_inside_the_day(store: MarketStore) -> None:
    parts, orders = environment(store), all_orders(store, start=4, end=11)
    baseline = build_optimum(parts, orders)
    frame = evaluate(baseline.parts, baseline.policy, orders, RandomStreams(1), "backtest", 4096).to_frame()
    gains = -frame["shortfall_bps"].to_numpy()
    is_buy = frame["side"].to_numpy() == "buy"
    for value in value_orders(parts.simulator, orders, FRACTIONS):
        own = gains[is_buy if value.side == "buy" else ~is_buy]
        assert abs(own.mean() - value.optimal_bps) < 4 * own.std() / len(own) ** 0.5


def test_a_cap_that_could_bind_is_refused(store: MarketStore) -> None:
    least = store.array("tradable_volume").min()
    simulator = FastSimulator(store, TICKS_PER_STEP, 0.1, "close")
    value_orders(simulator, all_orders(store, quantity=least * 0.1 * TICKS_PER_STEP * 0.999), FRACTIONS)
    with pytest.raises(NoExactValueError, match=r"could bind for\s+order"):
        value_orders(simulator, all_orders(store, quantity=least * 0.1 * TICKS_PER_STEP * 1.001), FRACTIONS)


def test_what_has_no_known_optimum_is_refused(store: MarketStore, tmp_path: Path) -> None:
    with pytest.raises(NoExactValueError, match="price must be 'close'"):
        value_orders(FastSimulator(store, 3, 0.1, "vwap"), all_orders(store), FRACTIONS)
    plain = build_synthetic(SyntheticMarket(1, 3, 1, calendar="10:00-10:12 UTC"), tmp_path / "plain")
    with pytest.raises(NoExactValueError, match="must have a Markov signal"):
        value_orders(FastSimulator(plain, 3, 0.1, "close"), all_orders(plain), FRACTIONS)


def test_awkward_fractions_are_refused() -> None:
    with pytest.raises(NoExactValueError, match="multiples of one part"):
        solve_window(SIGNAL, Window(0, 120, 1.0), 3, tuple(np.sort(np.random.default_rng(1).random(12) * 0.01)))
