"""``fillwright runs``, ``gc``, ``ui``: what is there, what can go, where to look at it."""

from __future__ import annotations

import signal
import threading
from typing import Annotated

import typer

from flows.cli.options import HomeFolder, Json


def list_runs(
    home: HomeFolder = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Show so many, the newest first.")] = 20,
    is_json: Json = False,
) -> None:
    """List the runs of this home, the newest first."""
    from flows.cli.output import aligned, print_result
    from flows.home import Home
    from flows.run_records import read_records

    records = read_records(Home.locate(home))[:limit]
    rows = [("run", "status", "kind", "started", "report")]
    rows += [
        (
            r.run,
            r.status,
            "whole" if r.trial is None else "trial",
            f"{r.started_at.astimezone():%Y-%m-%d %H:%M}",
            str(r.report or ""),
        )
        for r in records
    ]
    lines = aligned(rows) if records else [f"no runs in {Home.locate(home).root}"]
    print_result({"runs": [record.model_dump(mode="json") for record in records]}, lines, is_json)


def collect_garbage(
    home: HomeFolder = None,
    keep_runs: Annotated[
        int, typer.Option("--keep-runs", min=0, help="Keep so many runs, the newest, and what they stand on.")
    ] = 10,
    is_dry: Annotated[bool, typer.Option("--dry-run", help="Say what would go, and leave it.")] = False,
    is_json: Json = False,
) -> None:
    """Delete runs, checkpoints, stores and seed sets that none of the newest runs stands on. MLflow and Prefect keep theirs."""
    from flows.cli.output import print_result
    from flows.home import Home
    from flows.housekeeping.garbage import collect, find_garbage

    garbage = find_garbage(Home.open(home), keep_runs)
    gone = garbage if is_dry else collect(garbage)
    said = "would free" if is_dry else "freed"
    lines = [*map(str, gone.paths), f"{said} {gone.num_bytes / 2**20:.1f} MiB in {len(gone.paths)} places"]
    print_result({"is_dry_run": is_dry, "paths": list(gone.paths), "num_bytes": gone.num_bytes}, lines, is_json)


def show_interfaces(
    home: HomeFolder = None,
    prefect_port: Annotated[int, typer.Option("--prefect-port", help="Port of Prefect's pages on 127.0.0.1.")] = 4200,
    mlflow_port: Annotated[int, typer.Option("--mlflow-port", help="Port of MLflow's pages on 127.0.0.1.")] = 5000,
    is_json: Json = False,
) -> None:
    """Serve the pages of Prefect and MLflow on this home's own stores, on loopback, until Ctrl-C."""
    from flows.cli.output import print_result
    from flows.home import Home
    from flows.servers import serving

    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with serving(Home.open(home), prefect_port, mlflow_port) as servers:
        lines = [f"Prefect  {servers.prefect_url}", f"MLflow   {servers.mlflow_url}", "Ctrl-C ends both"]
        print_result({"prefect_url": servers.prefect_url, "mlflow_url": servers.mlflow_url}, lines, is_json)
        try:
            stop.wait()
        except KeyboardInterrupt:
            return
