"""Baselines, the clairvoyant bound and the backtest on the real simulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rlcore.contracts.reward import WeightedReward
from rlcore.environment.evaluation import evaluate
from rlcore.environment.parts import EnvironmentParts
from rlcore.execution import fills
from rlcore.execution.actions import TwapRelative
from rlcore.execution.backtest import BacktestResult, run_backtest, summary_frame
from rlcore.execution.baselines import BASELINE_NAMES, FollowPlan, build_baseline
from rlcore.execution.clairvoyant import cheapest_fills, clairvoyant_metrics, window_market
from rlcore.execution.comparison import compare, standard_questions
from rlcore.execution.metrics import average_price, price_advantage_bps
from rlcore.execution.observations import CurrentStepObservation
from rlcore.execution.orders import OrderSet
from rlcore.execution.rewards import PriceAdvantageReward
from rlcore.execution.schedule_profile import NUM_BINS, ScheduleRecorder
from rlcore.execution.simulator import FastSimulator
from rlcore.execution.volume_curve import NUM_CURVE_DAYS, VolumeCurve
from rlcore.foundation.errors import ConfigError
from rlcore.foundation.random_streams import RandomStreams
from rlcore.market.store import MarketStore
from rlcore.market.synthetic import SyntheticMarket, build_synthetic

STREAMS = RandomStreams(5)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> MarketStore:
    market = SyntheticMarket(3, 30, root_seed=2, calendar="10:00-11:00 UTC", mean_tick_volume=1000.0)
    return build_synthetic(market, tmp_path_factory.mktemp("market") / "store")


def some_orders(store: MarketStore, size: float = 50.0) -> OrderSet:
    """Windows that start and end anywhere, sizes that a cap can bind."""
    random = np.random.default_rng(4)
    count = 300
    start = random.integers(0, 40, count)
    return OrderSet(
        store,
        row=random.integers(0, store.num_rows, count),
        side=random.choice([-1.0, 1.0], count),
        quantity=size * np.exp(2.0 * random.standard_normal(count)),
        start_tick=start,
        end_tick=start + random.integers(1, 20, count),
    )


def environment(store: MarketStore, cap: float | None) -> EnvironmentParts:
    return EnvironmentParts(
        FastSimulator(store, 7, cap, "close"),
        CurrentStepObservation(),
        TwapRelative(2.0),
        WeightedReward({"price_advantage": (PriceAdvantageReward(), 1.0)}),
    )


def run(store: MarketStore, name: str, orders: OrderSet, cap: float | None = None, num_lanes: int = 64) -> pd.DataFrame:
    baseline = build_baseline(name, environment(store, cap), store)  # type: ignore[arg-type]
    return evaluate(baseline.parts, baseline.policy, orders, STREAMS, "backtest", num_lanes).to_frame()


def test_twap_meets_its_own_benchmark_exactly(store: MarketStore) -> None:
    table = run(store, "twap", some_orders(store))
    assert (table["fill_rate"] == 1.0).all()
    np.testing.assert_allclose(table["price_advantage_bps"], 0.0, atol=1e-8)
    np.testing.assert_allclose(table["slippage_twap_bps"], 0.0, atol=1e-8)


def test_immediate_trades_in_the_first_step_alone(store: MarketStore) -> None:
    orders = some_orders(store)
    table = run(store, "immediate", orders)
    assert (table["num_steps"] == 1).all()
    batch = orders.take(np.arange(len(orders)))
    for order in range(0, 300, 17):
        start = int(batch.start_tick[order])
        until = min((start // 7 + 1) * 7, int(batch.end_tick[order]))
        mean = store.array("close")[batch.row[order], start:until].mean()
        assert table["average_price"][order] == pytest.approx(mean)


def test_random_depends_on_the_order_and_not_on_its_neighbours(store: MarketStore) -> None:
    orders = some_orders(store)
    first, second = run(store, "random", orders), run(store, "random", orders, num_lanes=7)
    pd.testing.assert_frame_equal(first, second)
    assert first["price_advantage_bps"].std() > 0 and (first["fill_rate"] == 1.0).all()


def plain_curve(store: MarketStore, row: int) -> np.ndarray:
    shares, earlier = [], row
    while len(shares) < NUM_CURVE_DAYS and (earlier := int(store.previous_row[earlier])) >= 0:
        volume = store.array("tradable_volume")[earlier]
        shares.append(volume / volume.sum())
    return np.mean(shares, axis=0) if shares else np.full(store.num_ticks, 1 / store.num_ticks)


def test_volume_curve_is_the_mean_of_earlier_days(store: MarketStore) -> None:
    curve = VolumeCurve(store)
    for row in (0, 1, 5, 29, 30, 31, 89):
        expected = plain_curve(store, row)
        start, end = np.array([0, 3, 20]), np.array([60, 4, 41])
        own = curve.expected_share(np.full(3, row), start, end)
        np.testing.assert_allclose(own, [expected[a:b].sum() for a, b in zip(start, end, strict=True)], atol=1e-12)


def test_vwap_follows_the_curve_of_earlier_days(store: MarketStore) -> None:
    row = 25
    orders = OrderSet(
        store,
        row=np.array([row]),
        side=np.array([1.0]),
        quantity=np.array([100.0]),
        start_tick=np.array([10]),
        end_tick=np.array([50]),
    )
    baseline = build_baseline("vwap", environment(store, None), store)
    recorder = Steps()
    evaluate(baseline.parts, baseline.policy, orders, STREAMS, "backtest", 4, recorders=(recorder,))
    curve = plain_curve(store, row)[10:50]
    edges = np.array([0, 4, 11, 18, 25, 32, 39, 40])  # steps end at ticks 14, 21, …, 49, 50 of the day
    expected = np.add.reduceat(curve, edges[:-1]) / curve.sum() * 100.0
    np.testing.assert_allclose(recorder.quantities, expected, rtol=1e-9)


def test_vwap_on_the_first_day_is_twap(store: MarketStore) -> None:
    orders = some_orders(store)
    first_day = orders.subset(store.previous_row[orders.row] < 0)
    assert len(first_day) > 3
    np.testing.assert_allclose(run(store, "vwap", first_day)["price_advantage_bps"], 0.0, atol=1e-8)


class Steps:
    """Records what each step filled."""

    def __init__(self) -> None:
        self.quantities: list[float] = []

    def record(self, lanes: object, transition: object) -> None:
        self.quantities.append(float(transition.outcome.step_quantity[0]))  # type: ignore[attr-defined]


@pytest.mark.parametrize("cap", [None, 0.05])
def test_nobody_beats_the_clairvoyant_who_fills_as_much(store: MarketStore, cap: float | None) -> None:
    orders = some_orders(store)
    simulator = FastSimulator(store, 7, cap, "close")
    batch = orders.take(np.arange(len(orders)))
    price, volume = window_market(simulator, batch)
    capacity = fills.capacity(volume, cap)
    best = clairvoyant_metrics(simulator, batch)
    _, twap = price, best["window_twap"]
    for name in BASELINE_NAMES:
        table = run(store, name, orders, cap)
        bound = cheapest_fills(batch.side, table["filled_quantity"].to_numpy(), price, capacity)
        bound_bps = price_advantage_bps(batch.side, average_price(bound, price), twap)
        own = table["price_advantage_bps"].to_numpy()
        assert ((own <= bound_bps + 1e-6) | np.isnan(own)).all(), name
        assert (table["fill_rate"] <= best["fill_rate"] + 1e-9).all()
        is_whole = (table["fill_rate"] == 1.0).to_numpy()
        assert (own[is_whole] <= best["price_advantage_bps"][is_whole] + 1e-6).all()
    if cap is not None:
        assert (best["fill_rate"] < 1.0).any()  # some orders are too large for everybody
    else:
        # Without a cap everything goes to the best tick.
        extreme = [
            (store.array("close")[row, a:b].min() if side > 0 else store.array("close")[row, a:b].max())
            for row, a, b, side in zip(batch.row, batch.start_tick, batch.end_tick, batch.side, strict=True)
        ]
        np.testing.assert_allclose(best["average_price"], extreme, rtol=1e-12)


def test_unknown_baseline_is_named(store: MarketStore) -> None:
    with pytest.raises(ConfigError, match="did you mean 'twap'"):
        build_baseline("twpa", environment(store, None), store)  # type: ignore[arg-type]


def test_schedule_of_twap_is_a_straight_line(store: MarketStore) -> None:
    orders = some_orders(store)
    baseline = build_baseline("twap", environment(store, None), store)
    recorder = ScheduleRecorder(len(orders))
    evaluate(baseline.parts, baseline.policy, orders, STREAMS, "backtest", 64, recorders=(recorder,))
    np.testing.assert_allclose(recorder.mean_share(), 1.0 / NUM_BINS, rtol=1e-9)


def test_schedule_counts_what_stays_unfilled(store: MarketStore) -> None:
    orders = some_orders(store, size=5000.0)
    baseline = build_baseline("vwap", environment(store, 0.01), store)
    recorder = ScheduleRecorder(len(orders))
    table = evaluate(baseline.parts, baseline.policy, orders, STREAMS, "backtest", 64, recorders=(recorder,)).to_frame()
    assert recorder.mean_share().sum() == pytest.approx(table["fill_rate"].mean(), abs=1e-9)
    assert table["fill_rate"].mean() < 0.5


@pytest.fixture(scope="module")
def backtest(store: MarketStore) -> BacktestResult:
    """The agent stands in as two runs of rules on its own environment: twice TWAP's pace, and half of it."""
    parts = environment(store, 0.05)
    pace = build_baseline("twap", parts, store)
    agent_parts = EnvironmentParts(parts.simulator, pace.parts.state_interpreter, pace.parts.action_interpreter, parts.reward)
    names = (*BASELINE_NAMES, "clairvoyant")
    return run_backtest(agent_parts, {7: FollowPlan(), 8: FollowPlan()}, some_orders(store), names, num_lanes=64, root_seed=1)


def test_every_order_once_per_policy(backtest: BacktestResult) -> None:
    for _, rows in backtest.frame.groupby(["policy", "training_seed"], dropna=False):
        assert rows["seed_id"].tolist() == list(range(300))
    assert backtest.frame["policy"].unique().tolist() == ["agent", *BASELINE_NAMES, "clairvoyant"]
    assert backtest.frame.loc[backtest.frame.policy == "agent", "training_seed"].unique().tolist() == [7, 8]


def test_the_same_policy_compared_with_itself_wins_nothing(backtest: BacktestResult) -> None:
    answers = compare(backtest.frame, standard_questions(backtest.frame, "twap"), 0.95)
    assert [(a.baseline, a.side, a.weighting, a.training_seed) for a in answers] == [
        ("twap", "all", "equal", None),
        ("vwap", "all", "equal", None),
        ("immediate", "all", "equal", None),
        ("random", "all", "equal", None),
        ("twap", "buy", "equal", None),
        ("twap", "sell", "equal", None),
        ("twap", "all", "notional", None),
        ("twap", "all", "equal", 7),
        ("twap", "all", "equal", 8),
    ]
    assert answers[0].mean_gain_bps == 0.0 and answers[0].verdict == "not significant"
    assert all(answer.num_missing == 0 for answer in answers)  # shortfall has a value for every order


def test_summary_keeps_unfilled_orders_in_every_average(backtest: BacktestResult) -> None:
    summary = summary_frame(backtest.frame).set_index("policy")
    twap = backtest.frame[backtest.frame.policy == "twap"]
    row = summary.loc["twap"]
    assert row["num_orders"] == 300 and summary.loc["agent", "num_orders"] == 300
    assert row["fill_rate"] == pytest.approx(twap["fill_rate"].mean()) and row["fill_rate"] < 1.0
    assert row["shortfall_bps"] == pytest.approx(twap["shortfall_bps"].mean())
    weighted = np.average(twap["shortfall_bps"], weights=twap["quantity"] * twap["arrival_price"])
    assert row["shortfall_notional_weighted_bps"] == pytest.approx(weighted)
    assert row["num_not_filled_whole"] == (twap["fill_rate"] < 1.0).sum()
    by_side = summary_frame(backtest.frame, ["side"])
    assert len(by_side) == 12 and by_side.groupby("policy")["num_orders"].sum().eq(300).all()


def test_a_backtest_is_saved_and_loaded(backtest: BacktestResult, tmp_path: Path) -> None:
    backtest.save(tmp_path / "backtest")
    loaded = BacktestResult.load(tmp_path / "backtest")
    # Parquet reads a missing text back as None; both mean "nothing".
    own, read = (frame.astype(object).where(frame.notna(), "nothing") for frame in (backtest.frame, loaded.frame))
    pd.testing.assert_frame_equal(read, own, check_dtype=False)
    pd.testing.assert_frame_equal(loaded.schedule, backtest.schedule, check_dtype=False)
    assert loaded.facts == backtest.facts
    assert loaded.facts["num_days"] <= 30 and loaded.facts["num_orders"] == 300


def test_unknown_baseline_in_a_backtest(store: MarketStore) -> None:
    parts = environment(store, None)
    with pytest.raises(ConfigError, match="did you mean 'clairvoyant'"):
        run_backtest(parts, {}, some_orders(store), ("clairvoyan",), num_lanes=8, root_seed=1)
