"""An experiment run in this process: by the flow of its form, on a Prefect server that is there or is started for it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from types import FrameType

from prefect.settings import PREFECT_API_URL, PREFECT_LOCAL_STORAGE_PATH, temporary_settings

from flows.artifacts import quiet_console
from flows.cli.exit_codes import TERMINATED
from flows.home import Home
from flows.progress import Progress, listening, no_progress
from flows.run_lifecycle import RunResult
from flows.servers import prefect_api
from flows.stages import Stage
from flows.train_execution_agent import train_execution_agent
from flows.train_task_agent import train_task_agent
from rlcore.config.experiment import ExperimentSpec
from rlcore.config.task_experiment import TaskExperiment
from rlcore.foundation.errors import ConfigError


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
    plain = experiment.to_plain()
    is_task = isinstance(experiment, TaskExperiment)
    if is_task and as_of is not None:
        raise ConfigError(f"--as-of must be left out for a task of one's own, was {as_of}: it has no market data")
    with _terminating_cleanly(), prefect_api(home) as api, listening(progress):
        settings = {PREFECT_API_URL: api, PREFECT_LOCAL_STORAGE_PATH: home.prefect / "results"}
        with temporary_settings(settings), quiet_console():
            result: RunResult = (
                train_task_agent(plain, home=str(home.root), until=until)
                if is_task
                else train_execution_agent(plain, as_of=as_of, home=str(home.root), until=until)
            )
    return result


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
