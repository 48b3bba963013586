"""Bar files → market store, and the report on bar files without one."""

from __future__ import annotations

from dataclasses import asdict
from datetime import date
from pathlib import Path

import numpy as np

from rlcore.foundation.fingerprints import fingerprint_file
from rlcore.market.bar_checks import CheckedBars, check_bars
from rlcore.market.bar_files import read_bars, source_files
from rlcore.market.completeness import coverage_of, is_complete_day
from rlcore.market.day_grid import DayGrid, bars_through, grid_bars
from rlcore.market.quality import QualityReport, assess_quality, has_bar_on_grid
from rlcore.market.schema import REQUIRED_FIELDS, BarFormat
from rlcore.market.store import MarketStore
from rlcore.market.store_writing import FieldWriter, FillFields, StoreContent, build_key, open_or_build

_TIDY = BarFormat()


def build_store(
    source: Path | list[Path],
    destination: Path,
    *,
    calendar: str,
    tick_minutes: int,
    bar_format: BarFormat = _TIDY,
    through: date | None = None,
) -> MarketStore:
    """Validate bars once and keep them as a store. An equal store that lies at the destination already is opened as it is.

    Args:
        source: a ``.parquet`` or ``.csv`` file, a folder of them, or a list.
        destination: the store's folder.
        calendar: an ``exchange_calendars`` name (``XNYS``), ``24/7``, or sessions (``09:15-15:30 Asia/Kolkata``).
        tick_minutes: length of a bar.
        bar_format: what the files do not say about themselves.
        through: the last trading day to keep; None keeps all.

    Raises:
        DataError: for data that break the schema; nothing is left behind.
        ConfigError: for a calendar, zone or tick length that cannot be understood.
    """
    files = source_files(source)
    key = build_key(
        {
            "files": [fingerprint_file(path) for path in files],
            "calendar": calendar,
            "tick_minutes": tick_minutes,
            "bar_format": {**asdict(bar_format), "columns": dict(bar_format.columns)},
            "through": str(through),
        }
    )

    def prepare() -> tuple[StoreContent, FillFields]:
        checked, grid, report = _prepare(files, calendar, tick_minutes, bar_format, through)
        return _content(checked, grid, report, calendar, tick_minutes), _fill(checked, grid, bar_format)

    return open_or_build(destination, key, prepare)


def check_source(
    source: Path | list[Path], *, calendar: str, tick_minutes: int, bar_format: BarFormat = _TIDY, through: date | None = None
) -> QualityReport:
    """Return what bar files are like, without building a store. Arguments and errors as of ``build_store``."""
    return _prepare(source_files(source), calendar, tick_minutes, bar_format, through)[2]


def _prepare(
    files: tuple[Path, ...], calendar: str, tick_minutes: int, bar_format: BarFormat, through: date | None
) -> tuple[CheckedBars, DayGrid, QualityReport]:
    bars = read_bars(files, bar_format, tick_minutes)
    if through is not None:
        bars = bars_through(bars, calendar, tick_minutes, through)
    checked = check_bars(bars, bar_format.duplicates)
    grid = grid_bars(checked.bars, calendar, tick_minutes)
    return checked, grid, assess_quality(checked, grid, len(bars))


def _content(checked: CheckedBars, grid: DayGrid, report: QualityReport, calendar: str, tick_minutes: int) -> StoreContent:
    has_bar = has_bar_on_grid(checked, grid)
    session_ticks = grid.schedule.session_ticks[grid.row_date]
    return StoreContent(
        calendar=calendar,
        tick_minutes=tick_minutes,
        schedule=grid.schedule,
        instruments=grid.instruments,
        row_instrument=grid.row_instrument,
        row_date=grid.row_date,
        coverage=coverage_of(has_bar, session_ticks),
        is_complete=is_complete_day(has_bar, session_ticks),
        quality=report,
        signal=None,
    )


def _fill(checked: CheckedBars, grid: DayGrid, bar_format: BarFormat) -> FillFields:
    def fill(writer: FieldWriter) -> None:
        for name, column in checked.bars.values.items():
            # A column without one known number in the sessions is as good as absent, unless every bar must have it.
            if name in (*REQUIRED_FIELDS, *bar_format.extra_fields) or np.isfinite(column[grid.is_in_session]).any():
                writer.create(name)[:] = grid.dense(column)

    return fill
