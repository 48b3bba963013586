"""What the report says in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flows.report.numbers import bps, interval, listed, percent, plain, things
from flows.report.verdict import summarise
from rlcore.execution.comparison import Comparison

MAIN = Comparison(
    policy="agent",
    baseline="twap",
    training_seed=None,
    side="all",
    weighting="equal",
    metric="shortfall_bps",
    num_orders=100,
    num_missing=0,
    num_days=12,
    num_instruments=5,
    mean_gain_bps=1.5,
    median_gain_bps=1.0,
    win_rate=0.6,
    gain_loss_ratio=1.2,
    low_bps=0.5,
    high_bps=2.5,
    confidence_level=0.95,
    num_comparisons=3,
    verdict="better",
)
ALIKE = {"agent": 1.0, "twap": 1.0}


def headline(comparison: Comparison, num_days: int = 12) -> str:
    return summarise([comparison], "twap", num_days, ALIKE).headline.replace("\N{NO-BREAK SPACE}", " ")


def test_headlines() -> None:
    assert headline(MAIN) == "The agent does better than TWAP: it saves 1.50 bps per order (95 % interval +0.50 to +2.50)."
    worse = replace(MAIN, mean_gain_bps=-1.5, low_bps=-2.5, high_bps=-0.5, verdict="worse")
    assert headline(worse) == "The agent does worse than TWAP: it loses 1.50 bps per order (95 % interval −2.50 to −0.50)."
    unclear = replace(MAIN, mean_gain_bps=0.1, low_bps=-1.0, high_bps=1.2, verdict="not significant")
    assert headline(unclear) == (
        "The difference between the agent and TWAP is not significant: +0.10 bps per order (95 % interval −1.00 to +1.20)."
    )


def test_too_few_days_claim_nothing() -> None:
    nan = float("nan")
    summary = summarise([replace(MAIN, low_bps=nan, high_bps=nan, verdict="no claim")], "twap", 3, ALIKE)
    assert summary.headline.startswith("No claim: the test has 3 days")
    said = " ".join([summary.headline, *summary.sentences])
    assert "significant" not in said and "better" not in said and "interval" not in said


def test_other_baselines_and_seeds_are_told() -> None:
    others = [
        replace(MAIN, baseline="vwap", verdict="not significant"),
        replace(MAIN, baseline="immediate"),
        replace(MAIN, baseline="random"),
    ]
    seeds = [
        replace(MAIN, training_seed=0, mean_gain_bps=2.0),
        replace(MAIN, training_seed=1, mean_gain_bps=-0.5, verdict="not significant"),
    ]
    sentences = summarise([MAIN, *others, *seeds], "twap", 12, ALIKE).sentences
    assert sentences[0] == (
        "Against the other baselines it does better than Immediate and Random; the difference from VWAP is not significant."
    )
    assert sentences[1] == (
        "Of 2 trainings with different seeds, judged one by one, 1 is better and 1 is not significant; "
        "they range from −0.50 to +2.00 bps."
    )
    unclear = [replace(one, verdict="not significant") for one in seeds]
    assert "judged one by one, none differs significantly" in summarise([MAIN, *unclear], "twap", 12, ALIKE).sentences[0]
    assert "one seed only" in summarise([MAIN], "twap", 12, ALIKE).sentences[0]


def test_unfilled_shares_are_told() -> None:
    sentences = summarise([MAIN], "twap", 12, {"agent": 0.75, "twap": 0.81}).sentences
    assert sentences[-1].startswith("The agent fills 75.0 % of an order and TWAP 81.0 %.")


@pytest.mark.parametrize(
    ("value", "text"),
    [(1.234, "+1.23"), (-0.5, "−0.50"), (0.0, "0.00"), (-0.001, "0.00"), (float("nan"), "–"), (1234.5, "+1,234.50")],
)
def test_basis_points(value: float, text: str) -> None:
    assert bps(value) == text


def test_small_words() -> None:
    assert (plain(-0.001), plain(-1.5), plain(float("inf"))) == ("0.00", "−1.50", "–")
    assert (things(1, "day"), things(1200, "order")) == ("1 day", "1,200 orders")
    assert percent(0.1234) == "12.3 %" and interval(float("nan"), 1.0) == "–"
    assert (listed(["a"]), listed(["a", "b", "c"])) == ("a", "a, b and c")
