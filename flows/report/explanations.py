"""What a reader must know who has never seen this project: what was tested, what the words mean, what the figures cannot say."""

from __future__ import annotations

from typing import Any

from flows.report.numbers import listed, percent, things
from flows.report.verdict import name_of
from rlcore.execution.comparison import AGENT, BOUNDS, MIN_TEST_DAYS

_PRICES = {
    "close": "the bar's closing price, so that no spread is paid",
    "vwap": "the bar's volume-weighted average price, so that no spread is paid",
    "bid_or_ask": "the ask for buys and the bid for sells at the end of the bar",
}


def what_was_tested(facts: dict[str, Any], policies: list[str]) -> str:
    """Return one paragraph for a stranger."""
    rivals = listed([name_of(policy) for policy in policies if policy not in (AGENT, *BOUNDS)])
    bounds = [name_of(policy) for policy in policies if policy in BOUNDS]
    beside = f" {listed(bounds)} show{'s' if len(bounds) == 1 else ''} what would have been possible." if bounds else ""
    cap = facts["participation_cap"]
    limit = (
        "without a limit on its part of the volume" if cap is None else f"taking at most {percent(cap, 1)} of any bar's volume"
    )
    num_orders, num_buys = facts["num_orders"], facts["num_buys"]
    every = things(facts["ticks_per_step"] * facts["tick_minutes"], "minute")
    return (
        f"Each of {num_orders:,} orders ({num_buys:,} buys, {num_orders - num_buys:,} sells) must be executed inside its window "
        f"of one trading day. The agent decides every {every} how much to trade, {limit}; what is left in the last step is "
        f"traded then, as far as the market allows. {rivals} executed the same orders, in the same simulator, once each. The "
        f"agent that executed an order had seen neither the order's day nor any later one, in training or in the choice of its "
        f"parameters.{beside}"
    )


def caveats(facts: dict[str, Any], num_training_seeds: int) -> list[str]:
    """Return what the figures cannot say."""
    said = [f"Fills are simulated against recorded bars at {_PRICES[facts['price']]}; our own trading does not move the price."]
    if facts["participation_cap"] is None:
        said.append("There is no cap on participation: large orders look as easy as small ones.")
    said.append(_days(facts))
    if facts["num_instruments"] == 1:
        said.append("There is one instrument: intervals are clustered by day alone, and nothing is said about other instruments.")
    said.append(_coverage(facts))
    if facts["num_orders_ending_in_silence"]:
        said.append(
            f"For {facts['num_orders_ending_in_silence']:,} of the {facts['num_orders']:,} orders nothing was traded in the last "
            "step, or its bars are missing: what a policy leaves for that step stays unfilled and is marked at the last price."
        )
    if num_training_seeds > 1:
        said.append(
            f"The agent's figures are means over {num_training_seeds} trainings with different seeds. Intervals hold for other "
            "days and instruments, not for other trainings: see the spread over seeds for those."
        )
    return said


def _days(facts: dict[str, Any]) -> str:
    days = things(facts["num_days"], "test day")
    if facts["num_days"] < MIN_TEST_DAYS:
        verb = "is" if facts["num_days"] == 1 else "are"
        return f"There {verb} {days}. Below {MIN_TEST_DAYS} the report describes and claims nothing."
    return f"There are {days}: the findings hold for a market like that of {facts['first_day']} to {facts['last_day']}."


def _coverage(facts: dict[str, Any]) -> str:
    missing, total = facts["num_incomplete_instrument_days"], facts["num_instrument_days"]
    outages = (
        f"No instrument-day of the {total:,} in the test period is marked incomplete"
        if missing == 0
        else f"{missing:,} of {total:,} instrument-days in the test period are incomplete (an outage)"
    )
    return f"{outages}; on the days of these orders {percent(facts['mean_coverage'], 2)} of the bars are present."


DEFINITIONS: list[tuple[str, str]] = [
    (
        "bps",
        "Basis point: 0.01 % of the order's value at the arrival price. Costs are positive when money is lost; gains when it is "
        "won.",
    ),
    (
        "Implementation shortfall",
        "What the order cost against trading all of it at the arrival price, the first price of its window. Shares left unfilled "
        "are marked at the last price of the window, so that every order counts, filled or not.",
    ),
    (
        "Price advantage",
        "How much better the average fill was than the plain average price of the window (TWAP). An order without a fill has "
        "none; such orders are counted beside it.",
    ),
    (
        "Slippage",
        "How much worse the average fill was than the arrival price, the window's TWAP, or its volume-weighted price (VWAP).",
    ),
    ("By notional", "Each order counts by its value, quantity times arrival price, instead of once."),
    ("Fill rate, participation", "Shares filled over shares ordered; shares filled over what the market traded meanwhile."),
    ("TWAP", "Baseline: the same number of shares in every bar of the window."),
    (
        "VWAP",
        "Baseline: in step with the volume curve of up to 20 earlier days of the instrument, which is known before the day "
        "begins.",
    ),
    ("Immediate, Random", "Baselines: everything in the first step; at every step a random part of what is left."),
    (
        "Clairvoyant",
        "A bound and no rival: the best prices of the window picked with perfect foresight under the same cap. Nobody who fills "
        "as much can do better.",
    ),
    ("Optimum", "A bound and no rival: the best policy of a synthetic market, found by backward induction over its known law."),
    (
        "Paired difference, interval",
        "The agent's gain over a baseline on the same order, averaged. The interval clusters orders by day and by instrument, "
        "because orders of one day or one instrument are alike, and is widened for the number of comparisons shown (Bonferroni), "
        "so that all of them hold at once.",
    ),
    ("Not significant", "The interval contains zero: these orders do not tell the two apart."),
    (
        "Orders won, gain/loss ratio",
        "The part of orders on which the agent did better; its mean gain where it won over its mean loss where it lost.",
    ),
]
