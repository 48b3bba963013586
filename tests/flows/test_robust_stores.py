"""Databases of a home: made whole or not at all, whoever is killed and however many come at once; damage is called so."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from uuid import uuid4

import pytest
from prefect import flow, task
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Running

from flows.home import Home
from flows.housekeeping.leftovers import close_in_prefect
from flows.locks import claimed
from flows.run_records import RunRecord
from flows.servers import prefect_api
from flows.tracking.run_recorder import Tracking, spool_folder
from flows.tracking.stores import database_path, open_client
from rlcore.foundation.errors import InputError

FIRST_USE = "import sys; from pathlib import Path; from flows.tracking.stores import open_client; open_client(Path(sys.argv[1]))"


@pytest.fixture(autouse=True)
def _own_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("PREFECT_API_URL", raising=False)


def test_a_tracking_store_stands_in_its_place_only_when_it_is_whole(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", FIRST_USE, str(tmp_path)])
    try:
        while process.poll() is None and not database_path(tmp_path).exists():
            time.sleep(0.001)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    with closing(sqlite3.connect(database_path(tmp_path))) as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert {"experiments", "runs", "metrics", "tags", "alembic_version"} <= tables


def test_a_tracking_store_whose_making_was_killed_is_made_again(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", FIRST_USE, str(tmp_path)])
    try:
        while process.poll() is None and not list((tmp_path / "mlflow").glob("*.db")):
            time.sleep(0.001)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert open_client(tmp_path).search_experiments()  # MLflow's own first one
    assert [path.name for path in (tmp_path / "mlflow").glob("*.db*")] == [database_path(tmp_path).name]


def test_a_damaged_tracking_store_is_named_and_what_is_to_be_written_waits(tmp_path: Path) -> None:
    Home.open(tmp_path)
    database_path(tmp_path).write_bytes(b"no database" * 1000)
    with pytest.raises(InputError, match=r"must be a whole database, .*mlflow.db is damaged .* move it away"):
        open_client(tmp_path)
    recorder = Tracking(tmp_path, "experiment", "one").recorder("one")
    recorder.start("one", {})
    recorder.end("FINISHED")
    assert (spool_folder(tmp_path) / "one.jsonl").exists()


def test_servers_of_one_home_come_up_one_after_the_other(tmp_path: Path) -> None:
    # Two that make one new database at once break it, and one of two runs fails.
    home = Home.open(tmp_path)
    is_answering = Event()

    def serve() -> None:
        with prefect_api(home):
            is_answering.set()

    with ThreadPoolExecutor(1) as threads:
        with claimed(home.prefect):
            serving = threads.submit(serve)
            time.sleep(2.0)
            assert not (home.prefect / "server.log").exists()  # written from the first moment
        serving.result()
    assert is_answering.is_set()


@task
def _unfinished_task() -> None:
    """Stands for a task that was running when its process was killed."""


@flow
def _unfinished() -> None:
    """Stands for a flow that was running when its process was killed."""


def test_what_a_killed_process_left_running_in_prefect_is_crashed_with_its_tasks(tmp_path: Path) -> None:
    home = Home.open(tmp_path)
    with prefect_api(home) as address, temporary_settings({PREFECT_API_URL: address}), get_client(sync_client=True) as client:
        run = client.create_flow_run(_unfinished, state=Running())
        task_run = client.create_task_run(_unfinished_task, run.id, dynamic_key=uuid4().hex, state=Running())
        record = RunRecord(
            run="one", experiment="e", identity="i", as_of=None, status="killed", started_at=datetime.now(UTC),
            prefect_flow_run=str(run.id),
        )  # fmt: skip
        close_in_prefect(record)
        ended = client.read_flow_run(run.id).state
        tasks = client.read_task_runs(flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[run.id])))
        assert ended is not None
        assert ended.is_crashed()
        assert [(one.id, one.state is not None and one.state.is_crashed()) for one in tasks] == [(task_run.id, True)]
