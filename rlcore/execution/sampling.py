"""Random orders, seeded, with chosen attributes balanced."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from rlcore.execution.orders import OrderSet
from rlcore.foundation.errors import ConfigError, nearest_name
from rlcore.foundation.random_streams import key_generator

if TYPE_CHECKING:
    from rlcore.market.store import MarketStore

Stratum = Literal["instrument", "date", "side", "size", "window"]
STRATA: tuple[Stratum, ...] = ("instrument", "date", "side", "size", "window")
Integers = NDArray[np.int64]
_TIME = re.compile(r"([01]\d|2[0-4]):[0-5]\d")


@dataclass(frozen=True, slots=True)
class SamplingPlan:
    """What orders to draw.

    A stratum is an attribute that is balanced: each of its values occurs equally often, give or take one (sizes: each of
    ``num_orders`` equal slices of the distribution once). With both "instrument" and "date", each instrument-day. Others are
    drawn independently.
    """

    num_orders: int
    fraction_of_day_volume: tuple[float, float]  # quantity / the day's tradable volume, log-uniform between the two
    sides: tuple[Literal["buy", "sell"], ...] = ("buy", "sell")
    windows: tuple[tuple[str, str], ...] = ()  # local (start, end), "HH:MM", cut to the session; empty: the whole session
    instruments: tuple[str, ...] = ()  # empty: all of the store
    strata: tuple[Stratum, ...] = STRATA

    def __post_init__(self) -> None:
        low, high = self.fraction_of_day_volume
        if self.num_orders < 1:
            raise ConfigError(f"num_orders must be at least 1, was {self.num_orders}")
        if not 0.0 < low <= high:
            raise ConfigError(f"fraction_of_day_volume must be (low, high) with 0 < low ≤ high, was ({low}, {high})")
        if not self.sides or not set(self.sides) <= {"buy", "sell"}:
            raise ConfigError(f"sides must be buy, sell or both, were {list(self.sides)}")
        for name in self.strata:
            if name not in STRATA:
                raise ConfigError(f"strata must be among {', '.join(STRATA)}, had {name!r}{nearest_name(name, STRATA)}")
        for window in self.windows:
            if not all(_TIME.fullmatch(label) for label in window):
                raise ConfigError(f"windows must be pairs of HH:MM in the exchange's local time, had {window}")
            if window[0] >= window[1]:
                raise ConfigError(f"windows must start before they end, had {window}")


def sample_orders(store: MarketStore, plan: SamplingPlan, root_seed: int) -> OrderSet:
    """Draw orders on complete days that have volume; a pure function of the store, the plan and the seed.

    The quantity is relative to the volume of the order's own day, which only that day's end knows: it sizes the order and is not
    shown to the policy.

    Raises:
        ConfigError: where no instrument-day of the store fits the plan.
    """
    volume = store.array("tradable_volume")[:].sum(axis=-1)
    is_eligible = store.is_complete & (volume > 0.0) & _is_wanted(store, plan)
    windows = _windows_of_days(store, plan)  # (dates, windows, 2)
    has_window = windows[..., 1] > windows[..., 0]  # (dates, windows)
    is_eligible &= has_window[store.row_date].all(axis=-1)
    rows = np.flatnonzero(is_eligible)
    if not len(rows):
        raise ConfigError(
            "sampling plan must fit at least one complete instrument-day with volume, fits none: check the instruments, the "
            "windows (a day counts where each overlaps its session) and the coverage of the data"
        )
    count = plan.num_orders
    row = _draw_rows(store, rows, plan, root_seed)
    side = _draw(
        np.array([1 if name == "buy" else -1 for name in plan.sides]), count, "side", root_seed, is_balanced="side" in plan.strata
    )
    window = _draw(np.arange(windows.shape[1]), count, "window", root_seed, is_balanced="window" in plan.strata)
    low, high = np.log(plan.fraction_of_day_volume)
    fraction = np.exp(low + (high - low) * _draw_quantiles(count, plan, root_seed))
    chosen = windows[store.row_date[row], window]
    return OrderSet(
        store,
        row=row,
        side=side.astype(np.float64),
        quantity=fraction * volume[row],
        start_tick=chosen[:, 0],
        end_tick=chosen[:, 1],
    )


def _is_wanted(store: MarketStore, plan: SamplingPlan) -> NDArray[np.bool_]:
    for name in plan.instruments:
        if name not in store.instruments:
            raise ConfigError(
                f"instruments must be in the store at {store.path}, had {name!r}{nearest_name(name, store.instruments)}"
            )
    wanted = np.array([not plan.instruments or name in plan.instruments for name in store.instruments])
    return wanted[store.row_instrument]


def _windows_of_days(store: MarketStore, plan: SamplingPlan) -> Integers:
    """Return start and exclusive end tick of each window on each date, (dates, windows, 2); empty where start ≥ end."""
    ticks = np.zeros((len(store.dates), max(len(plan.windows), 1), 2), np.int64)
    dates, first_rows = np.unique(store.row_date, return_index=True)
    for date, row in zip(dates.tolist(), first_rows.tolist(), strict=True):
        windows = [(_cut_to_session(store, row, start), _cut_to_session(store, row, end)) for start, end in plan.windows]
        ticks[date] = windows or [(0, store.session_ticks[row])]
    return ticks


def _cut_to_session(store: MarketStore, row: int, time: str) -> int:
    """Return the tick of a local time, or the nearer end of the row's session where the time lies outside."""
    num_ticks = int(store.session_ticks[row])
    if time <= store.tick_label(row, 0):
        return 0
    return num_ticks if time >= store.tick_label(row, num_ticks) else store.tick_of(row, time)


def _draw_rows(store: MarketStore, rows: Integers, plan: SamplingPlan, root_seed: int) -> Integers:
    """Draw instrument-days, balanced by instrument, by date, by both together, or not at all."""
    count, strata = plan.num_orders, set(plan.strata) & {"instrument", "date"}
    if len(strata) != 1:
        return _draw(rows, count, "instrument-day", root_seed, is_balanced=len(strata) == 2)
    by = store.row_instrument if "instrument" in strata else store.row_date
    group = _draw(np.unique(by[rows]), count, "group", root_seed, is_balanced=True)
    uniform = key_generator(root_seed, "orders", "row").random(count)
    row = np.empty(count, np.int64)
    for value in np.unique(group):
        members = rows[by[rows] == value]
        is_here = group == value
        row[is_here] = members[(uniform[is_here] * len(members)).astype(np.int64)]
    return row


def _draw(values: Integers, count: int, name: str, root_seed: int, *, is_balanced: bool) -> Integers:
    """Draw values: shuffled passes over all of them where balanced, else independently."""
    generator = key_generator(root_seed, "orders", name)
    if is_balanced:
        passes = [generator.permutation(values) for _ in range(-(-count // len(values)))]
        return np.concatenate(passes)[:count]
    return values[generator.integers(0, len(values), count)]


def _draw_quantiles(count: int, plan: SamplingPlan, root_seed: int) -> NDArray[np.float64]:
    generator = key_generator(root_seed, "orders", "size")
    uniform = generator.random(count)
    return (generator.permutation(count) + uniform) / count if "size" in plan.strata else uniform
