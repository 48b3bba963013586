"""What a source of bars is like: the report of ``check_source``, kept inside every store."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rlcore.market.bar_checks import CheckedBars
from rlcore.market.completeness import coverage_of, is_complete_day
from rlcore.market.day_grid import DayGrid
from rlcore.market.schema import Booleans

# Above this share of zero volumes the column says nothing about what could have been traded.
_MAX_ZERO_VOLUME_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class InstrumentQuality:
    """One instrument of a source; bars are those inside a session."""

    instrument: str
    num_days: int
    num_incomplete_days: int
    num_missing_days: int
    """Days between the first and the last that the calendar expects (for explicit sessions: that another instrument has)."""
    num_bars: int
    mean_coverage: float
    zero_volume_share: float
    """Share of priced bars with a volume of zero, or of zero although the price moved."""
    num_unknown_volume: int
    """Priced bars whose volume is not known."""
    num_contradictory: int
    num_suspended: int

    @property
    def is_volume_usable(self) -> bool:
        """False where a limit on participation would mean nothing."""
        return self.zero_volume_share <= _MAX_ZERO_VOLUME_SHARE


@dataclass(frozen=True, slots=True)
class IncompleteDay:
    """A day with an outage."""

    instrument: str
    date: str
    num_bars: int
    num_ticks: int


@dataclass(frozen=True, slots=True)
class QualityReport:
    """What was found in a source."""

    num_bars: int
    """Rows read, before anything was dropped."""
    num_outside_session: int
    num_copies_dropped: int
    num_empty_twins_dropped: int
    num_revised: int
    instruments: tuple[InstrumentQuality, ...]
    incomplete_days: tuple[IncompleteDay, ...]

    def warnings(self) -> tuple[str, ...]:
        """Return what somebody should know before using the data, one sentence each."""
        found = []
        if self.num_outside_session:
            found.append(f"{self.num_outside_session} of {self.num_bars} bars lie outside every session and are left out.")
        if self.num_copies_dropped or self.num_empty_twins_dropped:
            found.append(
                f"{self.num_copies_dropped} exact copies and {self.num_empty_twins_dropped} empty twins of bars are dropped."
            )
        if self.num_revised:
            found.append(f"{self.num_revised} bars are replaced by a later row of the same instrument and time.")
        for one in self.instruments:
            found += _instrument_warnings(one)
        for day in self.incomplete_days:
            found.append(
                f"{day.instrument} {day.date} is incomplete: {day.num_bars} of {day.num_ticks} bars; no orders by default."
            )
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> QualityReport:
        """Return the report of ``to_dict``."""
        return cls(
            **{
                **data,
                "instruments": tuple(InstrumentQuality(**one) for one in data["instruments"]),
                "incomplete_days": tuple(IncompleteDay(**one) for one in data["incomplete_days"]),
            }
        )


def _instrument_warnings(one: InstrumentQuality) -> list[str]:
    found = []
    if not one.is_volume_usable:
        found.append(
            f"{one.instrument}: {one.zero_volume_share:.0%} of the bars have zero volume; its volume cannot limit execution"
            " (leave the participation cap out, or the instrument)."
        )
    if one.num_contradictory:
        found.append(
            f"{one.instrument}: {one.num_contradictory} bars contradict themselves; what cannot be believed in them is unknown."
        )
    if one.num_unknown_volume:
        found.append(f"{one.instrument}: {one.num_unknown_volume} bars have a price but no known volume; nothing trades in them.")
    if one.num_suspended:
        found.append(f"{one.instrument}: {one.num_suspended} bars are suspended (price and volume 0).")
    if one.num_missing_days:
        found.append(f"{one.instrument}: {one.num_missing_days} days between its first and its last have no bar at all.")
    return found


def has_bar_on_grid(checked: CheckedBars, grid: DayGrid) -> Booleans:
    """Return (rows, ticks) True where the feed gave any price or quote."""
    quoted = [checked.bars.values[name] for name in ("close", "bid", "ask") if name in checked.bars.values]
    is_known = np.logical_or.reduce([np.isfinite(column) for column in quoted])
    return np.isfinite(grid.dense(np.where(is_known, 1.0, np.nan)))


def assess_quality(checked: CheckedBars, grid: DayGrid, num_read: int) -> QualityReport:
    """Return the report of bars on their grid; ``num_read`` rows stood in the files."""
    has_bar = has_bar_on_grid(checked, grid)
    session_ticks = grid.schedule.session_ticks[grid.row_date]
    is_complete = is_complete_day(has_bar, session_ticks)
    coverage = coverage_of(has_bar, session_ticks)
    inside = checked.bars.take(grid.is_in_session)
    bar_instrument = grid.row_instrument[grid.bar_row]
    is_priced, volume = np.isfinite(inside.values["close"]), inside.values["volume"]
    is_suspended, is_contradictory = checked.is_suspended[grid.is_in_session], checked.is_contradictory[grid.is_in_session]
    # A volume of zero beside a moving price was made unknown, yet it was delivered as zero.
    is_zero = (volume == 0) | (np.isnan(volume) & is_contradictory)
    instruments = []
    for index, name in enumerate(grid.instruments):
        rows, own = grid.row_instrument == index, bar_instrument == index
        priced = own & is_priced
        instruments.append(
            InstrumentQuality(
                instrument=name,
                num_days=int(rows.sum()),
                num_incomplete_days=int((rows & ~is_complete).sum()),
                num_missing_days=int(grid.missing_days[index]),
                num_bars=int(has_bar[rows].sum()),
                mean_coverage=float(coverage[rows].mean()),
                zero_volume_share=float(is_zero[priced].mean()) if priced.any() else 1.0,
                num_unknown_volume=int((priced & np.isnan(volume)).sum()),
                num_contradictory=int((own & is_contradictory).sum()),
                num_suspended=int((own & is_suspended).sum()),
            )
        )
    incomplete = tuple(
        IncompleteDay(
            instrument=grid.instruments[grid.row_instrument[row]],
            date=str(grid.schedule.dates[grid.row_date[row]]),
            num_bars=int(has_bar[row].sum()),
            num_ticks=int(session_ticks[row]),
        )
        for row in np.flatnonzero(~is_complete)
    )
    return QualityReport(
        num_bars=num_read,
        num_outside_session=int((~grid.is_in_session).sum()),
        num_copies_dropped=checked.num_copies_dropped,
        num_empty_twins_dropped=checked.num_empty_twins_dropped,
        num_revised=checked.num_revised,
        instruments=tuple(instruments),
        incomplete_days=incomplete,
    )
