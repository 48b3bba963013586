"""The synthetic market: the embedded default, reproducible, and with a known amount to learn.

Prices are arithmetic within a day. With P_0 the last close of the day before (on the first day a price between 20 and 200)
and ticks t = 0, 1, …

    mark_t = P_0 · (1 + Σ_{u ≤ t} (drift_u + noise_u)),    noise_u = σ_u · v_u · z_u,    z_u ~ N(0, 1) independent of all else

so that the expected price of any schedule is exact (``MarkovSignal`` says what the drift is; without a signal it is 0 and the
mark is a martingale). There is no gap overnight. σ_u² is U-shaped over the day, and v_u, with E[v²] = 1, is the exponential
of a day part and a tick part, both first-order autoregressive: volatility clusters within and across days. Volume follows a
U-shaped curve, is log-normal and rises with volatility. The spread widens with volatility. Volume, volatility and spread are
independent of the signal and of z.

Fields: open high low close vwap volume bid ask, and ``signal`` where there is one. A bar opens at the mark before it; its
vwap is the middle of open and close; bid and ask are quotes at its end.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from rlcore.foundation.errors import ConfigError
from rlcore.foundation.random_streams import key_generator
from rlcore.market.calendars import Dates, SessionSchedule, schedule_sessions
from rlcore.market.markov_signal import MarkovSignal, draw_states, published_signal
from rlcore.market.schema import Floats
from rlcore.market.store import MarketStore
from rlcore.market.store_writing import FieldWriter, FillFields, StoreContent, build_key, open_or_build

FIELDS = ("open", "high", "low", "close", "vwap", "volume", "bid", "ask")
# Shape of the log-volatility: standard deviation and persistence of its two parts, from day to day and from tick to tick.
_DAY_DEVIATION, _DAY_PERSISTENCE = 0.35, 0.9
_TICK_DEVIATION, _TICK_PERSISTENCE = 0.35, 0.97
_LOG_VARIANCE = _DAY_DEVIATION**2 + _TICK_DEVIATION**2
# Log-volume: how much follows log-volatility, and the deviation of what does not.
_VOLUME_ON_VOLATILITY, _VOLUME_DEVIATION = 0.8, 0.5
# Curve over the day 1 + depth · (2x - 1)²: volume at the ends over volume at noon is 1 + depth.
_VOLUME_DEPTH, _VOLATILITY_DEPTH = 2.0, 1.0
_FIRST_PRICES = (20.0, 200.0)


@dataclass(frozen=True, slots=True)
class SyntheticMarket:
    """What the synthetic market is like. The same values give the same store, bit for bit."""

    num_instruments: int
    num_days: int
    """Weekdays from ``first_date`` on."""
    root_seed: int
    calendar: str = "09:30-11:30,13:00-15:00 UTC"
    """Sessions with a zone, as explicit calendars; no holidays."""
    tick_minutes: int = 1
    first_date: str = "2024-01-01"
    daily_volatility_bps: float = 150.0
    spread_bps: float = 5.0
    """Mean of (ask - bid) / mark."""
    mean_tick_volume: float = 10_000.0
    """Shares."""
    signal: MarkovSignal | None = None

    def __post_init__(self) -> None:
        for name in ("num_instruments", "num_days"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, was {getattr(self, name)}")
        for name in ("daily_volatility_bps", "spread_bps", "mean_tick_volume"):
            if not (np.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise ConfigError(f"{name} must be finite and not negative, was {getattr(self, name)}")


def build_synthetic(market: SyntheticMarket, destination: Path) -> MarketStore:
    """Generate the market and keep it as a store. An equal store that lies at the destination already is opened as it is.

    Raises:
        ConfigError: where the day is no whole number of the signal's steps, or volatility and drift make a price negative.
        DataError: where the destination cannot be written; nothing is left behind.
    """
    key = build_key({"synthetic": asdict(market)})
    return open_or_build(destination, key, lambda: (_content(market), _fill(market)))


def generate_instrument(market: SyntheticMarket, instrument: int, num_ticks: int) -> dict[str, Floats]:
    """Return the fields of one instrument, each (days, ticks).

    They depend neither on how many other instruments there are nor on how many days follow: a shorter market is the beginning
    of a longer one, so that a run as of an earlier day saw the same past. Hence each draw has the days first, and its own stream.
    """
    shape = (market.num_days, num_ticks)

    def generator(purpose: str) -> np.random.Generator:
        # One stream per purpose: adding the signal leaves noise and volume as they were.
        return key_generator(market.root_seed, "synthetic market", purpose, instrument)

    day_shocks, tick_shocks = (generator(f"volatility of {part}").standard_normal for part in ("days", "ticks"))
    log_volatility = _log_volatility(day_shocks(market.num_days), tick_shocks(shape))
    volatility = np.exp(log_volatility - _LOG_VARIANCE)
    tick_deviation = market.daily_volatility_bps * 1e-4 / np.sqrt(num_ticks) * np.sqrt(day_curve(num_ticks, _VOLATILITY_DEPTH))
    scale = tick_deviation * volatility
    moves = scale * generator("noise").standard_normal(shape)
    fields: dict[str, Floats] = {}
    if market.signal is not None:
        num_steps = num_ticks // market.signal.signal_ticks
        states = draw_states(market.signal, market.num_days, num_steps, generator("signal"))
        drift = market.signal.drift_of_state[states] / market.signal.signal_ticks
        moves += np.repeat(drift, market.signal.signal_ticks, axis=1)
        fields["signal"] = published_signal(market.signal, states)
    fields |= _prices(market, moves, scale, generator("prices"))
    fields |= _quotes(market, fields["close"], log_volatility)
    fields["volume"] = _volume(market, log_volatility, generator("volume"))
    return fields


def day_curve(num_ticks: int, depth: float) -> Floats:
    """Return the U-shaped curve 1 + depth · (2x - 1)² at the middle of each tick, scaled to mean 1."""
    middle = (np.arange(num_ticks) + 0.5) / num_ticks
    curve: Floats = 1.0 + depth * (2.0 * middle - 1.0) ** 2
    curve /= curve.mean()
    return curve


def _content(market: SyntheticMarket) -> StoreContent:
    schedule = _schedule(market)
    num_ticks = schedule.tick_start.shape[1]
    if market.signal is not None and num_ticks % market.signal.signal_ticks:
        raise ConfigError(f"signal_ticks must divide the {num_ticks} ticks of a day, was {market.signal.signal_ticks}")
    num_rows = market.num_instruments * market.num_days
    width = len(str(market.num_instruments - 1))
    return StoreContent(
        calendar=market.calendar,
        tick_minutes=market.tick_minutes,
        schedule=schedule,
        instruments=tuple(f"SYN.{index:0{width}d}" for index in range(market.num_instruments)),
        row_instrument=np.repeat(np.arange(market.num_instruments), market.num_days),
        row_date=np.tile(np.arange(market.num_days), market.num_instruments),
        coverage=np.ones(num_rows),
        is_complete=np.ones(num_rows, bool),
        quality=None,
        signal=market.signal,
    )


def _fill(market: SyntheticMarket) -> FillFields:
    def fill(writer: FieldWriter) -> None:
        num_ticks = writer.num_ticks
        names = FIELDS if market.signal is None else (*FIELDS, "signal")
        arrays = {name: writer.create(name) for name in names}
        for instrument in range(market.num_instruments):
            rows = slice(instrument * market.num_days, (instrument + 1) * market.num_days)
            for name, values in generate_instrument(market, instrument, num_ticks).items():
                arrays[name][rows] = values

    return fill


def _schedule(market: SyntheticMarket) -> SessionSchedule:
    try:
        dates: Dates = np.busday_offset(market.first_date, np.arange(market.num_days), roll="forward")
    except ValueError as error:
        raise ConfigError(f"first_date must be an ISO date such as 2024-01-01, was {market.first_date!r}") from error
    middays = (dates + np.timedelta64(11, "h")).astype("datetime64[ns]").view(np.int64)
    schedule = schedule_sessions(market.calendar, market.tick_minutes, middays)
    if not np.array_equal(schedule.dates, dates) or (schedule.session_ticks != schedule.session_ticks[0]).any():
        raise ConfigError(
            f"calendar of a synthetic market must be sessions of one length on every weekday, such as"
            f" '09:30-11:30,13:00-15:00 UTC', was {market.calendar!r}"
        )
    return schedule


def _log_volatility(day_shocks: Floats, tick_shocks: Floats) -> Floats:
    day = _autoregression(day_shocks[None], _DAY_PERSISTENCE)[0]
    tick = _autoregression(tick_shocks, _TICK_PERSISTENCE)
    log_volatility: Floats = _DAY_DEVIATION * day[:, None] + _TICK_DEVIATION * tick
    return log_volatility


def _autoregression(shocks: Floats, persistence: float) -> Floats:
    """Return x_t = a x_{t-1} + √(1 - a²) ε_t along the last axis, started in its stationary law N(0, 1)."""
    from scipy.signal import lfilter  # imported here because it takes a second

    drive = np.sqrt(1.0 - persistence**2) * shocks
    drive[:, 0] = shocks[:, 0]
    return np.asarray(lfilter([1.0], [1.0, -persistence], drive, axis=-1))


def _prices(market: SyntheticMarket, moves: Floats, scale: Floats, generator: np.random.Generator) -> dict[str, Floats]:
    growth = 1.0 + np.cumsum(moves, axis=1)
    start = generator.uniform(*_FIRST_PRICES) * np.cumprod(np.r_[1.0, growth[:-1, -1]])
    close = start[:, None] * growth
    opened = np.concatenate([start[:, None], close[:, :-1]], axis=1)
    # Inside a bar the price strays a little beyond its ends.
    reach = (start[:, None] * scale)[:, :, None] * np.abs(generator.standard_normal((*moves.shape, 2))) * 0.5
    low = np.minimum(opened, close) - reach[:, :, 0]
    if low.min() <= 0:
        raise ConfigError(
            "prices of the synthetic market must stay positive, did not with"
            f" daily_volatility_bps {market.daily_volatility_bps:g} and the drift of its signal: choose smaller ones"
        )
    return {
        "open": opened,
        "high": np.maximum(opened, close) + reach[:, :, 1],
        "low": low,
        "close": close,
        "vwap": (opened + close) / 2.0,
    }


def _quotes(market: SyntheticMarket, close: Floats, log_volatility: Floats) -> dict[str, Floats]:
    multiple: Floats = np.exp(log_volatility - _LOG_VARIANCE / 2.0)
    half_spread = market.spread_bps * 1e-4 / 2.0 * multiple * close
    return {"bid": close - half_spread, "ask": close + half_spread}


def _volume(market: SyntheticMarket, log_volatility: Floats, generator: np.random.Generator) -> Floats:
    deviation_squared = _VOLUME_ON_VOLATILITY**2 * _LOG_VARIANCE + _VOLUME_DEVIATION**2
    noise = _VOLUME_DEVIATION * generator.standard_normal(log_volatility.shape)
    multiple = np.exp(_VOLUME_ON_VOLATILITY * log_volatility + noise - deviation_squared / 2.0)
    return np.maximum(np.rint(market.mean_tick_volume * day_curve(log_volatility.shape[1], _VOLUME_DEPTH) * multiple), 1.0)
