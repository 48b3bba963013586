"""The flow ``train-execution-agent``: market data, seed sets, one training per seed and fold, validation, backtest, report."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from prefect import flow, get_run_logger
from prefect.runtime import deployment, flow_run
from prefect.settings import PREFECT_API_URL, PREFECT_LOCAL_STORAGE_PATH, temporary_settings
from pydantic import BaseModel, ConfigDict

from flows.artifacts import quiet_console
from flows.cache_keys import CacheKeys
from flows.cli.exit_codes import TERMINATED
from flows.cli.experiments import load, set_threads
from flows.home import Home
from flows.housekeeping.leftovers import close_in_prefect, close_leftovers
from flows.possible_gain import possible_gain
from flows.progress import Progress, listening, no_progress, tell
from flows.publishing import publish
from flows.results import gather
from flows.run_records import RunRecord, newer_run, own_run
from flows.servers import prefect_api
from flows.stages import Stage, Stages
from flows.tasks.fit_agent import RunInterruptedError
from flows.tracking.flow_tracking import FlowTracking
from flows.workspace import write_workspace
from rlcore.config.experiment import ExperimentSpec
from rlcore.config.loading import parse_experiment

FLOW_NAME = "train-execution-agent"


class RunResult(BaseModel):
    """What a run gave, and where it lies."""

    model_config = ConfigDict(frozen=True)

    run: str
    experiment: str
    as_of: date | None
    folder: Path
    report: Path | None
    mlflow_run: str | None
    """Id of the parent run; None while the tracking server is away."""
    prefect_flow_run: str | None
    is_resumed: bool
    """A run of the same identity was killed, and this one went on where it ended."""
    reused: tuple[str, ...]
    """Task runs whose results were in the cache."""
    trainings: tuple[Path, ...]
    figures: dict[str, float]
    message: str
    """One sentence on how it ended."""


def _flow_run_name() -> str:
    given = flow_run.parameters
    experiment, as_of = given["experiment"], given.get("as_of")
    name = experiment["name"] if isinstance(experiment, dict) else Path(experiment).stem
    return f"{name} as of {as_of}" if as_of else name


@flow(name=FLOW_NAME, flow_run_name=_flow_run_name, persist_result=False)
def train_execution_agent(
    experiment: str | dict[str, Any],
    overrides: list[str] | None = None,
    as_of: date | None = None,
    home: str | None = None,
    until: Stage = "backtest",
) -> RunResult:
    """Train, validate and backtest an agent.

    Args:
        experiment: an experiment file, the name of a shipped one, or an experiment as plain data.
        overrides: ``KEY=VALUE`` texts for an experiment file.
        as_of: the last day that the run may see. None: for a run of a deployment the day before it was scheduled, else all days.
        home: the state folder; None: ``FILLWRIGHT_HOME``.
        until: the last stage.
    """
    opened = Home.open(Path(home) if home is not None else None)
    spec = load(experiment, overrides) if isinstance(experiment, str) else parse_experiment(experiment)
    set_threads(spec.runtime.threads)
    if as_of is None and deployment.id is not None:
        # Not the scheduled day itself: at night here it may be noon at an exchange, and half a day is no day.
        as_of = flow_run.scheduled_start_time.date() - timedelta(days=1)
        newer = newer_run(opened, spec.name, as_of)
        if newer is not None:
            return _result(opened, newer, message=f"nothing to do for {as_of}: {newer.run} has seen more")
    identity = CacheKeys(opened, spec, as_of).run(until)
    with own_run(opened, spec.name, identity, as_of) as run:
        close_in_prefect(run.record)  # of the process that this one goes on for
        run.update(prefect_flow_run=flow_run.id)
        close_leftovers(opened)
        workspace = write_workspace(opened, run.record.run, spec, as_of)
        stages = Stages(workspace, spec, run, FlowTracking(workspace, spec))
        with _ended_properly(stages):
            _carry_out(stages, until)
        return _result(opened, run.record, reused=tuple(stages.reused))


def run_experiment(
    experiment: ExperimentSpec,
    home: Home,
    as_of: date | None = None,
    progress: Progress = no_progress,
    until: Stage = "backtest",
) -> RunResult:
    """Run the flow in this process, with a Prefect server of the home's own unless one is configured or running.

    Raises:
        InputError: for an experiment, data or orders that cannot be run.
        RunInterruptedError: when the training was asked to stop from inside.
        SystemExit: with code 143 after SIGTERM, when everything has been closed.
    """
    with _terminating_cleanly(), prefect_api(home) as api, listening(progress):
        settings = {PREFECT_API_URL: api, PREFECT_LOCAL_STORAGE_PATH: home.prefect / "results"}
        with temporary_settings(settings), quiet_console():
            result: RunResult = train_execution_agent(experiment.to_plain(), as_of=as_of, home=str(home.root), until=until)
    return result


def _carry_out(stages: Stages, until: Stage) -> None:
    run, tracking = stages.run, stages.tracking
    tracking.start(run.record.num_starts, flow_run.id)
    market, folds = stages.prepare()
    trainings = stages.train(market, folds)
    run.update(trainings=tuple(training.path for training in trainings))
    validations = stages.validate(market, folds, trainings) if until != "training" else []
    backtests = stages.backtest(market, folds, trainings) if until == "backtest" else []
    tell("report", 0, 1)
    possible = possible_gain(stages.experiment, market, folds) if backtests else []
    publish(stages, gather(trainings, validations, backtests), possible)
    get_run_logger().info("%s", run.record.message or f"finished the stage {until}")
    tell("report", 1, 1)


@contextmanager
def _ended_properly(stages: Stages) -> Iterator[None]:
    """Whatever ends the run, its record and its MLflow runs say how."""
    try:
        yield
    except RunInterruptedError as error:
        _abandon(stages, "killed", str(error))
        # The trainer took the signal to finish its work; Prefect and the command still have to hear of it.
        signal.raise_signal(signal.SIGTERM)
        raise
    except Exception as error:
        _abandon(stages, "failed", f"{type(error).__name__}: {error}")
        raise
    except BaseException as error:  # SIGTERM, Ctrl-C
        _abandon(stages, "killed", f"{type(error).__name__}: {error}")
        raise
    stages.run.end("finished")


def _abandon(stages: Stages, status: Literal["failed", "killed"], message: str) -> None:
    stages.run.update(message=message)
    stages.run.end(status)
    stages.tracking.abandon("FAILED" if status == "failed" else "KILLED")


@contextmanager
def _terminating_cleanly() -> Iterator[None]:
    """Turn SIGTERM into SystemExit, so that what was started here (a server, worker processes) is ended too."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(TERMINATED)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _result(home: Home, record: RunRecord, reused: tuple[str, ...] = (), message: str = "") -> RunResult:
    return RunResult(
        run=record.run,
        experiment=record.experiment,
        as_of=record.as_of,
        folder=home.runs / record.run,
        report=record.report,
        mlflow_run=record.mlflow_run,
        prefect_flow_run=record.prefect_flow_run,
        is_resumed=record.num_starts > 1,
        reused=reused,
        trainings=record.trainings,
        figures=record.figures,
        message=message or record.message,
    )
