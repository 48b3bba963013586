"""The tables of the report: figures → text, column by column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from flows.report.numbers import bps, count, interval, percent, plain
from flows.report.verdict import WORDS, is_overall, name_of
from rlcore.execution.backtest import summary_frame
from rlcore.execution.comparison import AGENT, BOUNDS, SIDES, Comparison
from rlcore.execution.dynamic_program import OrdersValue


@dataclass(frozen=True, slots=True)
class Row:
    """One row of text cells; ``kind`` is a CSS class ("agent", "bound", "better", …)."""

    cells: list[str]
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table; the first ``num_labels`` columns are names, the others figures."""

    header: list[str]
    rows: list[Row]
    num_labels: int = 1


_QUALITY: list[tuple[str, Callable[[Any], str]]] = [
    ("Shortfall, bps", lambda row: plain(row["shortfall_bps"])),
    ("Shortfall, by notional", lambda row: plain(row["shortfall_notional_weighted_bps"])),
    ("Price advantage, bps", lambda row: bps(row["price_advantage_bps"])),
    ("Slippage vs arrival", lambda row: plain(row["slippage_arrival_bps"])),
    ("… vs TWAP", lambda row: plain(row["slippage_twap_bps"])),
    ("… vs VWAP", lambda row: plain(row["slippage_vwap_bps"])),
    ("Fill rate", lambda row: percent(row["fill_rate"], 2)),
    ("Participation", lambda row: percent(row["participation"], 2)),
    ("Orders not filled whole", lambda row: count(row["num_not_filled_whole"])),
    ("Orders without any fill", lambda row: count(row["num_without_fill"])),
]


def quality(frame: pd.DataFrame) -> Table:
    """Return every policy's execution quality over all orders."""
    rows = [
        Row([name_of(row["policy"]), *(show(row) for _, show in _QUALITY)], _kind(row["policy"]))
        for row in _records(summary_frame(frame))
    ]
    return Table(["Policy", *(title for title, _ in _QUALITY)], rows)


def quality_by_side(frame: pd.DataFrame) -> Table:
    """Return every policy's execution quality for buys and for sells."""
    summary = summary_frame(frame, ["side"])
    rows = []
    for side in SIDES:
        for row in _records(summary[summary["side"] == side]):
            figures = [
                plain(row["shortfall_bps"]),
                bps(row["price_advantage_bps"]),
                percent(row["fill_rate"], 2),
                percent(row["participation"], 2),
            ]
            rows.append(Row([side, name_of(row["policy"]), count(row["num_orders"]), *figures], _kind(row["policy"])))
    header = ["Side", "Policy", "Orders", "Shortfall, bps", "Price advantage, bps", "Fill rate", "Participation"]
    return Table(header, rows, num_labels=2)


def differences(comparisons: Sequence[Comparison]) -> Table:
    """Return the paired differences; their order is that of the comparisons."""
    rows = [
        Row(
            [
                label(one),
                f"{one.num_orders - one.num_missing:,}",
                bps(one.mean_gain_bps),
                interval(one.low_bps, one.high_bps),
                bps(one.median_gain_bps),
                percent(one.win_rate),
                plain(one.gain_loss_ratio),
                WORDS[one.verdict],
            ],
            one.verdict.replace(" ", "-"),
        )
        for one in comparisons
    ]
    header = ["Agent against", "Pairs", "Mean gain, bps", "Interval, bps", "Median", "Orders won", "Gain/loss ratio", "Finding"]
    return Table(header, rows)


def label(comparison: Comparison) -> str:
    """Return what a comparison is called in tables and pictures."""
    rival = name_of(comparison.baseline)
    if comparison.training_seed is not None:
        return f"{rival}, training seed {comparison.training_seed}"
    if comparison.side != "all":
        return f"{rival}, {comparison.side}s only"
    return rival if is_overall(comparison) else f"{rival}, by notional"


def trainings(frame: pd.DataFrame, comparisons: Sequence[Comparison], reference: str) -> Table:
    """Return the agent seed by seed, and the spread."""
    summary = summary_frame(frame[frame["policy"] == AGENT], ["training_seed"]).sort_values("training_seed")
    of_seed = {one.training_seed: one for one in comparisons if one.training_seed is not None}
    if not of_seed:  # one training: the overall comparison is its own
        of_seed = dict.fromkeys(summary["training_seed"], next(one for one in comparisons if is_overall(one)))
    rows = []
    for row in _records(summary):
        one = of_seed[row["training_seed"]]
        figures = [
            plain(row["shortfall_bps"]),
            bps(row["price_advantage_bps"]),
            percent(row["fill_rate"], 2),
            bps(one.mean_gain_bps),
        ]
        rows.append(Row([str(row["training_seed"]), *figures, WORDS[one.verdict]], one.verdict.replace(" ", "-")))
    if len(rows) > 1:
        gains = pd.Series([of_seed[seed].mean_gain_bps for seed in summary["training_seed"]])
        means = [plain(summary["shortfall_bps"].mean()), bps(summary["price_advantage_bps"].mean())]
        spreads = [plain(summary["shortfall_bps"].std()), plain(summary["price_advantage_bps"].std())]
        rows.append(Row(["mean", *means, percent(summary["fill_rate"].mean(), 2), bps(gains.mean()), ""], "total"))
        rows.append(
            Row(["standard deviation", *spreads, percent(summary["fill_rate"].std(), 2), plain(gains.std()), ""], "total")
        )
    header = [
        "Training seed",
        "Shortfall, bps",
        "Price advantage, bps",
        "Fill rate",
        f"Gain over {name_of(reference)}, bps",
        "Finding",
    ]
    return Table(header, rows)


def possible_gain(values: Sequence[OrdersValue], frame: pd.DataFrame, gains: pd.Series[float]) -> Table:
    """Return what backward induction says can be won over TWAP, and what the agent won, per side."""
    side = frame.drop_duplicates("seed_id").set_index("seed_id")["side"]
    rows = []
    for one in values:
        won = float(gains[side.loc[gains.index] == one.side].mean())
        figures = [bps(one.twap_bps), bps(one.optimal_bps), bps(one.gain_bps), bps(won), percent(share(won, one.gain_bps))]
        rows.append(Row([one.side, count(one.num_orders), *figures]))
    best, won = best_gain(values), float(gains.mean())
    rows.append(
        Row(
            ["all", count(sum(one.num_orders for one in values)), "", "", bps(best), bps(won), percent(share(won, best))], "total"
        )
    )
    header = [
        "Side",
        "Orders",
        "TWAP, expected",
        "Best policy, expected (V*)",
        "V* over TWAP",
        "Agent over TWAP",
        "Part of V* won",
    ]
    return Table(header, rows)


def best_gain(values: Sequence[OrdersValue]) -> float:
    """Return V* over TWAP in bps, over the orders of both sides."""
    return sum(one.num_orders * one.gain_bps for one in values) / sum(one.num_orders for one in values)


def share(won: float, possible: float) -> float:
    return won / possible if possible > 0.0 else float("nan")


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in record.items()} for record in frame.to_dict("records")]


def _kind(policy: str) -> str:
    return "agent" if policy == AGENT else "bound" if policy in BOUNDS else ""
