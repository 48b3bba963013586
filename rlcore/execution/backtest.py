"""Run an agent and all baselines over the same orders, each order exactly once per policy, and gather what came of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rlcore.contracts.policy import Policy
from rlcore.environment.evaluation import evaluate
from rlcore.environment.parts import EnvironmentParts
from rlcore.execution.baselines import BASELINE_NAMES, Baseline, build_baseline
from rlcore.execution.clairvoyant import clairvoyant_metrics
from rlcore.execution.comparison import AGENT, CLAIRVOYANT
from rlcore.execution.metrics import ratio
from rlcore.execution.orders import OrderSet
from rlcore.execution.schedule_profile import ScheduleRecorder, profile_frame
from rlcore.execution.simulator import FastSimulator
from rlcore.execution.states import ticks_of_step
from rlcore.foundation.atomic_files import folder_written_atomically
from rlcore.foundation.errors import ConfigError, nearest_name
from rlcore.foundation.random_streams import RandomStreams

PHASE = "backtest"
_CHUNK = 65_536  # orders looked at together: bounds memory, not the result


@dataclass(frozen=True, slots=True)
class BacktestResult:
    """What a backtest left.

    Attributes:
        frame: one row per (policy, training_seed, seed_id): the episode table, the order's columns, ``notional`` (quantity times
            arrival price). ``training_seed`` is missing for baselines.
        schedule: one row per (policy, training_seed, part of the window): ``schedule_profile.profile_frame``.
        facts: plain data that says what was tested: fingerprints, days, instruments, the simulator's settings.
    """

    frame: pd.DataFrame
    schedule: pd.DataFrame
    facts: dict[str, Any]

    def save(self, folder: Path) -> None:
        """Write ``orders.parquet``, ``schedule.parquet`` and ``facts.json``, all or none."""
        with folder_written_atomically(folder) as target:
            self.frame.to_parquet(target / "orders.parquet", index=False)
            self.schedule.to_parquet(target / "schedule.parquet", index=False)
            (target / "facts.json").write_text(json.dumps(self.facts, indent=2, sort_keys=True))

    @classmethod
    def load(cls, folder: Path) -> BacktestResult:
        """Read what ``save`` wrote."""
        frame, schedule = (pd.read_parquet(folder / f"{name}.parquet") for name in ("orders", "schedule"))
        return cls(frame, schedule, json.loads((folder / "facts.json").read_text()))


def run_backtest(
    parts: EnvironmentParts,
    policies: Mapping[int, Policy],
    orders: OrderSet,
    baselines: Sequence[str],
    *,
    num_lanes: int,
    root_seed: int,
    bounds: Mapping[str, Baseline] | None = None,
) -> BacktestResult:
    """Execute every order once with each policy and each baseline, in this process.

    Args:
        parts: the agent's environment, on a ``FastSimulator``; baselines share its simulator and reward.
        policies: training seed → the policy that came of it.
        baselines: names among ``BASELINE_NAMES`` and "clairvoyant".
        num_lanes: orders in execution at once.
        root_seed: of the random numbers that a policy may use (the random baseline).
        bounds: name → a policy that shows what is possible, such as the "optimum" of a market whose law is known.

    Raises:
        ConfigError: for an unknown baseline, or a simulator without bars.
        EvaluationError: where an order cannot be executed.
    """
    simulator = parts.simulator
    if not isinstance(simulator, FastSimulator):
        raise ConfigError(f"simulator of a backtest must be a FastSimulator, was {type(simulator).__name__}")
    runs: list[tuple[str, int | None, EnvironmentParts, Policy]] = [
        (AGENT, training_seed, parts, policy) for training_seed, policy in policies.items()
    ]
    for name in baselines:
        if name in BASELINE_NAMES:
            baseline = build_baseline(name, parts, orders.store)
            runs.append((name, None, baseline.parts, baseline.policy))
        elif name != CLAIRVOYANT:
            known = [*BASELINE_NAMES, CLAIRVOYANT]
            raise ConfigError(f"baseline must be one of {', '.join(known)}, was {name!r}{nearest_name(name, known)}")
    runs += [(name, None, bound.parts, bound.policy) for name, bound in (bounds or {}).items()]
    tables, profiles = [], []
    for name, training_seed, own_parts, policy in runs:
        recorder = ScheduleRecorder(len(orders))
        table = evaluate(own_parts, policy, orders, RandomStreams(root_seed), PHASE, num_lanes, recorders=(recorder,))
        tables.append(_labelled(table.to_frame(), name, training_seed))
        profiles.append(profile_frame(name, training_seed, recorder.mean_share()))
    if CLAIRVOYANT in baselines:
        tables.append(_labelled(_clairvoyant_frame(simulator, orders, num_lanes), CLAIRVOYANT, None))
    frame = pd.concat(tables, ignore_index=True)
    frame["notional"] = frame["quantity"] * frame["arrival_price"]
    return BacktestResult(frame, pd.concat(profiles, ignore_index=True), _facts(simulator, orders))


def summary_frame(frame: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """Return one row per policy (and ``by``, e.g. side or training_seed): means over all orders, filled or not.

    ``num_without_fill`` counts orders for which price advantage and slippage have no value; shortfall has one for every order.
    Several training seeds are averaged.
    """
    keys = ["policy", *by]
    order = {name: position for position, name in enumerate(dict.fromkeys(frame["policy"]))}
    rows = [_summary(dict(zip(keys, key, strict=True)), group) for key, group in frame.groupby(keys, sort=False, dropna=False)]
    return pd.DataFrame(rows).sort_values("policy", key=lambda names: names.map(order), kind="stable", ignore_index=True)


_MEANS = (
    "price_advantage_bps",
    "slippage_arrival_bps",
    "slippage_twap_bps",
    "slippage_vwap_bps",
    "fill_rate",
    "participation",
)


def _summary(keys: dict[str, Any], group: pd.DataFrame) -> dict[str, Any]:
    shortfall = group["shortfall_bps"]
    num_runs = max(group["training_seed"].nunique(), 1)
    return {
        **keys,
        "num_orders": len(group) // num_runs,
        "num_training_seeds": group["training_seed"].nunique(),
        "shortfall_bps": shortfall.mean(skipna=False),
        "shortfall_notional_weighted_bps": float(ratio((shortfall * group["notional"]).sum(), group["notional"].sum())),
        "shortfall_std_bps": shortfall.std(),
        **{name: group[name].mean() for name in _MEANS},
        "num_without_fill": int(group["price_advantage_bps"].isna().sum()) / num_runs,
        "num_not_filled_whole": int((group["fill_rate"] < 1.0).sum()) / num_runs,
    }


def _labelled(frame: pd.DataFrame, policy: str, training_seed: int | None) -> pd.DataFrame:
    labels = pd.DataFrame({"policy": policy, "training_seed": pd.array([training_seed] * len(frame), dtype="Int64")})
    return pd.concat([labels, frame.reset_index(drop=True)], axis=1)


def _clairvoyant_frame(simulator: FastSimulator, orders: OrderSet, num_lanes: int) -> pd.DataFrame:
    """Return the bound's rows, so many orders at a time that memory stays small."""
    pieces = []
    for first in range(0, len(orders), num_lanes):
        seed_id = np.arange(first, min(first + num_lanes, len(orders)))
        columns = clairvoyant_metrics(simulator, orders.take(seed_id)) | orders.describe(seed_id)
        pieces.append(pd.DataFrame({"seed_id": seed_id, "status": "ok", **columns}))
    return pd.concat(pieces, ignore_index=True)


def _facts(simulator: FastSimulator, orders: OrderSet) -> dict[str, Any]:
    store = orders.store
    dates = store.row_date[orders.row]
    first, last = int(dates.min()), int(dates.max())
    is_in_period = (store.row_date >= first) & (store.row_date <= last)
    return {
        "orders_fingerprint": orders.fingerprint,
        "store_fingerprint": store.fingerprint,
        "calendar": store.calendar,
        "tick_minutes": store.tick_minutes,
        "num_orders": len(orders),
        "num_buys": int((orders.side > 0).sum()),
        "num_days": len(np.unique(dates)),
        "first_day": str(store.dates[first]),
        "last_day": str(store.dates[last]),
        "num_instruments": len(np.unique(store.row_instrument[orders.row])),
        "num_incomplete_instrument_days": int((~np.asarray(store.is_complete)[is_in_period]).sum()),
        "num_instrument_days": int(is_in_period.sum()),
        "mean_coverage": float(np.asarray(store.coverage)[orders.row].mean()),
        "num_orders_ending_in_silence": _num_ending_in_silence(orders, simulator.ticks_per_step),
        "ticks_per_step": simulator.ticks_per_step,
        "participation_cap": simulator.participation_cap,
        "price": simulator.price,
    }


def _num_ending_in_silence(orders: OrderSet, ticks_per_step: int) -> int:
    """Return for how many orders nothing is traded (or recorded) in the last step, in which they must be completed."""
    count = 0
    for first in range(0, len(orders), _CHUNK):
        batch = orders.take(np.arange(first, min(first + _CHUNK, len(orders))))
        start = np.maximum(batch.start_tick, (batch.end_tick - 1) // ticks_per_step * ticks_per_step)
        volume = orders.store.window("tradable_volume", batch.row, start, ticks_per_step)
        is_traded = (volume > 0.0) & ticks_of_step(batch.end_tick - start, ticks_per_step)
        count += int((~is_traded.any(axis=-1)).sum())
    return count
