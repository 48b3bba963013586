"""The backtests of all folds as one: their test periods follow each other and no order stands in two of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from rlcore.execution.backtest import BacktestResult
from rlcore.foundation.fingerprints import fingerprint_of

_SUMS = (
    "num_orders",
    "num_buys",
    "num_days",
    "num_incomplete_instrument_days",
    "num_instrument_days",
    "num_orders_ending_in_silence",
)
_SHARES = ["filled_share", "cumulative_share"]


def pool_folds(results: Sequence[BacktestResult]) -> BacktestResult:
    """Return one backtest over the orders of all folds, with a column ``fold``."""
    frames = []
    first_seed_id = 0
    for fold, result in enumerate(results):
        frame = result.frame.assign(fold=fold, seed_id=result.frame["seed_id"] + first_seed_id)
        frames.append(frame)
        first_seed_id += result.facts["num_orders"]
    frame = pd.concat(frames, ignore_index=True)
    return BacktestResult(frame, _pooled_schedule(results), _pooled_facts(results, frame))


def _pooled_schedule(results: Sequence[BacktestResult]) -> pd.DataFrame:
    """Average the schedules, each with the weight of its orders."""
    num_orders = sum(result.facts["num_orders"] for result in results)
    rows = []
    for result in results:
        rows.append(result.schedule.copy())
        rows[-1][_SHARES] *= result.facts["num_orders"] / num_orders
    keys = ["policy", "training_seed", "window_fraction"]
    return pd.concat(rows, ignore_index=True).groupby(keys, sort=False, dropna=False)[_SHARES].sum().reset_index()


def _pooled_facts(results: Sequence[BacktestResult], frame: pd.DataFrame) -> dict[str, Any]:
    facts = [result.facts for result in results]
    num_orders = sum(one["num_orders"] for one in facts)
    return {
        **facts[0],
        **{name: sum(one[name] for one in facts) for name in _SUMS},
        "orders_fingerprint": fingerprint_of([one["orders_fingerprint"] for one in facts]),
        "first_day": min(one["first_day"] for one in facts),
        "last_day": max(one["last_day"] for one in facts),
        "num_instruments": int(frame["instrument"].nunique()),
        "mean_coverage": sum(one["mean_coverage"] * one["num_orders"] for one in facts) / num_orders,
    }
