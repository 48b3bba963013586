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

from flows.home import Home
from flows.run_records import RunRecord, read_records
from flows.servers import Servers, free_port, serving
from flows.tracking.stores import experiment_id, open_client

# Without a GPU, a sandbox or a shared memory worth the name; time runs fast, so that pages which load by themselves are whole.
_FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run"]


def main() -> None:
    """Start the servers on the home, take every picture, end the servers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("destination", type=Path)
    parser.add_argument("--browser", default=shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome"))
    arguments = parser.parse_args()
    if arguments.browser is None:
        sys.exit("Chromium must be installed (apt install chromium), was not found")
    home = Home.open(None)
    finished = [record for record in read_records(home) if record.status == "finished" and record.report is not None]
    if not finished:
        sys.exit(f"the home must hold a finished run, {home.root} held none: fillwright run demo")
    arguments.destination.mkdir(parents=True, exist_ok=True)
    with serving(home, free_port(), free_port()) as servers:
        for name, (url, width, height) in _pages(home, finished[0], servers).items():
            target = arguments.destination / f"{name}.png"
            _take(arguments.browser, url, target, width, height)
            print(target)


def _pages(home: Home, record: RunRecord, servers: Servers) -> dict[str, tuple[str, int, int]]:
    flow_run = f"{servers.prefect_url}/runs/flow-run/{record.prefect_flow_run}"
    client = open_client(home.root)
    where = experiment_id(client, record.experiment, home.root)
    children = client.search_runs([where], "tags.role = 'child'", max_results=2)
    both = quote(json.dumps([child.info.run_id for child in children]))
    compared = f"{servers.mlflow_url}/#/compare-runs?runs={both}&experiments={quote(json.dumps([where]))}"
    assert record.report is not None  # only those are taken
    return {
        "prefect_run": (flow_run, 1600, 1300),
        "prefect_artifacts": (f"{flow_run}?tab=Artifacts", 1600, 1300),
        "mlflow_comparison": (compared, 1600, 2600),
        "mlflow_run": (f"{servers.mlflow_url}/#/experiments/{where}/runs/{children[0].info.run_id}/model-metrics", 1600, 2000),
        "report": (record.report.resolve().as_uri(), 1200, 3600),
    }


def _take(browser: str, url: str, target: Path, width: int, height: int) -> None:
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, *_FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}", "--virtual-time-budget=60000"]
        command += [f"--screenshot={target.resolve()}", url]
        environment = {**os.environ, "HOME": profile}
        subprocess.run(command, check=True, timeout=300, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)


if __name__ == "__main__":
    main()
