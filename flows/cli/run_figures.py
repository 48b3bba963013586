"""A run's figures on the terminal. All of them are in the JSON, in tracking and in the run's folder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from flows.cli.output import aligned
from flows.task_phases import phases_of

if TYPE_CHECKING:
    from flows.run_lifecycle import RunResult

Rows = list[tuple[str, ...]]

_OF_ORDERS = ("fill_rate", "price_advantage_bps", "shortfall_bps")


def lines_of(result: RunResult) -> list[str]:
    """Return what is printed of a run."""
    is_task = result.form == "task"
    rows = _rows_of_task(result.figures) if is_task else _rows_of_orders(result.figures)
    facts = [
        ("run", result.run),
        ("folder", str(result.folder)),
        ("report", "none for a task of one's own: results.csv in the folder" if is_task else str(result.report or "none")),
        ("re-used", f"{len(result.reused)} tasks"),
    ]
    return [*aligned(rows), *([""] if rows else []), *aligned(facts), *(["", result.message] if result.message else [])]


def _rows_of_orders(figures: Mapping[str, float]) -> Rows:
    """Return one row for the agent (mean of the seeds) and each baseline; none before the backtest."""
    policies = sorted({key.split("/")[1] for key in figures if key.startswith("baseline/")})
    if not policies:
        return []
    rows: Rows = [("test orders, mean", *_OF_ORDERS)]
    for policy in ("agent", *policies):
        keys = [
            f"backtest/{name}/mean/seeds_mean" if policy == "agent" else f"baseline/{policy}/{name}/mean" for name in _OF_ORDERS
        ]
        rows.append((policy, *(f"{figures.get(key, math.nan):.3f}" for key in keys)))
    return rows


def _rows_of_task(figures: Mapping[str, float]) -> Rows:
    """Return one row for each figure of an episode that says how good it was, one column for each phase: mean ± spread."""
    phases = phases_of(figures, "/seeds_mean")
    if not phases:  # not one episode has ended
        return []
    last = list(phases)[-1]  # it has the figures that matter; the update's stay in tracking
    names = [key.removeprefix(f"{last}/").removesuffix("/mean/seeds_mean") for key in figures if key.startswith(f"{last}/")]
    names = [name for name in names if f"{last}/{name}/mean/seeds_mean" in figures]
    shown = [name for name in names if not name.startswith(("component/", "update/"))]
    shown.sort(key=lambda name: not name.endswith("return"))
    rows: Rows = [("mean of seeds ± deviation", *phases.values())]
    return [*rows, *((name, *(_spread(figures, f"{phase}/{name}/mean") for phase in phases)) for name in shown)]


def _spread(figures: Mapping[str, float], name: str) -> str:
    mean, deviation = figures.get(f"{name}/seeds_mean"), figures.get(f"{name}/seeds_std")
    if mean is None:
        return "-"
    if deviation is None:
        return f"{mean:.4g}"
    is_rounding = deviation <= 1e-12 * max(abs(mean), 1.0)
    return f"{mean:.4g} ± {0.0 if is_rounding else deviation:.2g}"
