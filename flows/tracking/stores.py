"""The tracking store of a home: one SQLite file, one fixed artifact folder, created once before anybody writes."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

# MLflow reads these when it is imported or asked. Retries of minutes would hold up a training while a server is away.
for _name, _value in {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
}.items():
    os.environ.setdefault(_name, _value)

from mlflow import MlflowClient  # noqa: E402
from mlflow.exceptions import MlflowException  # noqa: E402
from sqlalchemy.exc import DatabaseError  # noqa: E402

from rlcore.foundation.errors import InputError  # noqa: E402
from rlcore.foundation.file_locks import lock_in_turn  # noqa: E402

_log = logging.getLogger(__name__)
_ATTEMPTS = 5


def tracking_uri(home: Path) -> str:
    """Return where runs are tracked: ``MLFLOW_TRACKING_URI`` if set, else the home's own store."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{database_path(home)}"


def database_path(home: Path) -> Path:
    return home.resolve() / "mlflow" / "mlflow.db"


def artifact_root(home: Path) -> Path:
    """Return the fixed folder of artifacts. Left to itself MLflow puts them below whatever folder a command was called from."""
    return home.resolve() / "mlflow" / "artifacts"


def open_client(home: Path) -> MlflowClient:
    """Return a client of the home's tracking store, with the store made and up to date.

    The first use of a SQLite store migrates it, and two first uses at once break it: one at a time, whoever comes.
    """
    uri = tracking_uri(home)
    if not uri.startswith("sqlite:"):
        return MlflowClient(tracking_uri=uri, registry_uri=uri)
    artifact_root(home).mkdir(parents=True, exist_ok=True)
    with _one_at_a_time(home / "mlflow" / ".migration.lock"):
        # A new store is told of at INFO, and trouble, which the recorder tells of, at ERROR with all that was to be written.
        logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
        if not database_path(home).exists() and uri == f"sqlite:///{database_path(home)}":
            _make_database(database_path(home))
        try:
            client = MlflowClient(tracking_uri=uri, registry_uri=uri)
            client.search_experiments(max_results=1)
        except DatabaseError as error:
            if type(error) is not DatabaseError:  # its children: locked, full, …
                raise
            remedy = "put a copy back, or move it away for a new one"
            raise InputError(f"the tracking store must be a whole database, {uri} is damaged ({error.orig}): {remedy}") from error
        _follow_the_home(home)
    return client


def experiment_id(client: MlflowClient, name: str, home: Path) -> str:
    """Return the id of the experiment, created where it is missing; two processes may ask at once."""
    is_own_store = client.tracking_uri.startswith("sqlite:")
    location = (artifact_root(home) / name).as_uri() if is_own_store else None
    for attempt in range(_ATTEMPTS):
        found = client.get_experiment_by_name(name)
        if found is not None:
            if found.lifecycle_stage == "deleted":
                client.restore_experiment(found.experiment_id)
            return str(found.experiment_id)
        try:
            return str(client.create_experiment(name, artifact_location=location))
        except MlflowException:
            if attempt == _ATTEMPTS - 1:
                raise
            time.sleep(0.1 * 2**attempt)
    raise AssertionError("unreachable: the last attempt returns or raises")


def close_open_runs(home: Path, experiment: str, flow_run: str) -> None:
    """Mark as killed what a flow run whose process is gone left running."""
    try:
        client = open_client(home)
        where = [experiment_id(client, experiment, home)]
        for run in client.search_runs(where, f"tags.flow_run = '{flow_run}' and attributes.status = 'RUNNING'"):
            client.set_terminated(run.info.run_id, "KILLED")
    except Exception as error:  # whatever MLflow or its database raise: tidying up never stops a run
        _log.warning("MLflow runs of %s could not be closed: %s", flow_run, error)


def _make_database(path: Path) -> None:
    """Make the database beside its place and move it there: MLflow can neither finish nor use one whose making was killed."""
    draft = path.with_name(".draft.db")
    for leftover in path.parent.glob(f"{draft.name}*"):  # SQLite's journal lies beside
        leftover.unlink()
    uri = f"sqlite:///{draft}"
    MlflowClient(tracking_uri=uri, registry_uri=uri).search_experiments(max_results=1)
    draft.replace(path)


def _follow_the_home(home: Path) -> None:
    """Correct the addresses of artifacts when the home was moved: MLflow keeps them as absolute paths."""
    note = home / "mlflow" / ".artifact_root"
    now = artifact_root(home).as_uri()
    before = note.read_text() if note.exists() else now
    if before != now:
        with closing(sqlite3.connect(database_path(home))) as database, database:
            for table, column in (("experiments", "artifact_location"), ("runs", "artifact_uri")):
                database.execute(
                    f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE substr({column}, 1, ?) = ?",  # our names
                    (now, len(before) + 1, len(before), before),
                )
    note.write_text(now)


@contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as stream:
        lock_in_turn(stream)
        yield
