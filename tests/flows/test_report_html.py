"""The report as a file: self-contained, complete, and silent where it has nothing to say."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from flows.report import Report, write_report
from rlcore.contracts.reward import WeightedReward
from rlcore.environment.parts import EnvironmentParts
from rlcore.execution.actions import CategoricalFractions, DirectQuantity
from rlcore.execution.backtest import BacktestResult, run_backtest, summary_frame
from rlcore.execution.baselines import EvenPace, FollowPlan
from rlcore.execution.dynamic_program import value_orders
from rlcore.execution.observations import CurrentStepObservation
from rlcore.execution.rewards import ShortfallReward
from rlcore.execution.sampling import SamplingPlan, sample_orders
from rlcore.execution.signal_optimum import build_optimum
from rlcore.execution.simulator import FastSimulator
from rlcore.market.markov_signal import MarkovSignal
from rlcore.market.synthetic import SyntheticMarket, build_synthetic

BASELINES = ("twap", "vwap", "immediate", "random", "clairvoyant")
FRACTIONS = (0.0, 0.5, 1.0)
SIGNAL = MarkovSignal((-1.0, 1.0), ((0.8, 0.2), (0.2, 0.8)), drift_bps=10.0, signal_ticks=30)


def backtest(folder: Path, num_days: int, cap: float | None = 0.1, size: float = 0.3) -> BacktestResult:
    """The agent is the even pace under another name, trained "twice"."""
    store = build_synthetic(SyntheticMarket(5, num_days, root_seed=1, calendar="10:00-12:00 UTC"), folder / "store")
    orders = sample_orders(store, SamplingPlan(120, (0.01, size)), 2)
    parts = EnvironmentParts(
        FastSimulator(store, 30, cap, "close"),
        EvenPace(),
        DirectQuantity(),
        WeightedReward({"shortfall": (ShortfallReward(), 1.0)}),
    )
    return run_backtest(parts, {0: FollowPlan(), 1: FollowPlan()}, orders, BASELINES, num_lanes=64, root_seed=0)


def report_of(result: BacktestResult, folder: Path, title: str = "some experiment") -> Report:
    return write_report(
        result, folder / "report", title=title, reference="twap", confidence_level=0.95, provenance={"Run": "run-17"}
    )


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> BacktestResult:
    return backtest(tmp_path_factory.mktemp("market"), num_days=14)


def test_the_file_stands_alone(result: BacktestResult, tmp_path: Path) -> None:
    html = report_of(result, tmp_path).path.read_text(encoding="utf-8")
    assert "<script" not in html and "<link" not in html and "<img" not in html
    assert not re.findall(r"""(?:src|href)=["'](?!#)""", html)
    assert not re.findall(r"url\((?!#)", html)
    assert html.count("<svg") == 4


class Tags(HTMLParser):
    """Checks that every tag that is opened is closed."""

    VOID = frozenset({"meta", "br", "hr", "path", "use", "image", "line", "rect", "circle"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_html_is_well_formed(result: BacktestResult, tmp_path: Path) -> None:
    tags = Tags()
    tags.feed(report_of(result, tmp_path).path.read_text(encoding="utf-8"))
    assert tags.open == []


def test_the_verdict_comes_first_and_everything_is_there(result: BacktestResult, tmp_path: Path) -> None:
    report = report_of(result, tmp_path)
    html = report.path.read_text(encoding="utf-8")
    assert report.summary.verdict == "not significant"  # the same policy under two names
    assert html.index(report.summary.headline) < html.index("<table>")
    for name in ("Agent", "TWAP", "VWAP", "Immediate", "Random", "Clairvoyant"):
        assert f'<td class="name">{name}</td>' in html
    for fact in ("orders_fingerprint", "store_fingerprint"):
        assert result.facts[fact] in html
    assert "run-17" in html and "14 test days" in html


def test_tables_lie_beside_it(result: BacktestResult, tmp_path: Path) -> None:
    report = report_of(result, tmp_path)
    folder = report.path.parent
    summary = pd.read_parquet(folder / "summary.parquet")
    pd.testing.assert_frame_equal(summary, summary_frame(result.frame), check_dtype=False)
    assert len(pd.read_parquet(folder / "orders.parquet")) == 120 * (2 + len(BASELINES))
    assert len(pd.read_parquet(folder / "comparisons.parquet")) == len(report.comparisons) == 9
    assert set(pd.read_parquet(folder / "summary_by_side.parquet")["side"]) == {"buy", "sell"}
    assert {"window_fraction", "cumulative_share"} <= set(pd.read_parquet(folder / "schedule.parquet").columns)


def test_the_same_backtest_gives_the_same_bytes(result: BacktestResult, tmp_path: Path) -> None:
    first = report_of(result, tmp_path / "a").path.read_bytes()
    assert first == report_of(result, tmp_path / "b").path.read_bytes()


def test_too_few_days_make_no_claim(tmp_path: Path) -> None:
    report = report_of(backtest(tmp_path, num_days=4), tmp_path)
    html = report.path.read_text(encoding="utf-8")
    assert {one.verdict for one in report.comparisons} == {"no claim"}
    assert "No claim: the test has 4 days" in html
    for flag in ("not significant</td>", ">better</td>", ">worse</td>", "intervals hold together"):
        assert flag not in html


def test_one_training_and_unfilled_orders(tmp_path: Path) -> None:
    store = build_synthetic(SyntheticMarket(2, 12, root_seed=1, calendar="10:00-12:00 UTC"), tmp_path / "store")
    orders = sample_orders(store, SamplingPlan(60, (0.5, 0.9)), 2)
    parts = EnvironmentParts(
        FastSimulator(store, 30, 0.02, "close"), EvenPace(), DirectQuantity(), WeightedReward({"s": (ShortfallReward(), 1.0)})
    )
    result = run_backtest(parts, {3: FollowPlan()}, orders, ("twap",), num_lanes=64, root_seed=0)
    html = report_of(result, tmp_path).path.read_text(encoding="utf-8")
    assert "One training only" in html
    assert (result.frame["fill_rate"] < 0.1).all() and ">60</td>" in html  # every order is counted as not filled whole


def test_orders_without_any_fill_have_no_price_advantage_and_still_count(result: BacktestResult, tmp_path: Path) -> None:
    frame = result.frame.copy()
    is_dead = (frame["policy"] == "random") & (frame["seed_id"] < 7)
    frame.loc[is_dead, "fill_rate"] = 0.0
    columns = ["price_advantage_bps", "slippage_arrival_bps", "slippage_twap_bps", "slippage_vwap_bps", "average_price"]
    frame.loc[is_dead, columns] = float("nan")
    report = report_of(BacktestResult(frame, result.schedule, result.facts), tmp_path)
    summary = pd.read_parquet(report.path.parent / "summary.parquet").set_index("policy")
    assert summary.loc["random", "num_without_fill"] == 7 and summary.loc["random", "num_orders"] == 120
    assert "nan" not in re.findall(r">([^<]*)<", report.path.read_text(encoding="utf-8").lower())


def test_titles_are_escaped(result: BacktestResult, tmp_path: Path) -> None:
    html = report_of(result, tmp_path, title="<b>bold</b>").path.read_text(encoding="utf-8")
    assert "<b>bold</b>" not in html and "&lt;b&gt;bold&lt;/b&gt;" in html


def test_what_can_be_won_is_told_where_it_is_known(tmp_path: Path) -> None:
    market = SyntheticMarket(5, 12, root_seed=1, calendar="10:00-12:00 UTC", signal=SIGNAL)
    store = build_synthetic(market, tmp_path / "store")
    orders = sample_orders(store, SamplingPlan(120, (0.001, 0.002)), 2)
    parts = EnvironmentParts(
        FastSimulator(store, 30, None, "close"),
        CurrentStepObservation(("signal",)),
        CategoricalFractions(FRACTIONS),
        WeightedReward({"shortfall": (ShortfallReward(), 1.0)}),
    )
    best = build_optimum(parts, orders)
    values = value_orders(parts.simulator, orders, FRACTIONS)  # type: ignore[arg-type]  # a FastSimulator
    agent_parts = EnvironmentParts(parts.simulator, best.parts.state_interpreter, parts.action_interpreter, parts.reward)
    result = run_backtest(agent_parts, {0: best.policy}, orders, ("twap",), num_lanes=64, root_seed=0, bounds={"optimum": best})
    report = write_report(
        result,
        tmp_path / "report",
        title="signal",
        reference="twap",
        confidence_level=0.95,
        provenance={},
        possible=values,
    )
    html = report.path.read_text(encoding="utf-8")
    assert "How much could be won?" in html and "best possible (V*)" in html
    assert f"+{values[0].optimal_bps:.2f}" in html
