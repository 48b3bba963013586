"""``fillwright run``, ``train``, ``validate``, ``backtest``: the flow, whole or up to a stage."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from flows.cli.options import AsOf, ExperimentFile, HomeFolder, Json, Set, as_of_date

if TYPE_CHECKING:
    from flows.train_execution_agent import RunResult

Stage = Literal["training", "validation", "backtest"]

# Shown on the terminal; all figures are in the JSON, in tracking and in the report.
_SHOWN = ("fill_rate", "price_advantage_bps", "shortfall_bps")


def run(
    experiment: ExperimentFile, overrides: Set = None, as_of: AsOf = None, home: HomeFolder = None, is_json: Json = False
) -> None:
    """Prepare data, generate seed sets, train, validate, backtest and report. What is in the cache is not done again."""
    _run(experiment, overrides, as_of, home, is_json, "backtest")


def train(
    experiment: ExperimentFile, overrides: Set = None, as_of: AsOf = None, home: HomeFolder = None, is_json: Json = False
) -> None:
    """Prepare data and train, and stop there. A training that was cut off goes on."""
    _run(experiment, overrides, as_of, home, is_json, "training")


def validate(
    experiment: ExperimentFile, overrides: Set = None, as_of: AsOf = None, home: HomeFolder = None, is_json: Json = False
) -> None:
    """Train where that is missing, and run the validation orders; the test orders stay untouched."""
    _run(experiment, overrides, as_of, home, is_json, "validation")


def backtest(
    experiment: ExperimentFile, overrides: Set = None, as_of: AsOf = None, home: HomeFolder = None, is_json: Json = False
) -> None:
    """Train where that is missing, and run the test orders with the agent and all baselines; the same as `run`."""
    _run(experiment, overrides, as_of, home, is_json, "backtest")


def _run(experiment: str, overrides: list[str] | None, as_of: str | None, home: Path | None, is_json: bool, until: Stage) -> None:
    from flows.cli.experiments import load
    from flows.cli.output import print_result, progress_shown
    from flows.home import Home

    # What can be wrong with the input is found before anything is written and before anything heavy is imported.
    day = as_of_date(as_of)
    loaded = load(experiment, overrides)
    opened = Home.open(home)
    from flows.train_execution_agent import run_experiment

    with progress_shown(is_json) as progress:
        result = run_experiment(loaded, opened, day, progress, until=until)
    print_result(result.model_dump(mode="json"), _lines(result), is_json)


def _lines(result: RunResult) -> list[str]:
    from flows.cli.output import aligned

    rows = _figures(result.figures)
    facts = [
        ("run", result.run),
        ("folder", str(result.folder)),
        ("report", str(result.report or "none")),
        ("re-used", f"{len(result.reused)} tasks"),
    ]
    return [*aligned(rows), *([""] if rows else []), *aligned(facts), *(["", result.message] if result.message else [])]


def _figures(figures: dict[str, float]) -> list[tuple[str, ...]]:
    """Return one row for the agent (mean of the seeds) and each baseline; none before the backtest."""
    policies = sorted({key.split("/")[1] for key in figures if key.startswith("baseline/")})
    if not policies:
        return []
    rows: list[tuple[str, ...]] = [("test orders, mean", *_SHOWN)]
    for policy in ("agent", *policies):
        keys = [f"backtest/{name}/mean/seeds_mean" if policy == "agent" else f"baseline/{policy}/{name}/mean" for name in _SHOWN]
        rows.append((policy, *(f"{figures.get(key, math.nan):.3f}" for key in keys)))
    return rows
