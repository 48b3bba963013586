"""Did the policy do better than a baseline? Paired differences on identical orders, with intervals that can be believed.

Gains are positive where the policy did better. Every order counts, filled or not: implementation shortfall marks what was left
at the window's end. A pair in which either side has no value (price advantage of an order that got no fill) cannot be subtracted;
it is counted in ``num_missing``, never silently dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
import pandas as pd

from rlcore.execution.clustered_mean import ClusteredMean, clustered_mean, confidence_interval
from rlcore.execution.metrics import gain_loss_ratio, win_rate
from rlcore.foundation.errors import ConfigError, ContractError, nearest_name

MIN_TEST_DAYS = 10  # below this many days a comparison describes and claims nothing
NOISE_BPS = 1e-9  # two policies with the same fills may differ by this much in the last bits

AGENT = "agent"  # the name of the trained policy in every table
CLAIRVOYANT = "clairvoyant"  # perfect foresight of every price
OPTIMUM = "optimum"  # the best policy of a market whose law is known
BOUNDS = (CLAIRVOYANT, OPTIMUM)  # they show what is possible and are nobody's rivals

SIDES: tuple[Literal["buy", "sell"], ...] = ("buy", "sell")
Side = Literal["all", "buy", "sell"]
Weighting = Literal["equal", "notional"]
Verdict = Literal["better", "worse", "not significant", "no claim"]

# Which way is better: the sign that turns (policy − baseline) into a gain.
GAIN_SIGN = {
    "shortfall_bps": -1.0,
    "price_advantage_bps": 1.0,
    "slippage_arrival_bps": -1.0,
    "slippage_twap_bps": -1.0,
    "slippage_vwap_bps": -1.0,
}


@dataclass(frozen=True, slots=True)
class Question:
    """One comparison to make. ``training_seed`` None: the mean over all training seeds, order by order."""

    policy: str
    baseline: str
    training_seed: int | None = None
    side: Side = "all"
    weighting: Weighting = "equal"
    metric: str = "shortfall_bps"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The answer to one question."""

    policy: str
    baseline: str
    training_seed: int | None
    side: Side
    weighting: Weighting
    metric: str
    num_orders: int
    num_missing: int  # pairs without a difference
    num_days: int
    num_instruments: int
    mean_gain_bps: float
    median_gain_bps: float
    win_rate: float  # share of orders with a gain above zero
    gain_loss_ratio: float
    low_bps: float  # of the interval corrected for the number of comparisons; NaN where nothing is claimed
    high_bps: float
    confidence_level: float  # of all comparisons together
    num_comparisons: int
    verdict: Verdict


def standard_questions(frame: pd.DataFrame, reference: str) -> list[Question]:
    """Return what a backtest asks: the agent against every baseline, and against the reference by side, by notional and by seed.

    Bounds are nobody's rivals and are left out.
    """
    rivals = [name for name in dict.fromkeys(frame["policy"]) if name not in (AGENT, *BOUNDS)]
    rivals.sort(key=lambda name: name != reference)  # the reference comes first
    questions = [Question(AGENT, rival) for rival in rivals]
    questions += [Question(AGENT, reference, side=side) for side in SIDES if (frame["side"] == side).any()]
    questions.append(Question(AGENT, reference, weighting="notional"))
    seeds = sorted(int(seed) for seed in frame.loc[frame["policy"] == AGENT, "training_seed"].unique())
    if len(seeds) > 1:
        questions += [Question(AGENT, reference, training_seed=seed) for seed in seeds]
    return questions


def compare(frame: pd.DataFrame, questions: Sequence[Question], confidence_level: float) -> list[Comparison]:
    """Answer all questions together: Bonferroni's correction divides 1 − confidence_level among them.

    Args:
        frame: one row per (policy, training_seed, seed_id) with ``side``, ``date``, ``instrument``, ``notional`` and metrics:
            ``BacktestResult.frame``.
        questions: all comparisons that are going to be shown.
        confidence_level: with which all intervals hold at once, in (0, 1).
    """
    if not 0.0 < confidence_level < 1.0:
        raise ConfigError(f"confidence_level must lie in (0, 1), was {confidence_level}")
    # The number of test days is the test's, not a subset's: a thin side makes its own interval wide.
    has_claims = frame["date"].nunique() >= MIN_TEST_DAYS
    return [_answer(frame, question, confidence_level, len(questions), has_claims) for question in questions]


def comparisons_frame(comparisons: Sequence[Comparison]) -> pd.DataFrame:
    """Return one row per comparison."""
    frame = pd.DataFrame([asdict(comparison) for comparison in comparisons])
    if len(frame):
        frame["training_seed"] = frame["training_seed"].astype("Int64")
    return frame


def policy_values(frame: pd.DataFrame, policy: str, metric: str, training_seed: int | None = None) -> pd.Series[float]:
    """Return seed_id → metric; over several training seeds the mean, NaN where any of them has no value."""
    rows = frame[frame["policy"] == policy]
    if training_seed is not None:
        rows = rows[rows["training_seed"] == training_seed]
    if rows.empty:
        known = sorted(set(frame["policy"]))
        at = "" if training_seed is None else f" with training seed {training_seed}"
        raise ConfigError(f"policy must be one of {', '.join(known)}, was {policy!r}{at}{nearest_name(policy, known)}")
    by_order = rows.groupby("seed_id", sort=True)[metric]
    return by_order.mean().where(by_order.count() == by_order.size())


def paired_gains(
    frame: pd.DataFrame, policy: str, baseline: str, metric: str = "shortfall_bps", training_seed: int | None = None
) -> pd.Series[float]:
    """Return seed_id → gain of the policy over the baseline on that order, in bps; NaN where either has no value."""
    if metric not in GAIN_SIGN:
        raise ConfigError(f"metric must be one of {', '.join(GAIN_SIGN)}, was {metric!r}{nearest_name(metric, GAIN_SIGN)}")
    own, theirs = policy_values(frame, policy, metric, training_seed), policy_values(frame, baseline, metric)
    if not own.index.equals(theirs.index):
        raise ContractError(
            f"policies must have run the same orders, {policy!r} ran {len(own)} and {baseline!r} {len(theirs)}: run both on one "
            "OrderSet"
        )
    gains = GAIN_SIGN[metric] * (own - theirs)
    return gains.mask(gains.abs() < NOISE_BPS, 0.0)


def _answer(frame: pd.DataFrame, question: Question, level: float, num_comparisons: int, has_claims: bool) -> Comparison:
    orders = _orders(frame, question)
    by_order = paired_gains(frame, question.policy, question.baseline, question.metric, question.training_seed)
    gains = by_order.loc[orders.index].to_numpy(np.float64)
    is_known = np.isfinite(gains)
    weights = np.ones(len(orders)) if question.weighting == "equal" else orders["notional"].to_numpy(np.float64)
    known = orders[is_known]
    estimate = clustered_mean(gains[is_known], weights[is_known], known["date"].to_numpy(), known["instrument"].to_numpy())
    low, high = confidence_interval(estimate, 1.0 - (1.0 - level) / num_comparisons) if has_claims else (np.nan, np.nan)
    return Comparison(
        policy=question.policy,
        baseline=question.baseline,
        training_seed=question.training_seed,
        side=question.side,
        weighting=question.weighting,
        metric=question.metric,
        num_orders=len(orders),
        num_missing=int((~is_known).sum()),
        num_days=estimate.num_days,
        num_instruments=estimate.num_instruments,
        mean_gain_bps=estimate.mean,
        median_gain_bps=float(np.median(gains[is_known])) if is_known.any() else np.nan,
        win_rate=float(win_rate(gains)),
        gain_loss_ratio=float(gain_loss_ratio(gains)),
        low_bps=low,
        high_bps=high,
        confidence_level=level,
        num_comparisons=num_comparisons,
        verdict=_verdict(estimate, low, high, has_claims),
    )


def _orders(frame: pd.DataFrame, question: Question) -> pd.DataFrame:
    rows = frame[frame["policy"] == question.baseline].drop_duplicates("seed_id").set_index("seed_id").sort_index()
    if question.side == "all":
        return rows
    return rows[rows["side"] == question.side]


def _verdict(estimate: ClusteredMean, low: float, high: float, has_claims: bool) -> Verdict:
    if not has_claims or not np.isfinite(estimate.standard_error):
        return "no claim"
    if low > 0.0:
        return "better"
    return "worse" if high < 0.0 else "not significant"
