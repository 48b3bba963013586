"""Pictures of a home as a user sees it: the run in Prefect, two runs compared in MLflow, the report. Needs Chromium.

    FILLWRIGHT_HOME=.fillwright python infra/take_pictures.py pictures/

The newest finished run is shown; the comparison takes the two newest trainings of its experiment.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId, ArtifactFilterKey
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.home import Home
from flows.run_records import RunRecord, read_records
from flows.servers import Servers, free_port, serving
from flows.tracking.stores import experiment_id, open_client

# Without a GPU, a sandbox or a shared memory worth the name; time runs fast, so that pages which load by themselves are whole.
_FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
_FLAGS += ["--no-first-run", "--virtual-time-budget=90000"]


def main() -> None:
    """Start the servers on the home, take every picture, end the servers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("destination", type=Path)
    arguments = parser.parse_args()
    browser = shutil.which("chromium")
    if browser is None:
        sys.exit("Chromium must be installed (apt install chromium), was not found")
    home = Home.open(None)
    finished = [record for record in read_records(home) if record.status == "finished" and record.report is not None]
    if not finished:
        sys.exit(f"the home must hold a finished run, {home.root} held none: fillwright run demo")
    arguments.destination.mkdir(parents=True, exist_ok=True)
    with serving(home, free_port(), free_port()) as servers:
        for name, (url, width, height) in _pages(home, finished[0], servers).items():
            target = arguments.destination / f"{name}.png"
            _take(browser, url, target, width, height)
            print(target)


def _pages(home: Home, record: RunRecord, servers: Servers) -> dict[str, tuple[str, int, int]]:
    """Return name → (address, width, height)."""
    flow_run = f"runs/flow-run/{record.prefect_flow_run}"
    client = open_client(home.root)
    where = experiment_id(client, record.experiment, home.root)
    trainings = client.search_runs([where], "tags.role = 'child'", max_results=2)
    terms = sorted(name for name in trainings[0].data.metrics if name.startswith("train/reward/") and name.endswith("/mean"))
    query = {
        "runs": json.dumps([training.info.run_id for training in trainings]),
        "experiments": json.dumps([where]),
        "metric": json.dumps(terms[0]),
        "plot_metric_keys": json.dumps(["train/return/mean", *terms]),
        "plot_layout": "{}",
        "x_axis": "step",
        "y_axis_scale": "linear",
        "line_smoothness": "1",
        "show_point": "false",
        "last_linear_y_axis_range": "[]",
    }
    parameters = "&".join(f"{name}={quote(value)}" for name, value in query.items())
    assert record.report is not None  # only those are taken
    return {
        "prefect_run": (f"{servers.prefect_url}/v2/{flow_run}?tab=Logs", 1600, 1100),
        "prefect_artifacts": (f"{servers.prefect_url}/v2/{flow_run}?tab=Artifacts", 1600, 1100),
        "prefect_report": (f"{servers.prefect_url}/v2/artifacts/artifact/{_report_artifact(record, servers)}", 1600, 1100),
        "mlflow_comparison": (f"{servers.mlflow_url}/#/metric?{parameters}", 2000, 1200),
        "report": (record.report.resolve().as_uri(), 1200, 4600),
    }


def _report_artifact(record: RunRecord, servers: Servers) -> str:
    assert record.prefect_flow_run is not None  # a finished run has had one
    of_run = ArtifactFilter(
        key=ArtifactFilterKey(any_=["backtest-report"]), flow_run_id=ArtifactFilterFlowRunId(any_=[UUID(record.prefect_flow_run)])
    )
    with temporary_settings({PREFECT_API_URL: servers.prefect_api}), get_client(sync_client=True) as client:
        return str(client.read_artifacts(artifact_filter=of_run)[0].id)


def _take(browser: str, url: str, target: Path, width: int, height: int) -> None:
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, *_FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"]
        command += [f"--screenshot={target.resolve()}", url]
        environment = {**os.environ, "HOME": profile}
        subprocess.run(command, check=True, timeout=300, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)


if __name__ == "__main__":
    main()
