"""Operations → calls of MLflow, always on an explicit run id: no global or thread-local active run is ever touched."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag
from mlflow.exceptions import MlflowException

from flows.tracking.operations import EndRun, LogArtifact, LogMetrics, LogParams, Operation, SetTags, StartRun
from flows.tracking.stores import experiment_id, open_client
from rlcore.foundation.errors import FillwrightError

RUN_KEY_TAG = "run_key"
_LARGEST_BATCH = 1000  # MLflow's own limits for one log_batch
_MOST_PARAMS = 100
_REFUSED = {"INVALID_PARAMETER_VALUE", "BAD_REQUEST"}  # no use in trying again

_log = logging.getLogger(__name__)


class UnknownRunError(FillwrightError):
    """Something is to be written to a run that the server does not have."""


class Delivery:
    """Carries out operations of one experiment. Raises what MLflow raises when its server is away."""

    def __init__(self, home: Path, experiment: str) -> None:
        self._home = home
        self._experiment = experiment
        self._client: MlflowClient | None = None
        self._run_ids: dict[str, str] = {}
        self._logged: dict[str, set[tuple[str, int]]] = {}

    def run_id(self, run_key: str) -> str | None:
        """Return MLflow's id of the run, or None where there is no such run."""
        if run_key not in self._run_ids:
            found = self._open().search_runs(
                [experiment_id(self._open(), self._experiment, self._home)], f"tags.`{RUN_KEY_TAG}` = '{run_key}'", max_results=1
            )
            if not found:
                return None
            self._run_ids[run_key] = str(found[0].info.run_id)
        return self._run_ids[run_key]

    def page(self, run_key: str) -> str | None:
        """Return where the run lies on MLflow's pages, below the server's address."""
        run_id = self.run_id(run_key)
        if run_id is None:
            return None
        return f"#/experiments/{experiment_id(self._open(), self._experiment, self._home)}/runs/{run_id}"

    def forget(self, run_key: str) -> None:
        """Forget which figures a run has: somebody else may have written to it."""
        self._logged.pop(run_key, None)

    def deliver(self, operations: Sequence[Operation]) -> None:
        """Carry out the operations in order; neighbouring metrics of a run go together."""
        for group in _neighbours(operations):
            run_key = group[0].run_key
            try:
                if isinstance(group[0], LogMetrics):
                    self._log_metrics(run_key, [one for one in group if isinstance(one, LogMetrics)])
                else:
                    self._carry_out(run_key, group[0])
            except MlflowException as error:
                if error.error_code not in _REFUSED:
                    raise
                _log.warning("MLflow refused %s of run %s and it is left out: %s", group[0].kind, run_key, error)
            except UnknownRunError as error:  # somebody deleted it: waiting for it would hold up all that follows
                _log.warning("%s; its %s is left out", error, group[0].kind)

    def _open(self) -> MlflowClient:
        if self._client is None:
            self._client = open_client(self._home)
        return self._client

    def _carry_out(self, run_key: str, operation: Operation) -> None:
        if isinstance(operation, StartRun):
            self._start(run_key, operation)
        elif isinstance(operation, LogParams):
            self._log_params(run_key, operation)
        elif isinstance(operation, SetTags):
            tags = [RunTag(key, value) for key, value in operation.tags.items()]
            self._open().log_batch(self._known(run_key), tags=tags)
        elif isinstance(operation, LogArtifact):
            self._log_artifact(run_key, operation)
        elif isinstance(operation, EndRun):
            self._open().set_terminated(self._known(run_key), operation.status, operation.ended_ms)

    def _start(self, run_key: str, operation: StartRun) -> None:
        tags = dict(operation.tags)
        if operation.parent_key is not None:
            tags["mlflow.parentRunId"] = self._known(operation.parent_key)
        known = self.run_id(run_key)
        if known is not None:
            self._open().update_run(known, status="RUNNING")
            self._open().log_batch(known, tags=[RunTag(key, value) for key, value in tags.items()])
            return
        run = self._open().create_run(
            experiment_id(self._open(), self._experiment, self._home),
            start_time=operation.started_ms,
            tags={**tags, RUN_KEY_TAG: run_key},
            run_name=operation.name,
        )
        self._run_ids[run_key] = str(run.info.run_id)
        self._logged[run_key] = set()

    def _log_metrics(self, run_key: str, operations: list[LogMetrics]) -> None:
        logged = self._logged_so_far(run_key)
        fresh: dict[tuple[str, int], Metric] = {}
        for one in operations:
            for key, value in one.values.items():
                if (key, one.step) not in logged:
                    fresh.setdefault((key, one.step), Metric(key, value, one.at_ms, one.step))
        items = list(fresh.items())
        for first in range(0, len(items), _LARGEST_BATCH):
            part = items[first : first + _LARGEST_BATCH]
            self._open().log_batch(self._known(run_key), metrics=[metric for _, metric in part])
            logged.update(key_and_step for key_and_step, _ in part)

    def _log_params(self, run_key: str, operation: LogParams) -> None:
        run_id = self._known(run_key)
        known = self._open().get_run(run_id).data.params
        fresh = [Param(name, value) for name, value in operation.params.items() if name not in known]
        for first in range(0, len(fresh), _MOST_PARAMS):
            self._open().log_batch(run_id, params=fresh[first : first + _MOST_PARAMS])

    def _log_artifact(self, run_key: str, operation: LogArtifact) -> None:
        path = Path(operation.path)
        if not path.exists():
            _log.warning("artifact %s of run %s is gone and is left out", path, run_key)
        elif path.is_dir():
            self._open().log_artifacts(self._known(run_key), str(path), operation.folder)
        else:
            self._open().log_artifact(self._known(run_key), str(path), operation.folder)

    def _logged_so_far(self, run_key: str) -> set[tuple[str, int]]:
        """Ask the server, which alone knows what arrived before a kill."""
        if run_key not in self._logged:
            run_id = self._known(run_key)
            keys = self._open().get_run(run_id).data.metrics
            self._logged[run_key] = {(key, row.step) for key in keys for row in self._open().get_metric_history(run_id, key)}
        return self._logged[run_key]

    def _known(self, run_key: str) -> str:
        run_id = self.run_id(run_key)
        if run_id is None:
            raise UnknownRunError(f"run must have been started and not deleted, was {run_key!r}")
        return run_id


def _neighbours(operations: Sequence[Operation]) -> Iterator[list[Operation]]:
    """Yield neighbouring metrics of one run together and everything else alone."""
    group: list[Operation] = []
    for operation in operations:
        if group and not (isinstance(operation, LogMetrics) and operation.run_key == group[0].run_key):
            yield group
            group = []
        if isinstance(operation, LogMetrics):
            group.append(operation)
        else:
            yield [operation]
    if group:
        yield group
