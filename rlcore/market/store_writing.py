"""Writes a store: whole or not at all, and safely beside others who build the same one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.foundation.atomic_files import folder_written_atomically
from rlcore.foundation.errors import DataError
from rlcore.foundation.file_locks import lock_in_turn
from rlcore.foundation.fingerprints import fingerprint_arrays, fingerprint_file, fingerprint_of, fingerprint_sources
from rlcore.market.array_files import create_array
from rlcore.market.calendars import SessionSchedule
from rlcore.market.derived_fields import last_known, mark, opening_mark, tradable_volume
from rlcore.market.features import BLOCK_ROWS, HISTORY_FILE, write_history
from rlcore.market.markov_signal import MarkovSignal
from rlcore.market.quality import QualityReport
from rlcore.market.schema import DERIVED_FIELDS, Booleans, Floats, Integers
from rlcore.market.store import FORMAT_VERSION, INDEX, MANIFEST, MarketStore, field_path, read_manifest


@dataclass(frozen=True, slots=True)
class StoreContent:
    """Everything of a store but its fields."""

    calendar: str
    tick_minutes: int
    schedule: SessionSchedule
    instruments: tuple[str, ...]
    row_instrument: Integers
    row_date: Integers
    coverage: Floats
    is_complete: Booleans
    quality: QualityReport | None
    signal: MarkovSignal | None


class FieldWriter:
    """Creates the arrays of fields inside a store's folder."""

    def __init__(self, folder: Path, num_rows: int, num_ticks: int) -> None:
        self.folder = folder
        self.names: list[str] = []
        self.num_ticks = num_ticks
        self._shape = (num_rows + 1, num_ticks)

    def create(self, name: str) -> Floats:
        """Return a field to fill, (rows, ticks).

        One row of NaN follows it on disk, so that a window which begins in the last row may reach beyond.
        """
        field = create_array(field_path(self.folder, name), np.float64, self._shape)
        field[-1] = np.nan
        self.names.append(name)
        return np.asarray(field)[:-1]


FillFields = Callable[[FieldWriter], None]


def build_key(parameters: dict[str, Any]) -> str:
    """Return the identity of a build: its parameters, the store's version and the code of this package."""
    return fingerprint_of({**parameters, "format_version": FORMAT_VERSION, "code": fingerprint_sources(Path(__file__).parent)})


def open_or_build(destination: Path, key: str, prepare: Callable[[], tuple[StoreContent, FillFields]]) -> MarketStore:
    """Open the store of an equal build that lies at the destination already; else write it.

    Args:
        destination: the store's folder; another store that lies there is replaced.
        key: see ``build_key``.
        prepare: returns the index, and what creates and fills the fields (``close`` and ``volume`` among them).

    Raises:
        DataError: where the destination cannot be written, or holds something that is no store; nothing is left behind.
    """
    with _sole_builder(destination):
        existing = _existing_store(destination, key)
        if existing is not None:
            return existing
        content, fill = prepare()
        _write_store(destination, key, content, fill)
        return MarketStore.open(destination)


@contextmanager
def _sole_builder(destination: Path) -> Iterator[None]:
    """Let one process at a time build beside ``destination``, so that who waits finds the store ready.

    The lock lies on the parent folder itself and ends with the process: nothing is left behind.
    """
    with _writing_to(destination):
        destination.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(destination.parent, os.O_RDONLY)
    try:
        lock_in_turn(descriptor)
        yield
    finally:
        os.close(descriptor)


def _existing_store(destination: Path, key: str) -> MarketStore | None:
    if not destination.exists():
        return None
    if not destination.is_dir() or (any(destination.iterdir()) and not (destination / MANIFEST).exists()):
        raise DataError(f"destination must be a new folder or a market store, {destination} holds something else: choose another")
    try:
        return MarketStore.open(destination) if read_manifest(destination)["build_key"] == key else None
    except DataError:
        return None  # of another version, or damaged: to be replaced


def _write_store(destination: Path, key: str, content: StoreContent, fill: FillFields) -> None:
    with _writing_to(destination), folder_written_atomically(destination) as folder:
        writer = FieldWriter(folder, len(content.row_instrument), content.schedule.tick_start.shape[1])
        fill(writer)
        described, index = _describe(content, (*writer.names, *DERIVED_FIELDS))
        np.savez(folder / INDEX, **index)  # type: ignore[arg-type]  # the stub takes the names for allow_pickle
        draft = MarketStore(folder, described, index)
        _write_derived(writer, draft)
        write_history(draft, folder / HISTORY_FILE)
        contents = {name: fingerprint_file(field_path(folder, name)) for name in writer.names}
        described["fingerprint"] = fingerprint_of({**described, "index": fingerprint_arrays(index), "contents": contents})
        described["quality"] = content.quality.to_dict() if content.quality else None
        described["build_key"] = key
        described["files"] = {file.name: file.stat().st_size for file in sorted(folder.iterdir())}
        (folder / MANIFEST).write_text(json.dumps(described, indent=1))


@contextmanager
def _writing_to(destination: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise DataError(f"destination must be a folder that can be written, was {destination}: {reason}") from error


def _describe(content: StoreContent, fields: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    described = {
        "format_version": FORMAT_VERSION,
        "fingerprint": "",
        "calendar": content.calendar,
        "zone": content.schedule.zone,
        "tick_minutes": content.tick_minutes,
        "fields": list(fields),
        "instruments": list(content.instruments),
        "signal": content.signal.to_dict() if content.signal else None,
    }
    index = {
        "dates": content.schedule.dates.view(np.int64),
        "tick_start": content.schedule.tick_start.view(np.int64),
        "date_ticks": content.schedule.session_ticks,
        "row_instrument": content.row_instrument,
        "row_date": content.row_date,
        "coverage": content.coverage,
        "is_complete": content.is_complete,
    }
    return described, index


def _write_derived(writer: FieldWriter, store: MarketStore) -> None:
    close, volume = store.array("close"), store.array("volume")
    marks, tradable = (writer.create(name) for name in DERIVED_FIELDS)
    blocks = [slice(first, first + BLOCK_ROWS) for first in range(0, store.num_rows, BLOCK_ROWS)]
    opening = opening_mark(np.concatenate([last_known(close[rows]) for rows in blocks]), store.row_instrument)
    for rows in blocks:
        is_session = np.arange(store.num_ticks) < store.session_ticks[rows, None]
        marks[rows] = mark(close[rows], opening[rows], is_session)
        tradable[rows] = tradable_volume(close[rows], volume[rows])
