"""The pictures of the report as SVG text, drawn without global state."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from flows.report.verdict import name_of
from rlcore.execution.comparison import AGENT, BOUNDS, Comparison, paired_gains

# Okabe & Ito's palette, told apart by colour-blind readers too.
COLOURS = {
    "agent": "#0072B2",
    "twap": "#222222",
    "vwap": "#E69F00",
    "immediate": "#D55E00",
    "random": "#999999",
    "clairvoyant": "#CC79A7",
    "optimum": "#009E73",
}
_STYLE: Any = {  # the stub wants a union of all names of parameters
    "font.family": "sans-serif",
    "font.size": 10,
    "svg.fonttype": "none",
    "svg.hashsalt": "fillwright",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888888",
    "axes.labelcolor": "#333333",
    "xtick.color": "#333333",
    "ytick.color": "#333333",
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "axes.axisbelow": True,
    "legend.frameon": False,
}
_VERDICT_COLOURS = {"better": "#0072B2", "worse": "#D55E00", "not significant": "#777777", "no claim": "#777777"}


def forest(comparisons: Sequence[Comparison], labels: Sequence[str], best_gain_bps: float | None) -> str:
    """Draw every comparison's mean gain with its interval; ``best_gain_bps``: what a perfect agent would gain."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(9.2, 0.7 + 0.32 * len(comparisons)), layout="constrained")
        axes = figure.subplots()
        for place, one in enumerate(comparisons):
            colour = _VERDICT_COLOURS[one.verdict]
            if np.isfinite(one.low_bps):
                axes.plot([one.low_bps, one.high_bps], [place, place], color=colour, linewidth=2.2, solid_capstyle="butt")
            axes.plot(one.mean_gain_bps, place, "o", color=colour, markersize=6)
        axes.axvline(0.0, color="#333333", linewidth=1.0)
        if best_gain_bps is not None:
            axes.axvline(best_gain_bps, color=COLOURS["optimum"], linewidth=1.2, linestyle="--")
            axes.annotate("best possible (V*) ", (best_gain_bps, -0.6), color=COLOURS["optimum"], fontsize=9, ha="right")
        axes.set_yticks(range(len(comparisons)), [f"vs {label}" for label in labels])
        axes.set_ylim(len(comparisons) - 0.4, -0.9)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("← agent worse\u2003|\u2003mean gain per order, bps\u2003|\u2003agent better →")
        return _svg(figure)


def schedule(profile: pd.DataFrame) -> str:
    """Draw how much of an order is filled by when; thin lines: the agent's single trainings."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(9.2, 3.9), layout="constrained")
        axes = figure.subplots()
        for policy in dict.fromkeys(profile["policy"]):
            rows = profile[profile["policy"] == policy]
            if policy == AGENT:
                for _, one in rows.groupby("training_seed", dropna=False):
                    _curve(
                        axes,
                        one.set_index("window_fraction")["cumulative_share"],
                        color=COLOURS[AGENT],
                        linewidth=0.8,
                        alpha=0.35,
                    )
            mean = rows.groupby("window_fraction")["cumulative_share"].mean()
            style = {"linestyle": "--"} if policy == "twap" else {}
            width = 2.6 if policy == AGENT else 1.5
            _curve(axes, mean, color=_colour(policy), linewidth=width, label=name_of(policy), **style)
        axes.set_xlabel("part of the order's window that has passed")
        axes.set_ylabel("part of the order filled (mean)")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
        axes.set_xlim(0.0, 1.0)
        axes.set_ylim(0.0, 1.03)
        axes.legend(loc="lower right", ncols=2)
        return _svg(figure)


def distributions(frame: pd.DataFrame, reference: str) -> str:
    """Draw the agent's gain over the reference order by order, and each policy's shortfall."""
    gains = paired_gains(frame, AGENT, reference).dropna().to_numpy()
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(9.2, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        low, high = np.percentile(gains, [1.0, 99.0]) if len(gains) else (-1.0, 1.0)
        if high - low < 1e-6:
            low, high = low - 1.0, high + 1.0
        left.hist(np.clip(gains, low, high), bins=41, range=(low, high), color=COLOURS[AGENT], alpha=0.75)
        left.axvline(0.0, color="#333333", linewidth=1.0)
        left.axvline(gains.mean(), color="#D55E00", linewidth=1.6, label=f"mean {gains.mean():+.2f}".replace("-", "−"))
        left.set_title(f"Gain over {name_of(reference)}, order by order", fontsize=10)
        left.set_xlabel("bps (outermost bars hold the 1 % beyond them)")
        left.set_ylabel("orders")
        left.legend(loc="upper left")
        _boxes(right, frame)
        return _svg(figure)


def days(frame: pd.DataFrame, reference: str) -> str:
    """Draw the mean gain over the reference of each test day."""
    orders = frame[frame["policy"] == reference].set_index("seed_id").sort_index()
    by_day = paired_gains(frame, AGENT, reference).groupby(orders["date"].astype(str)).mean()
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(9.2, 2.7), layout="constrained")
        axes = figure.subplots()
        places = np.arange(len(by_day))
        axes.bar(places, by_day, color=np.where(by_day >= 0, COLOURS[AGENT], COLOURS["immediate"]), width=0.75)
        axes.axhline(0.0, color="#333333", linewidth=1.0)
        shown = places[:: max(1, -(-len(places) // 12))]
        axes.set_xticks(shown, [by_day.index[place] for place in shown], rotation=30, ha="right")
        axes.set_ylabel("mean gain, bps")
        axes.grid(axis="x", visible=False)
        return _svg(figure)


def _curve(axes: Axes, cumulative: pd.Series[float], **style: object) -> None:
    axes.plot(np.r_[0.0, cumulative.index], np.r_[0.0, cumulative], **style)  # type: ignore[arg-type]  # matplotlib's keywords


def _boxes(axes: Axes, frame: pd.DataFrame) -> None:
    policies = list(dict.fromkeys(frame["policy"]))
    for place, policy in enumerate(policies):
        values = frame.loc[frame["policy"] == policy, "shortfall_bps"].dropna()
        lowest, lower, middle, upper, highest = np.percentile(values, [5, 25, 50, 75, 95])
        colour = _colour(policy)
        axes.plot([lowest, highest], [place, place], color=colour, linewidth=1.2)
        axes.barh(place, upper - lower, left=lower, height=0.5, color=colour, alpha=0.35)
        axes.plot([middle, middle], [place - 0.25, place + 0.25], color=colour, linewidth=2.0)
        axes.plot(values.mean(), place, "o", color=colour, markersize=5)
    axes.set_yticks(range(len(policies)), [name_of(policy) for policy in policies])
    axes.invert_yaxis()
    axes.axvline(0.0, color="#333333", linewidth=1.0)
    axes.grid(axis="y", visible=False)
    axes.set_title("Shortfall of single orders (lower is better)", fontsize=10)
    axes.set_xlabel("bps; box: middle half, line: 5-95 %, dot: mean")


def _colour(policy: str) -> str:
    return COLOURS.get(policy, COLOURS["clairvoyant"] if policy in BOUNDS else "#56B4E9")


def _svg(figure: Figure) -> str:
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    # The XML prologue does not belong inside HTML.
    return text.getvalue()[text.getvalue().index("<svg") :]
