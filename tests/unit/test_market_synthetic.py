"""The synthetic market keeps what its docstring promises; expected values are closed forms, tolerances standard errors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rlcore.foundation.errors import ConfigError
from rlcore.market import MarketStore, MarkovSignal, SyntheticMarket, build_synthetic, history_features
from rlcore.market.markov_signal import draw_states, published_signal
from rlcore.market.synthetic import day_curve, generate_instrument

TICKS, STEP = 240, 30
SIGNAL = MarkovSignal(
    values=(-1.0, 0.0, 2.0), transition=((0.7, 0.2, 0.1), (0.15, 0.7, 0.15), (0.1, 0.2, 0.7)), drift_bps=8.0, signal_ticks=STEP
)
MARKET = SyntheticMarket(num_instruments=3, num_days=40, root_seed=5)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> MarketStore:
    return build_synthetic(replace(MARKET, signal=SIGNAL), tmp_path_factory.mktemp("market") / "store")


def start_prices(store: MarketStore) -> np.ndarray:
    return store.array("open")[:, 0]


def test_shape_and_calendar(store: MarketStore) -> None:
    assert (store.num_rows, store.num_ticks) == (120, TICKS)
    assert store.is_complete.all()
    assert store.tick_label(0, 120) == "13:00"
    assert np.is_busday(store.dates).all()
    assert store.signal == SIGNAL


def test_bars_are_consistent(store: MarketStore) -> None:
    opened, high, low, close, vwap, bid, ask = (
        store.array(name) for name in ("open", "high", "low", "close", "vwap", "bid", "ask")
    )
    assert (low > 0).all()
    assert ((low <= np.minimum(opened, close)) & (high >= np.maximum(opened, close))).all()
    np.testing.assert_array_equal(opened[:, 1:], close[:, :-1])
    np.testing.assert_allclose(vwap, (opened + close) / 2, rtol=1e-15)
    assert ((bid < close) & (close < ask)).all()
    assert (store.array("volume") >= 1).all()
    assert np.isfinite(history_features(store).array).all()


def test_no_gap_overnight(store: MarketStore) -> None:
    has_previous = store.previous_row >= 0
    last_close = store.array("close")[store.previous_row[has_previous], -1]
    np.testing.assert_allclose(start_prices(store)[has_previous], last_close, rtol=1e-12)


def test_without_noise_the_price_is_the_published_drift(tmp_path: Path) -> None:
    """mark_t - mark_{t-1} = P_0 drift_bps 1e-4 signal_{t-1} / L, exactly, wherever the signal is known."""
    quiet = build_synthetic(replace(MARKET, signal=SIGNAL, daily_volatility_bps=0.0), tmp_path / "quiet")
    signal, mark = quiet.array("signal"), quiet.array("mark")
    moves = np.diff(mark, axis=1) / start_prices(quiet)[:, None]
    assert np.isnan(signal[:, : STEP - 1]).all()
    assert np.isfinite(signal[:, STEP - 1 :]).all()
    expected = SIGNAL.drift_bps * 1e-4 * signal[:, STEP - 1 : -1] / STEP
    np.testing.assert_allclose(moves[:, STEP - 1 :], expected, atol=1e-14)
    # The unpublished first step drifts by one of the values too, the same in all of its ticks.
    first = moves[:, : STEP - 1] * STEP / (SIGNAL.drift_bps * 1e-4)
    assert set(np.round(first, 8).ravel()) <= set(SIGNAL.values)
    np.testing.assert_allclose(first, np.broadcast_to(first[:, :1], first.shape), atol=1e-8)


def test_published_signal_by_hand() -> None:
    signal = MarkovSignal(values=(5.0, 7.0), transition=((0.5, 0.5), (0.5, 0.5)), drift_bps=1.0, signal_ticks=3)
    field = published_signal(signal, np.array([[0, 1, 0]]))
    np.testing.assert_array_equal(field, [[np.nan, np.nan, 7, 7, 7, 5, 5, 5, 5]])
    np.testing.assert_array_equal(published_signal(signal, np.array([[1]])), [[np.nan] * 3])


def test_stationary_law_of_two_states() -> None:
    """π = (b, a) / (a + b) for P = ((1 - a, a), (b, 1 - b))."""
    signal = MarkovSignal(values=(0.0, 1.0), transition=((0.9, 0.1), (0.3, 0.7)), drift_bps=1.0, signal_ticks=1)
    np.testing.assert_allclose(signal.stationary, [0.75, 0.25], atol=1e-12)


def test_stationary_law_is_a_fixed_point() -> None:
    np.testing.assert_allclose(SIGNAL.stationary @ SIGNAL.transition_matrix, SIGNAL.stationary, atol=1e-12)
    assert SIGNAL.stationary.sum() == pytest.approx(1.0)


def test_states_follow_their_law() -> None:
    states = draw_states(SIGNAL, 40_000, 4, np.random.default_rng(0))
    for step in range(4):
        share = np.bincount(states[:, step], minlength=3) / len(states)
        error = np.sqrt(SIGNAL.stationary * (1 - SIGNAL.stationary) / len(states))
        assert (np.abs(share - SIGNAL.stationary) < 4.5 * error).all()
    for state in range(3):
        following = states[:, 1:][states[:, :-1] == state]
        law = SIGNAL.transition_matrix[state]
        share = np.bincount(following, minlength=3) / len(following)
        assert (np.abs(share - law) < 4.5 * np.sqrt(law * (1 - law) / len(following))).all()


def test_degenerate_chain_stays_in_its_cycle() -> None:
    cycle = MarkovSignal(values=(0.0, 1.0), transition=((0.0, 1.0), (1.0, 0.0)), drift_bps=1.0, signal_ticks=1)
    states = draw_states(cycle, 100, 6, np.random.default_rng(0))
    assert (np.diff(states, axis=1) != 0).all()


def test_noise_is_a_martingale_whatever_signal_and_volatility_were() -> None:
    """What is left of the moves after the drift has mean zero, also given the signal or the last move's sign or size."""
    market = replace(MARKET, num_instruments=1, num_days=3000, signal=SIGNAL)
    fields = generate_instrument(market, 0, TICKS)
    start = fields["open"][:, :1]
    noise = (fields["close"] - fields["open"])[:, STEP:] / start
    noise = noise - SIGNAL.drift_bps * 1e-4 * fields["signal"][:, STEP - 1 : -1] / STEP
    before = (fields["close"] - fields["open"])[:, STEP - 1 : -1] / start
    conditions = {
        "always": np.ones_like(noise, bool),
        "after a rise": before > 0,
        "after a fall": before < 0,
        "after a large move": np.abs(before) > np.quantile(np.abs(before), 0.9),
        **{f"signal {value}": fields["signal"][:, STEP - 1 : -1] == value for value in SIGNAL.values},
    }
    for name, which in conditions.items():
        chosen = noise[which]
        error = chosen.std() / np.sqrt(len(chosen))
        assert abs(chosen.mean()) < 4.5 * error, name


def test_day_volatility_is_the_one_asked_for() -> None:
    market = replace(MARKET, num_instruments=1, num_days=20_000)
    fields = generate_instrument(market, 0, TICKS)
    moves = (fields["close"] - fields["open"]) / fields["open"][:, :1]
    squares = (moves**2).sum(axis=1)
    # Days are correlated with persistence 0.9 in log-volatility: about 1 / 20 of them are independent.
    error = squares.std() / np.sqrt(len(squares) / 20)
    assert abs(squares.mean() - 0.015**2) < 4.5 * error


def test_volatility_clusters_and_moves_do_not() -> None:
    fields = generate_instrument(replace(MARKET, num_instruments=1, num_days=2000), 0, TICKS)
    moves = (fields["close"] - fields["open"]) / fields["open"][:, :1] / np.sqrt(day_curve(TICKS, 1.0))
    days = np.log((moves**2).sum(axis=1))
    assert np.corrcoef(days[1:], days[:-1])[0, 1] > 0.5
    assert np.corrcoef(np.abs(moves[:, 1:]).ravel(), np.abs(moves[:, :-1]).ravel())[0, 1] > 0.1
    assert abs(np.corrcoef(moves[:, 1:].ravel(), moves[:, :-1].ravel())[0, 1]) < 4.5 / np.sqrt(moves.size)


def test_volume_is_u_shaped_with_the_mean_asked_for() -> None:
    volume = generate_instrument(replace(MARKET, num_instruments=1, num_days=20_000), 0, TICKS)["volume"]
    by_day = volume.mean(axis=1)
    error = by_day.std() / np.sqrt(len(by_day) / 20)
    assert abs(by_day.mean() - MARKET.mean_tick_volume) < 4.5 * error
    by_tick = volume.mean(axis=0)
    curve = 1 + 2 * (2 * (np.arange(TICKS) + 0.5) / TICKS - 1) ** 2
    np.testing.assert_allclose(by_tick / by_tick.mean(), curve / curve.mean(), rtol=0.06)
    assert by_tick[[0, -1]].min() > 2.5 * by_tick[TICKS // 2]


def test_mean_spread_is_the_one_asked_for() -> None:
    fields = generate_instrument(replace(MARKET, num_instruments=1, num_days=20_000), 0, TICKS)
    spread = ((fields["ask"] - fields["bid"]) / fields["close"]).mean(axis=1) * 1e4
    assert abs(spread.mean() - MARKET.spread_bps) < 4.5 * spread.std() / np.sqrt(len(spread) / 20)


def test_same_seed_same_bytes_and_other_seed_other_market(tmp_path: Path, store: MarketStore) -> None:
    again = build_synthetic(replace(MARKET, signal=SIGNAL), tmp_path / "again")
    assert again.fingerprint == store.fingerprint
    other = build_synthetic(replace(MARKET, signal=SIGNAL, root_seed=6), tmp_path / "other")
    assert other.fingerprint != store.fingerprint


def test_an_instrument_depends_on_nothing_but_itself(tmp_path: Path, store: MarketStore) -> None:
    more = build_synthetic(replace(MARKET, num_instruments=4, signal=SIGNAL), tmp_path / "more")
    np.testing.assert_array_equal(more.array("close")[: store.num_rows], store.array("close"))
    assert not np.array_equal(store.array("close")[:40], store.array("close")[40:80])


def test_a_signal_leaves_noise_and_volume_as_they_were(store: MarketStore, tmp_path: Path) -> None:
    plain = build_synthetic(MARKET, tmp_path / "plain")
    assert plain.signal is None
    assert "signal" not in plain.fields
    np.testing.assert_array_equal(plain.array("volume"), store.array("volume"))
    first_day = [0, 40, 80]  # later days start from another price
    start = start_prices(plain)[first_day, None]
    drift = (store.array("close")[first_day] - plain.array("close")[first_day]) / start
    expected = SIGNAL.drift_bps * 1e-4 / STEP * store.array("signal")[first_day][:, STEP - 1 : -1]
    np.testing.assert_allclose(np.diff(drift, axis=1)[:, STEP - 1 :], expected, atol=1e-13)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"num_days": 0}, "num_days must be at least 1"),
        ({"spread_bps": -1.0}, "spread_bps must be finite and not negative"),
        ({"calendar": "XNYS"}, "sessions of one length"),
        ({"first_date": "soon"}, "first_date must be an ISO date"),
        ({"daily_volatility_bps": 9000.0}, "stay positive"),
        ({"signal": replace(SIGNAL, signal_ticks=7)}, "must divide the 240 ticks"),
    ],
)
def test_bad_market(tmp_path: Path, change: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        build_synthetic(replace(MARKET, **change), tmp_path / "store")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"transition": ((1.0,),)}, "one row and one column"),
        ({"transition": ((0.5, 0.5, 0.1), (0.1, 0.8, 0.1), (0.1, 0.1, 0.8))}, "sum to 1"),
        ({"transition": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))}, "one stationary law"),
        ({"signal_ticks": 0}, "signal_ticks must be at least 1"),
        ({"drift_bps": float("nan")}, "finite"),
    ],
)
def test_bad_signal(change: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        replace(SIGNAL, **change)


def test_a_shorter_market_is_the_beginning_of_a_longer_one() -> None:
    # A run as of an earlier day must have seen the same past.
    signal = MarkovSignal((-1.0, 1.0), ((0.7, 0.3), (0.4, 0.6)), 10.0, 6)
    long, short = (
        generate_instrument(SyntheticMarket(2, num_days, 0, tick_minutes=5, signal=signal), 1, 48) for num_days in (40, 25)
    )
    for name, values in short.items():
        assert np.array_equal(long[name][:25], values, equal_nan=True), name
