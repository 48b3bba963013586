"""Names of the columns of a bar and the table that carries bars from the files to the store.

A bar file is tidy: one row per instrument and bar. Required columns are ``datetime instrument open high low close volume``;
``amount vwap bid ask bid_size ask_size`` are kept where they are present. Header names are compared without regard to case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

REQUIRED_FIELDS = ("open", "high", "low", "close", "volume")
OPTIONAL_FIELDS = ("amount", "vwap", "bid", "ask", "bid_size", "ask_size")
PRICE_FIELDS = ("open", "high", "low", "close", "vwap", "bid", "ask")
TRADE_PRICE_FIELDS = ("open", "high", "low", "close")
QUANTITY_FIELDS = ("volume", "amount", "bid_size", "ask_size")
DERIVED_FIELDS = ("mark", "tradable_volume")
NANOSECONDS_PER_MINUTE = 60_000_000_000

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class BarFormat:
    """What a bar file does not say about itself."""

    timezone: str | None = None
    """IANA name of the zone of stamps without an offset. Such stamps are refused while this is not declared."""
    label: Literal["start", "end"] | None = None
    """Which end of the bar the stamp names. Must be declared with ``timezone``; with an offset it is the start by default."""
    instrument: str | None = None
    """Name of the instrument of files that have no instrument column."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Header in the file → our column name, for headers that differ by more than case."""
    extra_fields: tuple[str, ...] = ()
    """Further numeric columns to keep as fields of the store, causal at the end of their bar."""
    duplicates: Literal["refuse", "keep_last"] = "refuse"
    """What to do with two different bars of one instrument and time. Exact copies and empty twins are always dropped."""


@dataclass(frozen=True, slots=True)
class BarTable:
    """Bars in any order; every column has shape (bars,)."""

    instruments: tuple[str, ...]
    instrument: Integers
    """Index into ``instruments``."""
    start_utc: Integers
    """Start of the bar, nanoseconds since 1970-01-01 UTC."""
    values: dict[str, Floats]
    """Field → numbers; NaN = unknown."""
    files: tuple[Path, ...]
    file: Integers
    """Index into ``files``."""
    line: Integers
    """Line of a CSV (the header is line 1), row of a parquet (the first is row 0)."""

    def __len__(self) -> int:
        return len(self.start_utc)

    def take(self, which: Booleans | Integers) -> BarTable:
        """Return the bars named by a mask or by indices, in that order."""
        return replace(
            self,
            instrument=self.instrument[which],
            start_utc=self.start_utc[which],
            values={name: column[which] for name, column in self.values.items()},
            file=self.file[which],
            line=self.line[which],
        )

    def place(self, bar: int) -> str:
        """Return where a bar stands, for an error message."""
        path = self.files[self.file[bar]]
        stamp = np.datetime_as_string(np.datetime64(int(self.start_utc[bar]), "ns"), unit="m")
        return f"{path}, {line_word(path)} {self.line[bar]}, {self.instruments[self.instrument[bar]]} {stamp} UTC"


def line_word(path: Path) -> str:
    """Return how rows of this file are counted in messages."""
    return "line" if path.suffix.lower() == ".csv" else "row"
