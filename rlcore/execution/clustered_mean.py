"""A mean and how well it is known when orders of one day, and orders of one instrument, are alike.

All orders of a day share the market's mood and all orders of an instrument share its habits, so n orders are far fewer than n
independent observations. The variance is clustered two ways (Cameron, Gelbach & Miller 2011):

    V = V_day + V_instrument − V_(day and instrument)
    V_c = G_c / (G_c − 1) · Σ_clusters (Σ_members u)²,    u = w (x − mean) / Σ w

and is never taken smaller than V_day or V_instrument alone, because the difference may come out too small or negative
(MacKinnon, Nielsen & Webb 2021). The t distribution has Satterthwaite's degrees of freedom,

    V² / (V_day² / (G_day − 1) + V_instrument² / (G_instrument − 1)),

which follow whichever cluster matters. Chosen by simulation with two-way random effects: where nothing clusters (12 days, 22
instruments) a 99.5 % interval without the floor covered 98.0 %; with the usual min(G) − 1 degrees and five instruments a 95 %
interval covered 99.4 %. This choice covers 92-98 % for nominal 95 % in every design tried (a test holds it to that).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats


@dataclass(frozen=True, slots=True)
class ClusteredMean:
    """A weighted mean with its two-way clustered standard error (NaN where fewer than two days allow none)."""

    mean: float
    standard_error: float
    degrees_of_freedom: float
    num_days: int
    num_instruments: int


def clustered_mean(values: ArrayLike, weights: ArrayLike, day: ArrayLike, instrument: ArrayLike) -> ClusteredMean:
    """Return the weighted mean of finite ``values`` and its standard error; all arguments have shape (orders,).

    With one instrument the clusters are the days alone, and the mean speaks of that instrument only.
    """
    values, weights = np.asarray(values, np.float64), np.asarray(weights, np.float64)
    if not len(values):
        return ClusteredMean(np.nan, np.nan, np.nan, 0, 0)
    day_code, num_days = _codes(day)
    instrument_code, num_instruments = _codes(instrument)
    mean = float((weights * values).sum() / weights.sum())
    if num_days < 2:
        return ClusteredMean(mean, np.nan, np.nan, num_days, num_instruments)
    score = weights * (values - mean) / weights.sum()
    by_day = _cluster_variance(score, day_code)
    if num_instruments < 2:
        return ClusteredMean(mean, by_day**0.5, float(num_days - 1), num_days, num_instruments)
    by_instrument = _cluster_variance(score, instrument_code)
    by_both = _cluster_variance(score, day_code * num_instruments + instrument_code)
    variance = max(by_day + by_instrument - by_both, by_day, by_instrument)
    spread = by_day**2 / (num_days - 1) + by_instrument**2 / (num_instruments - 1)
    freedom = max(variance**2 / spread, 1.0) if spread > 0.0 else float(min(num_days, num_instruments) - 1)
    return ClusteredMean(mean, variance**0.5, freedom, num_days, num_instruments)


def confidence_interval(estimate: ClusteredMean, confidence_level: float) -> tuple[float, float]:
    """Return the two-sided interval of the mean, (NaN, NaN) where no standard error is known."""
    if not np.isfinite(estimate.standard_error):
        return np.nan, np.nan
    reach = float(stats.t.ppf(0.5 + confidence_level / 2, estimate.degrees_of_freedom)) * estimate.standard_error
    return estimate.mean - reach, estimate.mean + reach


def _codes(labels: ArrayLike) -> tuple[NDArray[np.int64], int]:
    names, codes = np.unique(np.asarray(labels), return_inverse=True)
    return codes.astype(np.int64), len(names)


def _cluster_variance(score: NDArray[np.float64], code: NDArray[np.int64]) -> float:
    _, code = np.unique(code, return_inverse=True)
    sums = np.bincount(code, score)
    return float((sums**2).sum() * len(sums) / max(len(sums) - 1, 1))
