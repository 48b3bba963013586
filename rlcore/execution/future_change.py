"""What the conformance kit needs to hold an execution task to its laws: a world with another future, and balanced books."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rlcore.environment.engine import Lanes, Transition
from rlcore.environment.parts import EnvironmentParts
from rlcore.execution.metrics import traded_value
from rlcore.execution.orders import OrderSet
from rlcore.execution.simulator import FastSimulator
from rlcore.foundation.random_streams import key_generator
from rlcore.market.build_store import build_store
from rlcore.market.schema import DERIVED_FIELDS, OPTIONAL_FIELDS, QUANTITY_FIELDS, REQUIRED_FIELDS, BarFormat

if TYPE_CHECKING:
    from rlcore.market.store import MarketStore


def store_with_other_future(store: MarketStore, row: int, tick: int, folder: Path) -> MarketStore:
    """Build a store that equals another before a moment and differs from then on: all instruments, that day and all later ones.

    Prices of a bar change by one factor, quantities by another, own fields by noise. Derived fields and features follow,
    because the store is built anew from its bars.

    Args:
        store: the store to depart from.
        row, tick: the moment: start of this tick.
        folder: where the bars and the new store go.
    """
    bars = _bars_of(store)
    generator = key_generator(row, tick, "other future")
    is_later = (bars["datetime"] >= store.tick_start_utc(row)[tick]).to_numpy()
    price, quantity = (np.where(is_later, generator.uniform(1.2, 3.0, len(bars)), 1.0) for _ in range(2))
    own = [name for name in store.fields if name not in (*REQUIRED_FIELDS, *OPTIONAL_FIELDS, *DERIVED_FIELDS)]
    for name in bars.columns.drop(["datetime", "instrument"]):
        if name in own:
            bars[name] += np.where(is_later, generator.normal(size=len(bars)), 0.0)
        else:
            bars[name] *= quantity if name in QUANTITY_FIELDS else price
    folder.mkdir(parents=True, exist_ok=True)
    bars["datetime"] = bars["datetime"].dt.tz_localize("UTC")
    bars.to_parquet(folder / "bars.parquet")
    return build_store(
        folder / "bars.parquet",
        folder / "store",
        calendar=store.calendar,
        tick_minutes=store.tick_minutes,
        bar_format=BarFormat(extra_fields=tuple(own)),
    )


def perturb_future(
    parts_of: Callable[[MarketStore], EnvironmentParts], orders: OrderSet, folder: Path
) -> Callable[[int, int], tuple[EnvironmentParts, OrderSet]]:
    """Return what the conformance kit calls: (order, decision) → parts and orders of a world that differs from that decision on.

    Args:
        parts_of: builds the parts of the task for a store; their simulator must be a ``FastSimulator``.
        orders: of the true world.
        folder: where the other worlds go.
    """

    def other_world(seed_id: int, now: int) -> tuple[EnvironmentParts, OrderSet]:
        simulator = parts_of(orders.store).simulator
        if not isinstance(simulator, FastSimulator):
            raise TypeError(f"simulator of the parts must be a FastSimulator, was {type(simulator).__name__}")
        start, k = int(orders.start_tick[seed_id]), simulator.ticks_per_step
        tick = start if now == 0 else (start // k + now) * k
        row = int(orders.row[seed_id])
        store = store_with_other_future(orders.store, row, tick, folder / f"row{row}-tick{tick}")
        return parts_of(store), orders.on(store)

    return other_world


def shares_balance(simulator: FastSimulator) -> Callable[[Lanes, Transition], dict[str, NDArray[np.float64]]]:
    """Return the balance that the conformance kit holds to 0: of shares, of the cap, and of money, relative to the order.

    Money is added up here once more, step by step, because the state's own sum is what is in question.
    """
    cap = simulator.participation_cap
    money_of: dict[int, float] = {}

    def balance(lanes: Lanes, transition: Transition) -> dict[str, NDArray[np.float64]]:
        outcome, status = transition.outcome, lanes.status
        quantity, worth = outcome.order.quantity, outcome.order.quantity * outcome.arrival_price
        of_step = traded_value(outcome.filled, outcome.price)
        for seed_id, step, money in zip(status.seed_id.tolist(), status.step.tolist(), of_step.tolist(), strict=True):
            money_of[seed_id] = money + (money_of[seed_id] if step > 1 else 0.0)
        of_all_steps = np.array([money_of[seed_id] for seed_id in status.seed_id.tolist()])
        most = np.where(outcome.volume > 0.0, np.inf, 0.0) if cap is None else cap * outcome.volume
        return {
            "filled + remaining - ordered": (outcome.filled_quantity + outcome.remaining - quantity) / quantity,
            "fills below 0": np.minimum(outcome.filled, 0.0).sum(axis=-1) / quantity,
            "fills where nothing trades": np.where(outcome.volume > 0.0, 0.0, outcome.filled).sum(axis=-1) / quantity,
            "participation above the cap": np.maximum(outcome.filled - most, 0.0).sum(axis=-1) / quantity,
            "fills counted in the state - fills": (lanes.state.filled_quantity - outcome.filled_quantity) / quantity,
            "money of the step - money of its fills": (outcome.step_value - of_step) / worth,
            "money counted in the state - money of all steps": (lanes.state.filled_value - of_all_steps) / worth,
        }

    return balance


def _bars_of(store: MarketStore) -> pd.DataFrame:
    fields = [name for name in store.fields if name not in DERIVED_FIELDS]
    frames = []
    for row in range(store.num_rows):
        num_ticks = int(store.session_ticks[row])
        columns: dict[str, Any] = {
            "datetime": store.tick_start_utc(row)[:num_ticks],
            "instrument": store.instruments[store.row_instrument[row]],
        }
        columns |= {name: store.array(name)[row, :num_ticks] for name in fields}
        frames.append(pd.DataFrame(columns).dropna(subset=fields, how="all"))
    return pd.concat(frames, ignore_index=True)
