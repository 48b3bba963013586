"""Parent orders: what must be executed, and seed sets made of them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rlcore.contracts.seeds import SeedSet
from rlcore.foundation.atomic_files import write_atomically
from rlcore.foundation.errors import DataError
from rlcore.foundation.fingerprints import fingerprint_arrays, fingerprint_of
from rlcore.foundation.records import step_record

if TYPE_CHECKING:
    from rlcore.market.store import MarketStore

# Shares left below this fraction of the order's quantity are rounding: the order counts as complete.
NOTHING_LEFT = 1e-9

_FORMAT = "fillwright-orders-1"
_COLUMNS = ("row", "side", "quantity", "start_tick", "end_tick")


@step_record
class OrderBatch:
    """Orders, one per lane. A lane tree."""

    order_id: NDArray[np.int64]  # (lanes,) position in the order set
    row: NDArray[np.int64]  # (lanes,) instrument-day of the market store
    side: NDArray[np.float64]  # (lanes,) +1 buy, −1 sell
    quantity: NDArray[np.float64]  # (lanes,) shares, above 0
    start_tick: NDArray[np.int64]  # (lanes,) first tick of the window
    end_tick: NDArray[np.int64]  # (lanes,) first tick after the window


class OrderSet(SeedSet[OrderBatch]):
    """A finite, ordered collection of orders against one market store.

    Args:
        store: the market data that ``row`` points into.
        row, side, quantity, start_tick, end_tick: columns of one length, as in ``OrderBatch``.

    Raises:
        DataError: for an order that breaks a rule; names the order and the remedy.
    """

    def __init__(
        self,
        store: MarketStore,
        *,
        row: NDArray[np.int64],
        side: NDArray[np.float64],
        quantity: NDArray[np.float64],
        start_tick: NDArray[np.int64],
        end_tick: NDArray[np.int64],
    ) -> None:
        self.store = store
        self.row = np.ascontiguousarray(row, np.int64)
        self.side = np.ascontiguousarray(side, np.float64)
        self.quantity = np.ascontiguousarray(quantity, np.float64)
        self.start_tick = np.ascontiguousarray(start_tick, np.int64)
        self.end_tick = np.ascontiguousarray(end_tick, np.int64)
        _check(self)

    def __len__(self) -> int:
        return len(self.row)

    def take(self, seed_ids: NDArray[np.int64]) -> OrderBatch:
        at = np.asarray(seed_ids, np.int64)
        return OrderBatch(at, *(getattr(self, name)[at] for name in _COLUMNS))

    def subset(self, order_ids: NDArray[Any]) -> OrderSet:
        """Return the order set of these positions (or of a mask), in order."""
        return OrderSet(self.store, **{name: getattr(self, name)[order_ids] for name in _COLUMNS})

    def on(self, store: MarketStore) -> OrderSet:
        """Return the same orders against another store with the same rows."""
        return OrderSet(store, **self._columns())

    @property
    def fingerprint(self) -> str:
        return fingerprint_of([_FORMAT, self.store.fingerprint, fingerprint_arrays(self._columns())])

    def describe(self, seed_ids: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Return instrument, date, side, quantity, and the window in the exchange's local time (``end`` is exclusive)."""
        orders, store = self.take(seed_ids), self.store
        return {
            "instrument": np.array(store.instruments, object)[store.row_instrument[orders.row]],
            "date": store.dates[store.row_date[orders.row]],
            "side": np.where(orders.side > 0.0, "buy", "sell").astype(object),
            "quantity": orders.quantity,
            "start": _tick_labels(store, orders.row, orders.start_tick),
            "end": _tick_labels(store, orders.row, orders.end_tick),
        }

    def save(self, path: Path) -> None:
        """Write the orders as parquet: the columns that ``load`` needs, and readable ones beside them."""
        readable = self.describe(np.arange(len(self)))
        columns = {name: readable[name] for name in ("instrument", "date", "start", "end")} | self._columns()
        table = pa.table({name: pa.array(values) for name, values in columns.items()})
        table = table.replace_schema_metadata({"format": _FORMAT, "store_fingerprint": self.store.fingerprint})
        content = io.BytesIO()
        pq.write_table(table, content)
        write_atomically(path, content.getvalue())

    @classmethod
    def load(cls, path: Path, store: MarketStore) -> OrderSet:
        """Read what ``save`` wrote.

        Raises:
            DataError: for a file of another form, or orders that were made for another store.
        """
        try:
            table = pq.read_table(path)
        except (OSError, pa.ArrowException) as error:
            raise DataError(f"order set must be a parquet file, {path} could not be read: {error}") from error
        metadata = table.schema.metadata or {}
        written_as = metadata.get(b"format", b"nothing of ours").decode()
        if written_as != _FORMAT:
            raise DataError(
                f"order set must have the format {_FORMAT!r}, {path} has {written_as!r}: make it again, or read a file of your "
                "own orders with read_orders"
            )
        made_for = metadata[b"store_fingerprint"].decode()
        if made_for != store.fingerprint:
            raise DataError(
                f"order set must belong to the market store {store.fingerprint}, {path} was made for {made_for}: make it again"
            )
        return cls(store, **{name: table.column(name).to_numpy() for name in _COLUMNS})

    def _columns(self) -> dict[str, NDArray[Any]]:
        return {name: getattr(self, name) for name in _COLUMNS}


def _tick_labels(store: MarketStore, row: NDArray[np.int64], tick: NDArray[np.int64]) -> NDArray[np.object_]:
    # Orders share few (date, tick) pairs: each is translated once.
    pair = store.row_date[row] * (store.num_ticks + 1) + tick
    _, first, inverse = np.unique(pair, return_index=True, return_inverse=True)
    return np.array([store.tick_label(int(row[at]), int(tick[at])) for at in first], object)[inverse]


def _check(orders: OrderSet) -> None:
    """Hold every order to its rules, once."""
    lengths = {name: len(column) for name, column in orders._columns().items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"columns of an order set must have one length, had {lengths}")
    store, row, start, end = orders.store, orders.row, orders.start_tick, orders.end_tick
    _refuse((row < 0) | (row >= store.num_rows), f"row must lie in [0, {store.num_rows})", row, "pick rows of this store")
    _refuse(np.abs(orders.side) != 1.0, "side must be +1 (buy) or -1 (sell)", orders.side, "correct it")
    bad_quantity = ~(np.isfinite(orders.quantity) & (orders.quantity > 0.0))
    _refuse(bad_quantity, "quantity must be a finite number of shares above 0", orders.quantity, "correct or drop the order")
    _refuse(start < 0, "start_tick must be at least 0", start, "start the order inside the session")
    _refuse(end <= start, "end_tick must lie after start_tick", end, "give the order at least one tick")
    late = end > store.session_ticks[row]
    _refuse(late, "end_tick must lie inside the session (a half day is shorter)", end, "end the order at or before the close")
    unknown = np.isnan(store.array("mark")[row, end - 1])
    _refuse(unknown, "a price must be known by the end of the order's window", np.where(unknown, np.nan, 0.0), "drop the order")


def _refuse(is_bad: NDArray[np.bool_], rule: str, values: NDArray[Any], remedy: str) -> None:
    if is_bad.any():
        order = int(np.flatnonzero(is_bad)[0])
        raise DataError(f"{rule}, was {values[order]} for order {order} ({int(is_bad.sum())} such orders): {remedy}")
