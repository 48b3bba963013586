"""One self-contained HTML file and its tables as parquet, from a backtest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
from markupsafe import Markup

from flows.report import explanations, figures, tables
from flows.report.numbers import percent, things
from flows.report.verdict import Summary, main_comparison, name_of, summarise
from rlcore.execution.backtest import BacktestResult, summary_frame
from rlcore.execution.comparison import AGENT, Comparison, compare, comparisons_frame, paired_gains, standard_questions
from rlcore.execution.dynamic_program import OrdersValue
from rlcore.foundation.atomic_files import folder_written_atomically

REPORT_FILE = "report.html"


@dataclass(frozen=True, slots=True)
class Report:
    """Where the report lies and what it says."""

    path: Path  # of the HTML file; tables lie beside it
    summary: Summary
    comparisons: list[Comparison]


def write_report(
    result: BacktestResult,
    folder: Path,
    *,
    title: str,
    reference: str,
    confidence_level: float,
    provenance: Mapping[str, str],
    possible: Sequence[OrdersValue] = (),
) -> Report:
    """Write ``report.html`` and, as parquet, ``summary``, ``summary_by_side``, ``comparisons``, ``orders`` and ``schedule``.

    All or none of them.

    Args:
        result: the agent and all baselines on the same orders.
        folder: takes the place of what lay there before.
        title: what was tested, in a few words: the experiment's name.
        reference: the baseline that the headline speaks of.
        confidence_level: with which all intervals hold at once.
        provenance: name → value of what identifies the run besides the backtest's own facts (experiment, code, run).
        possible: what can be won at all over TWAP, where the market's law is known (``value_orders``).
    """
    comparisons = compare(result.frame, standard_questions(result.frame, reference), confidence_level)
    quality = summary_frame(result.frame)
    fill_rates = dict(zip(quality["policy"], quality["fill_rate"], strict=True))
    summary = summarise(comparisons, reference, result.facts["num_days"], fill_rates)
    page = _page(result, comparisons, summary, title, reference, provenance, possible)
    with folder_written_atomically(folder) as target:
        (target / REPORT_FILE).write_text(page, encoding="utf-8")
        quality.to_parquet(target / "summary.parquet", index=False)
        summary_frame(result.frame, ["side"]).to_parquet(target / "summary_by_side.parquet", index=False)
        comparisons_frame(comparisons).to_parquet(target / "comparisons.parquet", index=False)
        result.frame.to_parquet(target / "orders.parquet", index=False)
        result.schedule.to_parquet(target / "schedule.parquet", index=False)
    return Report(folder / REPORT_FILE, summary, comparisons)


def _page(
    result: BacktestResult,
    comparisons: list[Comparison],
    summary: Summary,
    title: str,
    reference: str,
    provenance: Mapping[str, str],
    possible: Sequence[OrdersValue],
) -> str:
    frame, facts = result.frame, result.facts
    policies = list(dict.fromkeys(frame["policy"]))
    num_training_seeds = int(frame.loc[frame["policy"] == AGENT, "training_seed"].nunique())
    main = main_comparison(comparisons, reference)
    possible = possible if "twap" in policies else ()  # what can be won is told as a gain over TWAP
    best = tables.best_gain(possible) if possible and reference == "twap" else None
    own_facts = {
        "Orders": facts["orders_fingerprint"],
        "Market data": facts["store_fingerprint"],
        "Calendar": f"{facts['calendar']}, bars of {things(facts['tick_minutes'], 'minute')}",
    }
    return _template().render(
        title=title,
        summary=summary,
        reference=name_of(reference),
        facts=facts,
        scope=_scope(facts, num_training_seeds),
        tested=explanations.what_was_tested(facts, policies),
        quality=tables.quality(frame),
        differences=tables.differences(comparisons),
        by_side=tables.quality_by_side(frame),
        trainings=tables.trainings(frame, comparisons, reference),
        possible=tables.possible_gain(possible, frame, paired_gains(frame, AGENT, "twap")) if possible else None,
        forest=Markup(figures.forest(comparisons, [tables.label(one) for one in comparisons], best)),
        schedule=Markup(figures.schedule(result.schedule)),
        distributions=Markup(figures.distributions(frame, reference)),
        days=Markup(figures.days(frame, reference)),
        level=percent(main.confidence_level, 0),
        num_comparisons=main.num_comparisons,
        has_claims=main.verdict != "no claim",
        num_training_seeds=num_training_seeds,
        definitions=explanations.DEFINITIONS,
        caveats=explanations.caveats(facts, num_training_seeds),
        provenance={**own_facts, **provenance},
    )


def _scope(facts: Mapping[str, object], num_training_seeds: int) -> str:
    parts = [
        things(int(str(facts["num_orders"])), "order"),
        things(int(str(facts["num_instruments"])), "instrument"),
        f"{things(int(str(facts['num_days'])), 'test day')} ({facts['first_day']} to {facts['last_day']})",
        things(num_training_seeds, "training"),
    ]
    return " · ".join(parts)


def _template() -> jinja2.Template:
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("report.html.j2")
