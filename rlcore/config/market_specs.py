"""Where market data comes from: bars in files, or the synthetic market."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from rlcore.agents.specs import Spec
from rlcore.config.specs import InputPath, MarketSpec
from rlcore.foundation.errors import ConfigError

if TYPE_CHECKING:
    from rlcore.market.schema import BarFormat
    from rlcore.market.store import MarketStore


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, (str, Path)) else value


class BarsSpec(MarketSpec):
    """Bars in files: tidy parquet or plain CSV."""

    kind: Literal["bars"]
    source: Annotated[tuple[InputPath, ...], BeforeValidator(_as_list), Field(min_length=1)]
    """A file, a folder of files, or a list of either."""
    calendar: str
    """An exchange (XNYS, XNSE, XSHG, …), 24/7, or sessions with a zone: "09:15-15:30 Asia/Kolkata"."""
    tick_minutes: Annotated[int, Field(ge=1)] = 1
    """Minutes that one bar spans."""
    timezone: str | None = None
    """Zone of stamps without an offset."""
    label: Literal["start", "end"] | None = None
    """Which end of its bar a stamp names."""
    instrument: str | None = None
    """Name of the instrument of files that have no such column."""
    columns: dict[str, str] = Field(default_factory=dict)
    """Header in the file: our name of the column."""
    extra_fields: tuple[str, ...] = ()
    """Further columns of numbers to keep, known at the end of their bar: signals of one's own."""
    duplicates: Literal["refuse", "keep_last"] = "refuse"
    """What becomes of two different bars of one instrument and time."""

    def build_store(self, destination: Path, as_of: date | None) -> MarketStore:
        from rlcore.market.build_store import build_store

        return build_store(
            list(self.source),
            destination,
            calendar=self.calendar,
            tick_minutes=self.tick_minutes,
            bar_format=self.bar_format(),
            through=as_of,
        )

    def build_trial_store(self, folder: Path) -> MarketStore:
        from rlcore.config.trial_bars import write_trial_bars
        from rlcore.market.bar_files import source_files
        from rlcore.market.build_store import build_store
        from rlcore.market.schema import BarFormat

        source_files(list(self.source))  # an estimate reads no bars, but says that files are missing
        source = folder / "bars.parquet"
        write_trial_bars(source, self.calendar, self.tick_minutes, self.extra_fields)
        own = BarFormat(extra_fields=self.extra_fields)
        return build_store(source, folder / "store", calendar=self.calendar, tick_minutes=self.tick_minutes, bar_format=own)

    def bar_format(self) -> BarFormat:
        """Return what the files do not say about themselves."""
        from rlcore.market.schema import BarFormat

        return BarFormat(
            timezone=self.timezone,
            label=self.label,
            instrument=self.instrument,
            columns=self.columns,
            extra_fields=self.extra_fields,
            duplicates=self.duplicates,
        )


class MarkovSignalSpec(Spec):
    """A finite, observed Markov chain that moves the drift: the field ``signal``, and a known amount to learn."""

    values: Annotated[tuple[float, ...], Field(min_length=1)]
    """What the field shows in each state."""
    transition: tuple[tuple[float, ...], ...]
    """Probability of each state in the next step of the signal, one row for each state; rows sum to 1."""
    drift_bps: float
    """Drift of the price in basis points per step of the signal and unit of the value."""
    signal_ticks: Annotated[int, Field(ge=1, strict=True)]
    """Bars of one step of the signal; must divide the session."""


class SyntheticSpec(MarketSpec):
    """The synthetic market: reproducible, with a volume curve, clusters of volatility, a spread, and a signal if wanted."""

    kind: Literal["synthetic"]
    num_instruments: Annotated[int, Field(ge=1, strict=True)]
    """Instruments."""
    num_days: Annotated[int, Field(ge=1, strict=True)]
    """Weekdays from ``first_date`` on."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Root of the market's randomness. Not among ``seeds``: every training sees the same market."""
    calendar: str = "09:30-11:30,13:00-15:00 UTC"
    """Sessions with a zone."""
    tick_minutes: Annotated[int, Field(ge=1, strict=True)] = 1
    """Minutes that one bar spans."""
    first_date: date = date(2024, 1, 1)
    """Where the days begin."""
    daily_volatility_bps: Annotated[float, Field(ge=0)] = 150.0
    """Standard deviation of a day's move."""
    spread_bps: Annotated[float, Field(ge=0)] = 5.0
    """Mean distance of ask and bid."""
    mean_tick_volume: Annotated[float, Field(ge=0)] = 10_000.0
    """Mean shares in a bar."""
    signal: MarkovSignalSpec | None = None
    """What can be learned; null: nothing, prices are a martingale."""

    def build_store(self, destination: Path, as_of: date | None) -> MarketStore:
        from rlcore.market.markov_signal import MarkovSignal
        from rlcore.market.synthetic import SyntheticMarket, build_synthetic

        signal = None if self.signal is None else MarkovSignal(**self.signal.model_dump())
        market = SyntheticMarket(
            num_instruments=self.num_instruments,
            num_days=self._num_days_through(as_of),
            root_seed=self.seed,
            calendar=self.calendar,
            tick_minutes=self.tick_minutes,
            first_date=self.first_date.isoformat(),
            daily_volatility_bps=self.daily_volatility_bps,
            spread_bps=self.spread_bps,
            mean_tick_volume=self.mean_tick_volume,
            signal=signal,
        )
        return build_synthetic(market, destination)

    def build_trial_store(self, folder: Path) -> MarketStore:
        few = self.model_copy(update={"num_instruments": min(self.num_instruments, 4), "num_days": min(self.num_days, 8)})
        return few.build_store(folder / "store", None)

    def _num_days_through(self, as_of: date | None) -> int:
        if as_of is None:
            return self.num_days
        through = np.busday_count(self.first_date, as_of + timedelta(days=1))
        if through < 1:
            raise ConfigError(
                f"as-of date must not lie before market.first_date {self.first_date}, was {as_of}: choose a later day"
            )
        return min(self.num_days, int(through))
