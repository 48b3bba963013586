"""What the comparisons say, in words. What is not significant is called so; too few days make no claim at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flows.report.numbers import bps, interval, listed, percent, plain, things
from rlcore.execution.comparison import AGENT, MIN_TEST_DAYS, Comparison, Verdict

NAMES = {
    "agent": "Agent",
    "twap": "TWAP",
    "vwap": "VWAP",
    "immediate": "Immediate",
    "random": "Random",
    "clairvoyant": "Clairvoyant",
    "optimum": "Optimum",
}
_FILL_RATES_ALIKE = 0.002  # a difference that no reader needs to hear of
NO_BREAK = "\N{NO-BREAK SPACE}"
WORDS: dict[Verdict, str] = {
    "better": "better",
    "worse": "worse",
    "not significant": "not significant",
    "no claim": "no claim (too few days)",
}


@dataclass(frozen=True, slots=True)
class Summary:
    """The verdict of a report."""

    verdict: Verdict
    headline: str
    sentences: list[str]  # what else must be known to read the headline


def name_of(policy: str) -> str:
    """Return what a policy is called in the report."""
    return NAMES.get(policy, policy)


def main_comparison(comparisons: Sequence[Comparison], reference: str) -> Comparison:
    """Return the agent against the reference over all orders, each counted once."""
    return next(one for one in comparisons if one.baseline == reference and is_overall(one))


def is_overall(comparison: Comparison) -> bool:
    """Whether all orders count, once each, over all training seeds."""
    return comparison.side == "all" and comparison.weighting == "equal" and comparison.training_seed is None


def summarise(comparisons: Sequence[Comparison], reference: str, num_days: int, fill_rates: Mapping[str, float]) -> Summary:
    """Return the headline and its qualifications. ``fill_rates``: policy → mean fill rate."""
    main = main_comparison(comparisons, reference)
    sentences = [_others(comparisons, reference), _seeds(comparisons)] if main.verdict != "no claim" else []
    sentences += [_spread_of_orders(main), _fill_rates(fill_rates, reference)]
    return Summary(main.verdict, _headline(main, num_days), [sentence for sentence in sentences if sentence])


def _headline(main: Comparison, num_days: int) -> str:
    rival, gain = name_of(main.baseline), main.mean_gain_bps
    amount = f"{plain(abs(gain))} bps per order"
    level = f"({percent(main.confidence_level, 0)} interval {interval(main.low_bps, main.high_bps)})".replace(" ", NO_BREAK)
    if main.verdict == "no claim":
        known = "saved" if gain > 0 else "lost" if gain < 0 else "won and lost nothing, that is"
        return (
            f"No claim: the test has {things(num_days, 'day')}, and fewer than {MIN_TEST_DAYS} days prove nothing. "
            f"On these orders the agent {known} {amount} against {rival}."
        )
    if main.verdict == "not significant":
        return f"The difference between the agent and {rival} is not significant: {bps(gain)} bps per order {level}."
    if main.verdict == "better":
        return f"The agent does better than {rival}: it saves {amount} {level}."
    return f"The agent does worse than {rival}: it loses {amount} {level}."


def _others(comparisons: Sequence[Comparison], reference: str) -> str:
    rivals = [one for one in comparisons if is_overall(one) and one.baseline != reference]
    by_verdict = {word: [name_of(one.baseline) for one in rivals if one.verdict == word] for word in WORDS}
    parts = [f"it does {word} than {listed(by_verdict[word])}" for word in ("better", "worse") if by_verdict[word]]
    if by_verdict["not significant"]:
        parts.append(f"the difference from {listed(by_verdict['not significant'])} is not significant")
    return f"Against the other baselines {'; '.join(parts)}." if parts else ""


def _seeds(comparisons: Sequence[Comparison]) -> str:
    seeds = [one for one in comparisons if one.training_seed is not None]
    if not seeds:
        return "The agent was trained with one seed only: nothing here tells its luck in training from its skill."
    gains = [one.mean_gain_bps for one in seeds]
    number_of = {word: sum(one.verdict == word for one in seeds) for word in WORDS}
    if number_of["not significant"] == len(seeds):
        said = ["none differs significantly"]
    else:
        found = [(word, number) for word, number in number_of.items() if number]
        said = [f"{'all' if number == len(seeds) else number} {'is' if number == 1 else 'are'} {word}" for word, number in found]
    return (
        f"Of {len(seeds)} trainings with different seeds, judged one by one, {listed(said)}; they range from {bps(min(gains))} "
        f"to {bps(max(gains))} bps."
    )


def _fill_rates(fill_rates: Mapping[str, float], reference: str) -> str:
    own, theirs = fill_rates[AGENT], fill_rates[reference]
    if abs(own - theirs) < _FILL_RATES_ALIKE:
        return ""
    return (
        f"The agent fills {percent(own)} of an order and {name_of(reference)} {percent(theirs)}. What is left counts at the last "
        "price of the window, as if it could be traded there: read the gain with that in mind."
    )


def _spread_of_orders(main: Comparison) -> str:
    won, median = percent(main.win_rate, 0), bps(main.median_gain_bps)
    return f"The agent comes out ahead on {won} of the orders; the median order gains {median} bps."
