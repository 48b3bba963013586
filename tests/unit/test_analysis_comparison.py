"""Paired comparisons: what is counted, what is claimed, and what is not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from rlcore.execution.comparison import Question, compare, comparisons_frame
from rlcore.foundation.errors import ConfigError, ContractError


def backtest_frame(
    num_days: int = 12, num_instruments: int = 6, gain: float = 2.0, noise: float = 0.5, seeds: tuple[int, ...] = (0, 1)
) -> pd.DataFrame:
    """One buy and one sell per instrument-day; the agent saves ``gain`` bps over TWAP, more or less."""
    random = np.random.default_rng(3)
    day, instrument, side = (
        grid.ravel() for grid in np.meshgrid(np.arange(num_days), np.arange(num_instruments), ["buy", "sell"], indexing="ij")
    )
    orders = pd.DataFrame(
        {
            "seed_id": np.arange(len(day)),
            "date": np.datetime64("2024-01-01") + day,
            "instrument": [f"X.I{i}" for i in instrument],
            "side": side,
            "notional": 1.0 + instrument,
        }
    )
    twap = random.standard_normal(len(day)) * 30.0
    tables = [orders.assign(policy="twap", training_seed=pd.NA, shortfall_bps=twap, price_advantage_bps=0.0)]
    for seed in seeds:
        own = gain + random.standard_normal(len(day)) * noise
        tables.append(orders.assign(policy="agent", training_seed=seed, shortfall_bps=twap - own, price_advantage_bps=own))
    frame = pd.concat(tables, ignore_index=True)
    return frame.assign(training_seed=frame["training_seed"].astype("Int64"))


def test_pairing_removes_what_both_share() -> None:
    frame = backtest_frame(seeds=(0,))
    (answer,) = compare(frame, [Question("agent", "twap")], 0.95)
    agent, twap = frame[frame.policy == "agent"], frame[frame.policy == "twap"]
    gains = twap.shortfall_bps.to_numpy() - agent.shortfall_bps.to_numpy()
    assert answer.mean_gain_bps == pytest.approx(gains.mean())
    assert answer.median_gain_bps == pytest.approx(np.median(gains))
    assert answer.verdict == "better" and 1.8 < answer.low_bps < 2.0 < answer.high_bps < 2.2
    assert (answer.num_orders, answer.num_missing, answer.num_days, answer.num_instruments) == (144, 0, 12, 6)


def test_price_advantage_and_shortfall_have_opposite_signs_and_the_same_gain() -> None:
    questions = [Question("agent", "twap"), Question("agent", "twap", metric="price_advantage_bps")]
    shortfall, advantage = compare(backtest_frame(), questions, 0.95)
    assert shortfall.mean_gain_bps == pytest.approx(advantage.mean_gain_bps)


def test_seeds_are_averaged_order_by_order() -> None:
    answers = compare(backtest_frame(), [Question("agent", "twap", seed) for seed in (None, 0, 1)], 0.95)
    mean, first, second = (answer.mean_gain_bps for answer in answers)
    assert mean == pytest.approx((first + second) / 2)


def test_sides_and_weights() -> None:
    frame = backtest_frame(seeds=(0,))
    is_agent_buy = (frame.policy == "agent") & (frame.side == "buy")
    frame.loc[is_agent_buy, "shortfall_bps"] -= frame.loc[is_agent_buy, "notional"]
    buy, sell, large = compare(
        frame,
        [
            Question("agent", "twap", side="buy"),
            Question("agent", "twap", side="sell"),
            Question("agent", "twap", weighting="notional"),
        ],
        0.95,
    )
    assert buy.num_orders == sell.num_orders == 72
    assert buy.mean_gain_bps == pytest.approx(sell.mean_gain_bps + 3.5, abs=0.3)
    # Weights 1…6 of gains 2 + (weight or 0) / …: half the orders are buys, Σ w² / Σ w = 91 / 21.
    assert large.mean_gain_bps == pytest.approx(2.0 + 0.5 * 91 / 21, abs=0.3)


def test_more_comparisons_make_wider_intervals() -> None:
    frame = backtest_frame()
    (alone,) = compare(frame, [Question("agent", "twap")], 0.95)
    among = compare(frame, [Question("agent", "twap")] * 10, 0.95)
    wider = among[0].high_bps - among[0].low_bps
    assert wider > alone.high_bps - alone.low_bps
    (at_level,) = compare(frame, [Question("agent", "twap")], 0.995)  # 1 − 0.05 / 10
    assert wider == pytest.approx(at_level.high_bps - at_level.low_bps)
    assert among[0].num_comparisons == 10


def test_nothing_there_is_called_not_significant() -> None:
    (answer,) = compare(backtest_frame(gain=0.0, noise=5.0), [Question("agent", "twap")], 0.95)
    assert answer.verdict == "not significant" and answer.low_bps < 0.0 < answer.high_bps


def test_worse_is_called_worse() -> None:
    (answer,) = compare(backtest_frame(gain=-2.0), [Question("agent", "twap")], 0.95)
    assert answer.verdict == "worse"


@pytest.mark.parametrize(("num_days", "verdict"), [(9, "no claim"), (10, "better")])
def test_below_ten_days_nothing_is_claimed(num_days: int, verdict: str) -> None:
    (answer,) = compare(backtest_frame(num_days=num_days, gain=50.0), [Question("agent", "twap")], 0.95)
    assert answer.verdict == verdict
    assert np.isnan(answer.low_bps) == np.isnan(answer.high_bps) == (verdict == "no claim")
    assert np.isfinite(answer.mean_gain_bps)  # it still describes


def test_pairs_without_a_value_are_counted() -> None:
    frame = backtest_frame(seeds=(0, 1))
    unfilled = (frame.policy == "agent") & (frame.training_seed == 1) & (frame.seed_id < 5)
    frame.loc[unfilled, "price_advantage_bps"] = np.nan
    advantage, shortfall = compare(
        frame, [Question("agent", "twap", metric="price_advantage_bps"), Question("agent", "twap")], 0.95
    )
    assert (advantage.num_missing, advantage.num_orders) == (5, 144)
    assert shortfall.num_missing == 0
    assert np.isfinite(advantage.mean_gain_bps)


def test_the_same_fills_are_a_tie_and_not_rounding_noise() -> None:
    frame = backtest_frame(gain=0.0, noise=1e-13)
    (answer,) = compare(frame, [Question("agent", "twap")], 0.95)
    assert answer.verdict == "not significant" and answer.mean_gain_bps == 0.0 and answer.win_rate == 0.0


def test_policies_must_have_run_the_same_orders() -> None:
    frame = backtest_frame()
    short = frame[(frame.policy != "agent") | (frame.seed_id > 3)]
    with pytest.raises(ContractError, match="must have run the same orders"):
        compare(short, [Question("agent", "twap")], 0.95)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (Question("agnet", "twap"), "did you mean 'agent'"),
        (Question("agent", "twap", 7), "with training seed 7"),
        (Question("agent", "twap", metric="shortfal_bps"), "did you mean 'shortfall_bps'"),
    ],
)
def test_what_is_unknown_is_named(question: Question, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compare(backtest_frame(), [question], 0.95)


def test_frame_has_one_row_each() -> None:
    questions = [Question("agent", "twap"), Question("agent", "twap", 1)]
    table = comparisons_frame(compare(backtest_frame(), questions, 0.95))
    assert table["training_seed"].tolist() == [pd.NA, 1] and len(table) == 2
