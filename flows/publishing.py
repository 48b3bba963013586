"""What a run shows when it is done: the report, figures in its record and in MLflow, tables in Prefect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.artifacts import show_link, show_markdown, show_table
from flows.report import Report, write_report
from flows.report.verdict import name_of
from flows.results import Results
from flows.servers import MLFLOW_PORT, serving_now
from flows.stages import Stages
from flows.tracking.promotion import Candidate, shipped_policy, unmet_rules
from rlcore.config.execution_experiment import ExecutionExperiment
from rlcore.execution.backtest import BacktestResult, summary_frame
from rlcore.execution.comparison import Comparison
from rlcore.execution.dynamic_program import OrdersValue
from rlcore.training.resume import code_fingerprint

_COLUMNS = {
    "Shortfall, bps": ("shortfall_bps", "{:+.2f}"),
    "Price advantage, bps": ("price_advantage_bps", "{:+.2f}"),
    "Slippage vs VWAP, bps": ("slippage_vwap_bps", "{:+.2f}"),
    "Fill rate": ("fill_rate", "{:.2%}"),
    "Participation": ("participation", "{:.2%}"),
}


def publish(stages: Stages, experiment: ExecutionExperiment, results: Results, possible: Sequence[OrdersValue]) -> None:
    """Write the report, show the results, and close the tracking runs."""
    run, tracking = stages.run, stages.tracking
    tags = {"reused_tasks": ", ".join(stages.reused) or "none"}
    artifacts: list[tuple[Path, str]] = []
    stages.conclude("")
    for (seed, fold), figures in results.of_training.items():
        tracking.judged(seed, fold, figures)
    if results.backtest is not None:
        report = _report(stages, experiment, results.backtest, possible)
        artifacts.append((report.path.parent, "report"))
        is_trial = run.record.trial is not None
        unmet = (
            ["it was a quick trial"]
            if is_trial
            else unmet_rules(shipped_policy(), _candidate(experiment, results.backtest, report.comparisons))
        )
        tags["promotion"] = "; ".join(unmet) or "eligible"
        run.update(report=report.path)
        stages.conclude(report.summary.headline)
        _show_backtest(results.backtest, report, unmet)
    run.update(figures=results.figures, mlflow_run=tracking.run_id)
    tracking.finish(results.figures, tags, artifacts)
    show_tracking_link(stages)


def _report(stages: Stages, experiment: ExecutionExperiment, backtest: BacktestResult, possible: Sequence[OrdersValue]) -> Report:
    run = stages.run.record
    provenance = {
        "Experiment": f"{experiment.name} (data {experiment.digest('data')}, training {experiment.digest('training', 'budget')})",
        "Run": run.run,
        "As of": str(run.as_of) if run.as_of is not None else "all data there were",
        "Code": code_fingerprint(),
        **({} if run.trial is None else {"Trial": f"of the first {run.trial} orders of each set: its figures are no result"}),
        "MLflow run": stages.tracking.run_id or "not yet known",
    }
    return write_report(
        backtest,
        stages.run.folder / "report",
        title=experiment.name,
        reference=experiment.evaluation.reference,
        confidence_level=experiment.evaluation.confidence_level,
        provenance=provenance,
        possible=possible,
    )


def _candidate(experiment: ExecutionExperiment, backtest: BacktestResult, comparisons: Sequence[Comparison]) -> Candidate:
    reference = experiment.evaluation.reference
    verdicts: dict[str, str] = {
        one.metric: one.verdict
        for one in comparisons
        if (one.baseline, one.side, one.weighting, one.training_seed) == (reference, "all", "equal", None)
    }
    return Candidate(num_seeds=len(experiment.seeds), num_test_days=backtest.facts["num_days"], verdicts=verdicts)


def _show_backtest(backtest: BacktestResult, report: Report, unmet: Sequence[str]) -> None:
    rows = [_row(row) for row in summary_frame(backtest.frame).to_dict("records")]
    facts = backtest.facts
    lines = [
        f"# {report.summary.headline}",
        "",
        *report.summary.sentences,
        "",
        f"{facts['num_orders']:,} orders, {facts['num_instruments']} instruments, {facts['num_days']} days "
        f"({facts['first_day']} to {facts['last_day']}); every policy executed every order once. "
        "Shortfall and slippage are costs, price advantage is a gain.",
        "",
        _markdown_table(rows),
        "",
        "**May be promoted.**" if not unmet else f"**May not be promoted:** {'; '.join(unmet)}.",
        "",
        f"The whole report: `{report.path}`",
    ]
    show_markdown("backtest-report", "\n".join(lines), "Agent and baselines on the same test orders")
    show_table("backtest-table", rows, "Means over all test orders, in bps")


def show_tracking_link(stages: Stages) -> None:
    """Show in Prefect where the run lies in MLflow."""
    page = stages.tracking.page
    if page is not None:
        servers = serving_now(stages.workspace.home)
        address = servers.mlflow_url if servers is not None else f"http://127.0.0.1:{MLFLOW_PORT}"
        show_link("mlflow-run", f"{address}/{page}", "Open the run in MLflow", "This run in MLflow")


def _row(summary: Mapping[Any, Any]) -> dict[str, str]:
    # + 0.0 makes of a rounded -0.0 a plain zero.
    return {
        "Policy": name_of(summary["policy"]),
        **{title: form.format(round(float(summary[name]), 4) + 0.0) for title, (name, form) in _COLUMNS.items()},
    }


def _markdown_table(rows: Sequence[Mapping[str, str]]) -> str:
    names = list(rows[0])
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row[name] for name in names)} |" for row in rows)])
