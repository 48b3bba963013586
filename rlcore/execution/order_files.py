"""Orders of one's own, from CSV or parquet: every row is held to the session that the market store knows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from rlcore.execution.orders import OrderSet
from rlcore.foundation.csv_files import csv_header, csv_rows
from rlcore.foundation.errors import DataError, nearest_name

if TYPE_CHECKING:
    from rlcore.market.store import MarketStore

_REQUIRED = ("instrument", "date", "side")
_SIZES = ("quantity", "fraction_of_day_volume")
_TIMES = ("start", "end")
_SIDES = {"buy": 1.0, "sell": -1.0, "+1": 1.0, "1": 1.0, "1.0": 1.0, "-1": -1.0, "-1.0": -1.0}


def read_orders(
    path: Path, store: MarketStore, incomplete_days: Literal["refuse", "keep"] = "refuse", through: date | None = None
) -> OrderSet:
    """Read orders from a CSV or parquet file.

    Columns: ``instrument``; ``date`` (local trading day); ``side`` (buy or sell, +1 or -1); either ``quantity`` (shares) or
    ``fraction_of_day_volume``; optionally ``start`` and ``end`` (local ``HH:MM``; ``end`` is when the window is over; empty: the
    whole session).

    Args:
        path: ends in ``.csv`` or ``.parquet``.
        store: the market data.
        incomplete_days: whether an order on a day with an outage is an error, or is kept.
        through: the last day that may be seen; orders of later days are left out, as later bars are.

    Raises:
        DataError: names the file, the row (CSV: its line) and the remedy.
    """
    frame = _read_frame(path)
    _check_columns(frame, path)
    place = "line" if path.suffix == ".csv" else "row"
    records = []
    for position, fields in zip(frame.index, frame.to_dict("records"), strict=True):
        try:
            if through is not None and _parse_date(fields["date"]) > np.datetime64(through):
                continue
            records.append(_parse({str(name): value for name, value in fields.items()}, store, incomplete_days))
        except DataError as error:
            raise DataError(f"{path}, {place} {position}: {error}") from error
    if not records:
        until = "" if through is None else f" up to {through}"
        raise DataError(f"orders file must hold at least one order{until}, {path} holds none")
    row, side, quantity, start, end = (np.array(column) for column in zip(*records, strict=True))
    return OrderSet(store, row=row, side=side, quantity=quantity, start_tick=start, end_tick=end)


def _read_frame(path: Path) -> pd.DataFrame:
    readers: dict[str, Callable[[Path], pd.DataFrame]] = {".csv": _read_csv, ".parquet": _read_parquet}
    if path.suffix not in readers:
        raise DataError(f"orders file must end in {' or '.join(readers)}, was {path}")
    try:
        return readers[path.suffix](path)
    except (OSError, ValueError) as error:  # pandas' and pyarrow's parser errors are ValueErrors
        raise DataError(f"orders file must be readable as {path.suffix[1:]}, {path} was not: {error}") from error


def _read_csv(path: Path) -> pd.DataFrame:
    # As text: "000001" must not become 1, and "09:30" must stay what it is.
    frame = csv_rows(path, dtype=str, skipinitialspace=True, keep_default_na=False)
    frame.columns = pd.Index([name.strip() for name in csv_header(path)])
    return frame[(frame != "").any(axis=1)]  # without blank lines


def _read_parquet(path: Path) -> pd.DataFrame:
    return pd.read_parquet(path).reset_index(drop=True)


def _check_columns(frame: pd.DataFrame, path: Path) -> None:
    known = (*_REQUIRED, *_SIZES, *_TIMES)
    for name in frame.columns:
        if name not in known:
            raise DataError(f"{path}: columns must be among {', '.join(known)}, had {name!r}{nearest_name(str(name), known)}")
    repeated = frame.columns[frame.columns.duplicated()]
    if len(repeated):
        raise DataError(f"{path}: columns must stand once, {repeated[0]!r} stands twice: remove one of them")
    missing = [name for name in _REQUIRED if name not in frame.columns]
    if missing:
        raise DataError(f"{path}: columns must include {', '.join(_REQUIRED)}, lacked {', '.join(missing)}: add them")
    sizes = [name for name in _SIZES if name in frame.columns]
    if len(sizes) != 1:
        raise DataError(f"{path}: exactly one of the columns {' and '.join(_SIZES)} must be there, had {sizes}: keep one")


def _parse(
    fields: dict[str, Any], store: MarketStore, incomplete_days: Literal["refuse", "keep"]
) -> tuple[int, float, float, int, int]:
    row = store.row_of(str(fields["instrument"]), _parse_date(fields["date"]))
    if incomplete_days == "refuse" and not store.is_complete[row]:
        raise DataError(
            f"day of an order must be complete in the market store, {fields['instrument']} on {fields['date']} has bars for only "
            f"{store.coverage[row]:.0%} of its session: drop the order or keep incomplete days"
        )
    start, end = _parse_time(fields, "start", row, store), _parse_time(fields, "end", row, store)
    if end <= start:
        raise DataError(f"end must lie after start, was {fields['end']!r} for an order that starts at {fields['start']!r}")
    return row, _parse_side(fields["side"]), _parse_size(fields, row, store), start, end


def _parse_date(value: Any) -> np.datetime64:
    try:
        # Text only as ISO: 03/05/2024 is March here and May there.
        day = date.fromisoformat(value.strip()) if isinstance(value, str) else pd.Timestamp(value).date()
        return np.datetime64(day, "D")
    except (ValueError, TypeError) as error:
        raise DataError(f"date must read YYYY-MM-DD, was {value!r}: mend the file") from error


def _parse_side(value: Any) -> float:
    name = str(value).strip().lower()
    if name not in _SIDES:
        raise DataError(f"side must be buy or sell (or +1 or -1), was {value!r}{nearest_name(name, _SIDES)}")
    return _SIDES[name]


def _parse_size(fields: dict[str, Any], row: int, store: MarketStore) -> float:
    name = next(size for size in _SIZES if size in fields)
    try:
        size = float(fields[name])
    except (ValueError, TypeError) as error:
        raise DataError(f"{name} must be a number, was {fields[name]!r}") from error
    if not (np.isfinite(size) and size > 0.0):
        raise DataError(f"{name} must be a finite number above 0, was {size:g}: correct or drop the order")
    if name == "quantity":
        return size
    day_volume = float(store.array("tradable_volume")[row].sum())
    if day_volume == 0.0:
        raise DataError("fraction_of_day_volume must refer to a day on which the market traded, this day has no volume")
    return size * day_volume


def _parse_time(fields: dict[str, Any], name: str, row: int, store: MarketStore) -> int:
    """Return the tick of a local time; an empty one is the start or the end of the session."""
    value = fields.get(name)
    if value is None or value == "" or (isinstance(value, float) and np.isnan(value)):
        return 0 if name == "start" else int(store.session_ticks[row])
    label = value.strftime("%H:%M") if isinstance(value, time) else str(value).strip()
    try:
        tick = store.tick_of(row, label)
    except DataError as error:
        raise DataError(
            f"{name} of an order must lie inside the session of its day: {error}; move it inside, or drop the order"
        ) from error
    if name == "start" and tick == store.session_ticks[row]:
        raise DataError(f"start of an order must lie before the close of its day, was {label!r}: move it, or drop the order")
    return tick
