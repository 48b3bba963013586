"""Figures of several seeds → their spread: how much of a result is luck."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from flows.figures import is_telling
from rlcore.execution.comparison import AGENT


def spread_over_seeds(figures: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return ``<name>/seeds_mean``, ``_std``, ``_min`` and ``_max`` of each figure that all seeds have (no spreads over orders).

    The standard deviation is the sample's (n - 1); one seed has none.
    """
    spread: dict[str, float] = {}
    for name in figures[0] if figures else ():
        if name.endswith("/std") or not all(name in one for one in figures):
            continue
        values = np.array([one[name] for one in figures], np.float64)
        spread |= {
            f"{name}/seeds_mean": float(values.mean()),
            f"{name}/seeds_min": float(values.min()),
            f"{name}/seeds_max": float(values.max()),
        }
        if len(values) > 1:
            spread[f"{name}/seeds_std"] = float(values.std(ddof=1))
    return spread


def agent_figures(frame: pd.DataFrame, seed: int) -> dict[str, float]:
    """Return ``backtest/<figure>/mean`` of one seed's policy over the orders of a backtest that have the figure."""
    rows = frame[(frame["policy"] == AGENT) & (frame["training_seed"] == seed)]
    return {f"backtest/{name}": value for name, value in _means(rows).items()}


def baseline_figures(frame: pd.DataFrame) -> dict[str, float]:
    """Return ``baseline/<policy>/<figure>/mean`` of everything in a backtest that was not trained."""
    figures: dict[str, float] = {}
    for policy, rows in frame[frame["policy"] != AGENT].groupby("policy", sort=False):
        figures |= {f"baseline/{policy}/{name}": value for name, value in _means(rows).items()}
    return figures


def mean_over_folds(figures: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of every figure that all folds have."""
    names = [name for name in figures[0] if all(name in one for one in figures)] if figures else []
    return {name: float(np.mean([one[name] for one in figures])) for name in names}


def _means(rows: pd.DataFrame) -> dict[str, float]:
    numbers = rows.select_dtypes("number")
    means = numbers[[name for name in numbers if is_telling(str(name))]].mean()
    return {f"{name}/mean": float(value) for name, value in means.items() if np.isfinite(value)}
