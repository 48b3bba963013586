"""Reads tidy parquet and plain CSV into one table of bars. No value is judged here beyond being a number."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from rlcore.foundation.csv_files import csv_header, csv_rows
from rlcore.foundation.errors import DataError, nearest_name
from rlcore.market.schema import DERIVED_FIELDS, OPTIONAL_FIELDS, REQUIRED_FIELDS, BarFormat, BarTable, Floats, line_word
from rlcore.market.timestamps import bar_starts

_SUFFIXES = (".csv", ".parquet")


def source_files(source: Path | list[Path]) -> tuple[Path, ...]:
    """Return the bar files of a source: a file, a folder of ``*.csv`` and ``*.parquet``, or a list of either.

    Raises:
        DataError: where there is none, or one of another kind.
    """
    files: list[Path] = []
    for path in source if isinstance(source, list) else [source]:
        if path.is_dir():
            files += sorted(child for child in path.iterdir() if child.suffix.lower() in _SUFFIXES)
        elif not path.is_file():
            raise DataError(f"source must be an existing file or folder, was {path}{_near(path)}")
        elif path.suffix.lower() not in _SUFFIXES:
            raise DataError(f"a bar file must end with .csv or .parquet, was {path}: convert it first")
        else:
            files.append(path)
    if not files:
        raise DataError(f"source must hold at least one .csv or .parquet file, was {source}")
    return tuple(files)


def read_bars(files: tuple[Path, ...], bar_format: BarFormat, tick_minutes: int) -> BarTable:
    """Return the bars of all files in the order in which they stand there.

    Raises:
        DataError: for a file that cannot be read, a missing column, a cell that is no number, or a stamp without a zone.
    """
    tables = [_read_file(path, bar_format, tick_minutes) for path in files]
    names = sorted({name for table in tables for name in table.instruments})
    fields = [name for name in _fields(bar_format) if any(name in table.values for table in tables)]
    position = {name: index for index, name in enumerate(names)}
    return BarTable(
        instruments=tuple(names),
        instrument=np.concatenate([np.array([position[n] for n in t.instruments])[t.instrument] for t in tables]),
        start_utc=np.concatenate([t.start_utc for t in tables]),
        values={f: np.concatenate([t.values.get(f, np.full(len(t), np.nan)) for t in tables]) for f in fields},
        files=files,
        file=np.repeat(np.arange(len(files)), [len(t) for t in tables]),
        line=np.concatenate([t.line for t in tables]),
    )


def _fields(bar_format: BarFormat) -> tuple[str, ...]:
    return (*REQUIRED_FIELDS, *OPTIONAL_FIELDS, *bar_format.extra_fields)


def _read_file(path: Path, bar_format: BarFormat, tick_minutes: int) -> BarTable:
    frame = _read_csv(path, bar_format) if path.suffix.lower() == ".csv" else _read_parquet(path, bar_format)
    lines = frame.index.to_numpy().astype(np.int64)
    if not len(frame):
        raise DataError(f"a bar file must hold at least one row, {path} holds none: leave it out of the source")
    if "instrument" in frame:
        if frame["instrument"].isna().any():
            empty = lines[frame["instrument"].isna()]
            raise DataError(f"instrument must be given in every row, was empty in {path}, {line_word(path)} {empty[0]}")
        codes, names = pd.factorize(frame["instrument"].astype(str))
    else:
        codes, names = np.zeros(len(frame), np.int64), pd.Index([str(bar_format.instrument)])
    codes = codes.astype(np.int64)
    return BarTable(
        instruments=tuple(str(name) for name in names),
        instrument=codes,
        start_utc=bar_starts(frame["datetime"], codes, path, lines, bar_format, tick_minutes),
        values={name: _numbers(frame[name], path) for name in _fields(bar_format) if name in frame},
        files=(path,),
        file=np.zeros(len(frame), np.int64),
        line=lines,
    )


def _read_csv(path: Path, bar_format: BarFormat) -> pd.DataFrame:
    try:
        chosen = _choose_columns(path, csv_header(path), bar_format)
        text = {name: str for name, ours in chosen.items() if ours in ("instrument", "datetime")}
        frame = csv_rows(path, dtype=text)[list(chosen)]
    except (ValueError, OSError) as error:
        raise DataError(
            f"a bar file must be a readable UTF-8 CSV with commas between cells and points in numbers, was {path}: {error}"
        ) from error
    return frame.rename(columns=chosen).dropna(how="all")


def _read_parquet(path: Path, bar_format: BarFormat) -> pd.DataFrame:
    try:
        chosen = _choose_columns(path, pq.read_schema(path).names, bar_format)
        frame: pd.DataFrame = pq.read_table(path, columns=list(chosen)).to_pandas(ignore_metadata=True)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"a bar file must be a readable parquet, was {path}: {error}") from error
    return frame.rename(columns=chosen)


def _choose_columns(path: Path, header: list[str], bar_format: BarFormat) -> dict[str, str]:
    """Return header in the file → our name, for the columns that we read."""
    lower = {name.strip().lower(): name for name in header}
    repeated = [name for name, count in Counter(name.strip().lower() for name in header).items() if count > 1]
    chosen: dict[str, str] = {}
    for theirs, ours in bar_format.columns.items():
        if theirs.strip().lower() not in lower:
            hint = nearest_name(theirs, header)
            raise DataError(f"columns must name headers of the file ({', '.join(header)}), named {theirs!r}{hint} in {path}")
        chosen[lower[theirs.strip().lower()]] = ours
    reserved = sorted(set(bar_format.extra_fields) & set(DERIVED_FIELDS))
    if reserved:
        raise DataError(f"extra_fields must not be derived fields of the store, were {', '.join(reserved)}: rename the column")
    for ours in ("datetime", "instrument", *_fields(bar_format)):
        if ours in lower and ours not in chosen.values() and lower[ours] not in chosen:
            chosen[lower[ours]] = ours
    needed = ("datetime", *(() if bar_format.instrument else ("instrument",)), *REQUIRED_FIELDS, *bar_format.extra_fields)
    for name in needed:
        if name not in chosen.values():
            remedy = "add it, or map a header with columns: {header: " + name + "}"
            remedy += "; or say which instrument the file holds" if name == "instrument" else ""
            raise DataError(f"columns must include {name!r}, were {', '.join(header)} in {path}: {remedy}")
    for theirs in chosen:
        if theirs.strip().lower() in repeated:
            raise DataError(f"columns must stand once, {theirs!r} stands twice in {path}: remove or rename one of them")
    return chosen


def _numbers(column: pd.Series, path: Path) -> Floats:
    numbers: Floats = pd.to_numeric(column, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    broken = np.isnan(numbers) & column.notna().to_numpy()
    if broken.any():
        first = int(np.flatnonzero(broken)[0])
        raise DataError(
            f"{column.name} must be a number or empty, was {column.iloc[first]!r} in {path},"
            f" {line_word(path)} {column.index[first]}: mend the file"
        )
    return numbers


def _near(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f" (there is no folder {folder})"
    return nearest_name(path.name, [child.name for child in folder.iterdir()])
