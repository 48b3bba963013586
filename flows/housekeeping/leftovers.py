"""What killed runs left open: records, MLflow runs, runs in Prefect, and figures that wait for a tracking server."""

from __future__ import annotations

import logging
from typing import Any
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
from prefect.client.schemas.objects import State
from prefect.states import Crashed

from flows.home import Home
from flows.run_records import RunRecord, is_owned, mark_killed, read_records
from flows.tracking.run_recorder import replay_waiting
from flows.tracking.stores import close_open_runs

_log = logging.getLogger(__name__)


def close_leftovers(home: Home) -> None:
    """Close what no living process owns. Runs that this process owns, those it goes on with among them, are left alone."""
    for record in read_records(home):
        if record.status == "killed" and mark_killed(home, record):
            close_open_runs(home.root, record.experiment, record.run)
            close_in_prefect(record)
    replay_waiting(home.root, lambda run: is_owned(home, run))


def close_in_prefect(record: RunRecord) -> None:
    """Say "crashed" of a flow run that a kill left "running": Prefect itself cannot know (its workers send no sign of life)."""
    if record.prefect_flow_run is None:
        return
    try:
        with get_client(sync_client=True) as client:
            found = client.read_flow_run(UUID(record.prefect_flow_run))
            state: State[Any] = Crashed(message="its process is gone; the same experiment goes on where it ended")
            for task in client.read_task_runs(flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[found.id]))):
                if task.state is not None and not task.state.is_final():
                    client.set_task_run_state(task.id, state, force=True)
            if found.state is not None and not found.state.is_final():
                client.set_flow_run_state(found.id, state, force=True)
    except Exception as error:  # whatever the client raises: another server may be in use today
        _log.warning("flow run %s could not be closed in Prefect: %s", record.prefect_flow_run, error)
