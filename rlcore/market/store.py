"""The market store: bars of many instruments and days as memory-mapped arrays with an index and a fingerprint."""

from __future__ import annotations

import json
import zipfile
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.foundation.errors import DataError, nearest_name
from rlcore.market.markov_signal import MarkovSignal
from rlcore.market.quality import QualityReport
from rlcore.market.schema import Booleans, Floats, Integers
from rlcore.market.session_labels import SessionLabels

FORMAT_VERSION = 1
MANIFEST = "store.json"
INDEX = "index.npz"
_REMEDY = "remove the folder and build it again (fillwright data build)"
_DAMAGES = (KeyError, TypeError, AttributeError, ValueError, OSError, EOFError, zipfile.BadZipFile)  # what reading it may raise


class MarketStore:
    """Read-only market data, shared between processes: it pickles as its path, and its arrays live in the page cache once.

    A row is one instrument on one day; rows are sorted by (instrument, date). A tick is one bar of the day's session. Open a
    store with ``MarketStore.open``; build one with ``build_store`` or ``build_synthetic``.
    """

    path: Path
    fingerprint: str
    """Of the content: what was delivered, calendar and tick length."""
    calendar: str
    tick_minutes: int
    fields: tuple[str, ...]
    """Names that ``array`` knows, the derived ``mark`` and ``tradable_volume`` included."""
    instruments: tuple[str, ...]
    dates: NDArray[np.datetime64]
    """(days,) datetime64[D], ascending."""
    row_instrument: Integers
    """(rows,) index into ``instruments``."""
    row_date: Integers
    """(rows,) index into ``dates``."""
    session_ticks: Integers
    """(rows,) ticks of the day's session: fewer than ``num_ticks`` on a half day."""
    previous_row: Integers
    """(rows,) the same instrument's previous day in the store, or -1."""
    coverage: Floats
    """(rows,) share of session ticks that have a bar."""
    is_complete: Booleans
    """(rows,) False for a day with an outage."""

    def __init__(self, path: Path, manifest: dict[str, Any], index: dict[str, NDArray[Any]]) -> None:
        self.path = path
        self._manifest = manifest
        self.fingerprint = manifest["fingerprint"]
        self.calendar = manifest["calendar"]
        self.tick_minutes = manifest["tick_minutes"]
        self.fields = tuple(manifest["fields"])
        self.instruments = tuple(manifest["instruments"])
        self.dates = index["dates"].view("datetime64[D]")
        self.row_instrument = index["row_instrument"]
        self.row_date = index["row_date"]
        self.session_ticks = index["date_ticks"][self.row_date]
        self.coverage = index["coverage"]
        self.is_complete = index["is_complete"]
        self.previous_row = previous_rows(self.row_instrument)
        self._tick_start = index["tick_start"].view("datetime64[ns]")
        self._row_length = np.array(self.num_ticks)
        self._flat: dict[str, Floats] = {}
        self._windows: dict[tuple[str, int], NDArray[np.void]] = {}
        self._labels: dict[int, SessionLabels] = {}

    @classmethod
    def open(cls, path: Path) -> MarketStore:
        """Open a store that lies in a folder.

        Raises:
            DataError: where there is no store, one of another version, or a damaged one.
        """
        path = path.resolve()
        manifest = read_manifest(path)
        try:
            _check_sizes(path, manifest["files"])
            with np.load(path / INDEX) as index:
                return cls(path, manifest, {name: index[name] for name in index.files})
        except _DAMAGES as error:
            raise DataError(
                f"{MANIFEST} and {INDEX} of a market store must be whole, were damaged in {path}: {_REMEDY}"
            ) from error

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.path, self.fingerprint)

    def __repr__(self) -> str:
        size = f"{len(self.instruments)} instruments, {self.num_rows} instrument-days"
        return f"MarketStore({str(self.path)!r}, {size}, {self.calendar!r})"

    @property
    def num_rows(self) -> int:
        """Number of instrument-days."""
        return len(self.row_instrument)

    @property
    def num_ticks(self) -> int:
        """Ticks of the longest session."""
        return int(self._tick_start.shape[1])

    @property
    def zone(self) -> str:
        """IANA name of the exchange's time zone."""
        return str(self._manifest["zone"])

    @cached_property
    def quality(self) -> QualityReport | None:
        """What was found in the bars; None for a synthetic market."""
        report = self._manifest["quality"]
        return QualityReport.from_dict(report) if report else None

    @property
    def signal(self) -> MarkovSignal | None:
        """The law of the field ``signal`` of a synthetic market; None where there is none."""
        signal = self._manifest["signal"]
        return MarkovSignal.from_dict(signal) if signal else None

    @property
    def instruments_without_usable_volume(self) -> tuple[str, ...]:
        """Instruments whose volume says nothing: a limit on participation must be refused for them."""
        report = self.quality
        return tuple(one.instrument for one in report.instruments if not one.is_volume_usable) if report else ()

    def array(self, field: str) -> Floats:
        """Return a field as (rows, num_ticks), read-only and memory-mapped. NaN: unknown, no bar, or after the session.

        Raises:
            DataError: for a field that the store does not have.
        """
        return self._flat_of(field)[: self.num_rows * self.num_ticks].reshape(self.num_rows, self.num_ticks)

    def window(self, field: str, row: Integers, start: Integers, length: int) -> Floats:
        """Return a copy of ``length`` ticks of each lane from ``start`` on, (lanes, length).

        Beyond the end of a row stands whatever lies there: the caller masks. ``start`` is at most ``num_ticks``, and so is
        ``length``.

        Args:
            field: name of a field.
            row: (lanes,).
            start: (lanes,) first tick.
            length: number of ticks.
        """
        return self.windows((field,), row, start, length)[0]

    def windows(self, fields: tuple[str, ...], row: Integers, start: Integers, length: int) -> list[Floats]:
        """Return the ``window`` of each field: they lie at the same place, which is computed once."""
        at = row * self._row_length + start
        return [self._windows_of(field, length)[at].view(np.float64).reshape(-1, length) for field in fields]

    def _windows_of(self, field: str, length: int) -> NDArray[np.void]:
        windows = self._windows.get((field, length))
        if windows is None:
            flat = self._flat_of(field)
            # One item of this overlapping view is a whole window, so that a gather is one memcpy per lane.
            shape, item = (flat.size - length + 1,), np.dtype((np.void, flat.itemsize * length))
            windows = np.ndarray(shape, item, buffer=flat.data, strides=flat.strides)
            self._windows[field, length] = windows
        return windows

    def row_of(self, instrument: str, day: str | date | np.datetime64) -> int:
        """Return the row of an instrument on a day.

        Raises:
            DataError: where the store has none; names what lies nearest.
        """
        if instrument not in self.instruments:
            hint = nearest_name(instrument, self.instruments)
            raise DataError(f"instrument must be in the store at {self.path}, was {instrument!r}{hint}")
        try:
            wanted = np.datetime64(str(day), "D")
        except ValueError as error:
            raise DataError(f"date must be an ISO date such as 2021-04-01, was {day!r}") from error
        rows = np.flatnonzero(self.row_instrument == self.instruments.index(instrument))
        days = self.dates[self.row_date[rows]]
        place = int(np.searchsorted(days, wanted))
        if place == len(days) or days[place] != wanted:
            around = ", ".join(str(known) for known in days[max(place - 1, 0) : place + 1])
            raise DataError(
                f"date must be a day of {instrument} in the store at {self.path} ({days[0]} to {days[-1]}), was {wanted}:"
                f" nearest {around}"
            )
        return int(rows[place])

    def tick_of(self, row: int, time: str) -> int:
        """Return the tick of a local time ``HH:MM``: the one that starts then, or follows a part that ends then.

        So it serves for the start of a window and for its exclusive end; the close gives ``session_ticks``.

        Raises:
            DataError: for a time outside the session or between two ticks.
        """
        labels = self._labels_of(row)
        tick = labels.tick(time)
        if tick is None:
            raise DataError(
                f"time must be HH:MM on the {self.tick_minutes}-minute grid of the session {labels.description} ({self.zone}) of"
                f" {self.instruments[self.row_instrument[row]]} on {self.dates[self.row_date[row]]}, was {time!r}"
            )
        return tick

    def tick_label(self, row: int, tick: int) -> str:
        """Return the local ``HH:MM`` at which a tick starts; of ``session_ticks``, the close."""
        return self._labels_of(row).of_tick[tick]

    def tick_start_utc(self, row: int) -> NDArray[np.datetime64]:
        """Return (num_ticks,) datetime64[ns] UTC; NaT after the session."""
        starts: NDArray[np.datetime64] = self._tick_start[self.row_date[row]]
        return starts

    def _labels_of(self, row: int) -> SessionLabels:
        day = int(self.row_date[row])
        if day not in self._labels:
            starts = self._tick_start[day, : self.session_ticks[row]]
            self._labels[day] = SessionLabels(starts, self.tick_minutes, self.zone)
        return self._labels[day]

    def _flat_of(self, field: str) -> Floats:
        flat = self._flat.get(field)
        if flat is None:
            if field not in self.fields:
                hint = nearest_name(field, self.fields)
                raise DataError(f"field must be one of {', '.join(self.fields)}, was {field!r}{hint} in {self.path}")
            # The view as a plain array: indexing a memmap object costs a microsecond of Python each time.
            try:
                flat = np.asarray(np.load(field_path(self.path, field), mmap_mode="r")).reshape(-1)
            except _DAMAGES as error:
                raise DataError(f"{field} of a market store must be whole, was damaged in {self.path}: {_REMEDY}") from error
            self._flat[field] = flat
        return flat


def _check_sizes(path: Path, files: dict[str, int]) -> None:
    for name, size in files.items():
        file = path / name
        if not file.is_file() or file.stat().st_size != size:
            was = f"{file.stat().st_size} bytes" if file.is_file() else "missing"
            raise DataError(f"{name} of a market store must have {size} bytes, was {was} in {path}: {_REMEDY}")


def field_path(folder: Path, field: str) -> Path:
    """Return where a field lies in a store's folder."""
    return folder / f"{field}.field.npy"


def read_manifest(path: Path) -> dict[str, Any]:
    """Return what a store's folder says about itself.

    Raises:
        DataError: where there is no store of this version.
    """
    file = path / MANIFEST
    if not file.is_file():
        raise DataError(f"a market store must be a folder that holds {MANIFEST}, was {path}: build it (fillwright data build)")
    try:
        manifest = json.loads(file.read_bytes())
        version = manifest["format_version"]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{MANIFEST} of a market store must be whole, was damaged in {path}: {_REMEDY}") from error
    if version != FORMAT_VERSION:
        raise DataError(f"format_version of a market store must be {FORMAT_VERSION}, was {version} in {path}: {_REMEDY}")
    return dict(manifest)


def previous_rows(row_instrument: Integers) -> Integers:
    """Return (rows,) the row before where it is the same instrument's, else -1."""
    rows = np.arange(len(row_instrument))
    return np.where(np.r_[False, np.diff(row_instrument) == 0], rows - 1, -1)


def _reopen(path: Path, fingerprint: str) -> MarketStore:
    store = MarketStore.open(path)
    if store.fingerprint != fingerprint:
        raise DataError(
            f"market store at {path} must have the fingerprint {fingerprint}, was {store.fingerprint}:"
            " it was built anew meanwhile; start again"
        )
    return store
