"""A run from its first record to its last: whose it is, how it ends whatever ends it, and what it hands back."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Any

from prefect.runtime import flow_run
from pydantic import BaseModel, ConfigDict

from flows.cache_keys import CacheKeys
from flows.cli.exit_codes import TERMINATED
from flows.home import Home
from flows.housekeeping.leftovers import close_in_prefect, close_leftovers
from flows.run_records import OwnedRun, RunRecord, own_run
from flows.stages import Stage, Stages
from flows.tasks.fit_agent import RunInterruptedError
from flows.tracking.flow_tracking import FlowTracking
from flows.workspace import write_workspace
from rlcore.config.experiment import ExperimentSpec
from rlcore.config.forms import Form
from rlcore.config.task_experiment import TaskExperiment


class RunResult(BaseModel):
    """What a run gave, and where it lies."""

    model_config = ConfigDict(frozen=True)

    run: str
    experiment: str
    form: Form
    """Order execution, or a task of one's own."""
    as_of: date | None
    folder: Path
    report: Path | None
    """The HTML report of order execution; a task of one's own has none."""
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


def flow_run_name() -> str:
    """Return what Prefect calls a run of a flow whose parameter ``experiment`` is a file, a name or plain data."""
    given: dict[str, Any] = flow_run.parameters
    experiment, as_of = given["experiment"], given.get("as_of")
    name = experiment["name"] if isinstance(experiment, dict) else Path(experiment).stem
    return f"{name} as of {as_of}" if as_of else str(name)


def carry_through(
    home: Home, experiment: ExperimentSpec, as_of: date | None, until: Stage, carry_out: Callable[[Stages], None]
) -> RunResult:
    """Own a run (a killed one of the same identity goes on), carry out its stages, and close everything, however it ends."""
    identity = CacheKeys(home, experiment, as_of).run(until)
    with own_run(home, experiment.name, identity, as_of) as run, _ended_properly(run):
        close_in_prefect(run.record)  # of the process that this one goes on for
        run.update(prefect_flow_run=flow_run.id, trial=experiment.training.fast_dev_run)
        close_leftovers(home)
        workspace = write_workspace(home, run.record.run, experiment, as_of)
        stages = Stages(workspace, experiment, run, FlowTracking(workspace, experiment))
        with _tracking_closed(stages.tracking):
            stages.tracking.start(run.record.num_starts, flow_run.id)
            carry_out(stages)
        run.end("finished")
        form: Form = "task" if isinstance(experiment, TaskExperiment) else "execution"
        return result_of(home, run.record, form, tuple(stages.reused))


def result_of(home: Home, record: RunRecord, form: Form, reused: tuple[str, ...] = (), message: str = "") -> RunResult:
    """Return what a run gave, from its record."""
    return RunResult(
        run=record.run,
        experiment=record.experiment,
        form=form,
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


@contextmanager
def _ended_properly(run: OwnedRun) -> Iterator[None]:
    """Whatever cuts the run off from its first record on, the record says how."""
    try:
        yield
    except RunInterruptedError as error:
        run.update(message=str(error))
        run.end("interrupted")
        # The trainer took the signal to finish its work; Prefect and the command still have to hear of it.
        signal.raise_signal(signal.SIGTERM)
        raise
    except BaseException as error:  # SIGTERM and Ctrl-C are no Exceptions
        run.update(message=f"{type(error).__name__}: {error}")
        run.end("failed" if _is_failure(error) else "interrupted")
        raise


@contextmanager
def _tracking_closed(tracking: FlowTracking) -> Iterator[None]:
    """Whatever cuts the run off, its MLflow runs are closed and say how."""
    try:
        yield
    except BaseException as error:
        tracking.abandon("FAILED" if _is_failure(error) else "KILLED")
        raise


def _is_failure(error: BaseException) -> bool:
    """Return whether the run failed by itself, and was not ended from outside."""
    if isinstance(error, SystemExit):
        return error.code != TERMINATED  # a user's part may end the process, too
    return isinstance(error, Exception) and not isinstance(error, RunInterruptedError)
