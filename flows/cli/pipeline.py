"""``fillwright run``, ``train``, ``validate``, ``backtest``: the flow, whole or up to a stage."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from flows.cli.options import AsOf, ExperimentFile, FastDevRun, HomeFolder, Json, Set, as_of_date

Stage = Literal["training", "validation", "backtest"]


def run(
    experiment: ExperimentFile,
    overrides: Set = None,
    as_of: AsOf = None,
    fast_dev_run: FastDevRun = None,
    home: HomeFolder = None,
    is_json: Json = False,
) -> None:
    """Prepare data, generate seed sets, train, validate, backtest and report. What is in the cache is not done again."""
    _run(experiment, overrides, as_of, fast_dev_run, home, is_json, "backtest")


def train(
    experiment: ExperimentFile,
    overrides: Set = None,
    as_of: AsOf = None,
    fast_dev_run: FastDevRun = None,
    home: HomeFolder = None,
    is_json: Json = False,
) -> None:
    """Prepare data and train, and stop there. A training that was cut off goes on."""
    _run(experiment, overrides, as_of, fast_dev_run, home, is_json, "training")


def validate(
    experiment: ExperimentFile,
    overrides: Set = None,
    as_of: AsOf = None,
    fast_dev_run: FastDevRun = None,
    home: HomeFolder = None,
    is_json: Json = False,
) -> None:
    """Train where that is missing, and run the validation seeds; the test seeds stay untouched."""
    _run(experiment, overrides, as_of, fast_dev_run, home, is_json, "validation")


def backtest(
    experiment: ExperimentFile,
    overrides: Set = None,
    as_of: AsOf = None,
    fast_dev_run: FastDevRun = None,
    home: HomeFolder = None,
    is_json: Json = False,
) -> None:
    """Train where that is missing, and run the test seeds, orders with the agent and all baselines; the same as `run`."""
    _run(experiment, overrides, as_of, fast_dev_run, home, is_json, "backtest")


def _run(
    experiment: str,
    overrides: list[str] | None,
    as_of: str | None,
    fast_dev_run: int | None,
    home: Path | None,
    is_json: bool,
    until: Stage,
) -> None:
    from flows.cli.experiments import load
    from flows.cli.output import print_result, progress_shown
    from flows.cli.run_figures import lines_of
    from flows.home import Home

    # What can be wrong with the input is found before anything is written and before anything heavy is imported.
    day = as_of_date(as_of)
    loaded = load(experiment, [*(overrides or ()), *([] if fast_dev_run is None else [f"training.fast_dev_run={fast_dev_run}"])])
    opened = Home.open(home)
    from flows.run_experiment import run_experiment

    with progress_shown(is_json) as progress:
        result = run_experiment(loaded, opened, day, progress, until=until)
    print_result(result.model_dump(mode="json"), lines_of(result), is_json)
