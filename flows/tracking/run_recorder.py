"""What the flow and the trainer say about a run: queued, sent in batches, kept on disk while the server is away.

Nothing here ever raises because of the server: a training does not stop for its log book.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from flows.tracking.delivery import Delivery
from flows.tracking.operations import EndRun, LogArtifact, LogMetrics, LogParams, Operation, SetTags, StartRun
from flows.tracking.spool import Spool

_SECONDS_BETWEEN_TRIES = 30.0

_log = logging.getLogger(__name__)


class Tracking:
    """All MLflow runs of one flow run: a parent and its children. Exactly one process writes them at a time."""

    def __init__(self, home: Path, experiment: str, flow_run: str) -> None:
        self._delivery = Delivery(home, experiment)
        self._spool = Spool(spool_folder(home) / f"{flow_run}.jsonl", experiment)
        self._not_before = 0.0
        self._last_trouble = ""

    def recorder(self, run_key: str) -> RunRecorder:
        """Return a recorder of a run; ``start`` begins it. Whatever another recorder wrote until now is asked of the server."""
        self._delivery.forget(run_key)
        return RunRecorder(self, run_key)

    def run_id(self, run_key: str) -> str | None:
        """Return MLflow's id of the run, or None while it is unknown."""
        try:
            return self._delivery.run_id(run_key)
        except Exception as error:  # whatever MLflow, SQLAlchemy or requests raise: tracking never stops a run
            self._away(error)
            return None

    def page(self, run_key: str) -> str | None:
        """Return where the run lies on MLflow's pages, or None while it is unknown."""
        try:
            return self._delivery.page(run_key)
        except Exception as error:  # as above
            self._away(error)
            return None

    def send(self, operations: list[Operation]) -> None:
        """Deliver what waited and then ``operations``; what cannot be delivered waits on disk."""
        if time.monotonic() < self._not_before:
            _keep(self._spool, operations)
            return
        try:
            self._delivery.deliver([*self._spool.read(), *operations])
            self._spool.clear()
        except Exception as error:  # as above
            self._away(error)
            _keep(self._spool, operations)

    def _away(self, error: Exception) -> None:
        self._not_before = time.monotonic() + _SECONDS_BETWEEN_TRIES
        # SQLAlchemy puts advice before, and the statement with all its values after, the line that says what is wrong.
        lines = str(error).splitlines() or [repr(error)]
        trouble = next((line for line in lines if "Error" in line), lines[0])
        if trouble != self._last_trouble:
            self._last_trouble = trouble
            _log.warning("tracking cannot be written; figures are kept in %s and sent later: %s", self._spool.path, trouble)


class RunRecorder:
    """Writes one MLflow run."""

    def __init__(self, tracking: Tracking, run_key: str) -> None:
        self.run_key = run_key
        self._tracking = tracking
        self._queue: list[Operation] = []
        self._num_not_finite: dict[str, int] = {}

    @property
    def run_id(self) -> str | None:
        """MLflow's id, or None while the server is away and has not seen this run."""
        return self._tracking.run_id(self.run_key)

    def start(self, name: str, tags: Mapping[str, str], parent_key: str | None = None) -> None:
        """Begin the run, or take up the one with this key again."""
        self._queue.append(
            StartRun(run_key=self.run_key, name=name, parent_key=parent_key, tags=dict(tags), started_ms=_now_ms())
        )
        self.flush()

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Queue the figures of one step. What is not finite is counted in ``nan_<metric>`` and not logged."""
        finite = {}
        for key, value in values.items():
            if math.isfinite(value):
                finite[key] = float(value)
            else:
                self._num_not_finite[key] = self._num_not_finite.get(key, 0) + 1
                finite[f"nan_{key}"] = float(self._num_not_finite[key])
        if finite:
            self._queue.append(LogMetrics(run_key=self.run_key, step=step, values=finite, at_ms=_now_ms()))

    def params(self, params: Mapping[str, str]) -> None:
        """Queue fields of the experiment; what the run has already stays as it is."""
        self._queue.append(LogParams(run_key=self.run_key, params=dict(params)))

    def tags(self, tags: Mapping[str, str]) -> None:
        """Queue tags; a later value takes the place of an earlier one."""
        self._queue.append(SetTags(run_key=self.run_key, tags=dict(tags)))

    def artifact(self, path: Path, folder: str | None = None) -> None:
        """Queue a file or a folder; it must stay where it is until it has arrived."""
        self._queue.append(LogArtifact(run_key=self.run_key, path=str(path.resolve()), folder=folder))

    def flush(self) -> None:
        """Send what is queued."""
        queue, self._queue = self._queue, []
        self._tracking.send(queue)

    def end(self, status: Literal["FINISHED", "FAILED", "KILLED"]) -> None:
        """Send everything and close the run."""
        self._queue.append(EndRun(run_key=self.run_key, status=status, ended_ms=_now_ms()))
        self.flush()


def spool_folder(home: Path) -> Path:
    """Return where operations wait."""
    return home / "tracking-spool"


def replay_waiting(home: Path, is_in_use: Callable[[str], bool]) -> int:
    """Send what earlier flow runs could not.

    Args:
        home: the state folder.
        is_in_use: says of a flow run whether a living process owns it; its spool is left alone.

    Returns:
        How many flow runs still wait.
    """
    num_waiting = 0
    for path in sorted(spool_folder(home).glob("*.jsonl")):
        spool = None if is_in_use(path.stem) else Spool.open_existing(path)
        if spool is not None:
            Tracking(home, spool.experiment, path.stem).send([])
            num_waiting += path.exists()
    return num_waiting


def _keep(spool: Spool, operations: list[Operation]) -> None:
    try:
        if operations:
            spool.append(operations)
    except OSError as error:
        _log.warning("%d tracking operations are lost, %s cannot be written: %s", len(operations), spool.path, error)


def _now_ms() -> int:
    return int(time.time() * 1000)
