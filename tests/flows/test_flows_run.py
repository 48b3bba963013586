"""The flow on a real Prefect server and a real MLflow store: whole, again from the cache, killed and gone on, and by a worker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
import yaml
from mlflow import MlflowClient
from mlflow.entities import Run
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.cli.experiments import load
from flows.home import Home
from flows.run_experiment import run_experiment
from flows.run_lifecycle import RunResult
from flows.run_records import read_records
from flows.servers import Servers, free_port, server_environment, serving
from flows.tracking.stores import experiment_id, open_client
from rlcore.market.store import MarketStore

ROOT = Path(__file__).resolve().parents[2]
SMALL = [
    "market.num_instruments=2",
    "market.num_days=40",
    "orders.num_orders=400",
    "split.validation_days=4",
    "split.test_days=11",
    "training.episodes_per_iteration=64",
    "training.lanes=64",
    "training.validate_every=1",
    "evaluation.lanes=128",
    "seeds=[0,1]",
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home.open(tmp_path_factory.mktemp("flow") / "home")


@pytest.fixture(scope="module")
def servers(home: Home) -> Iterator[Servers]:
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    with serving(home, free_port(), free_port()) as running:
        yield running


@pytest.fixture(scope="module")
def first(home: Home, servers: Servers) -> RunResult:
    return _run(home, "training.iterations=3")


def _run(home: Home, *overrides: str, as_of: date | None = None) -> RunResult:
    return run_experiment(load("demo", [*SMALL, *overrides]), home, as_of)


def _client(home: Home) -> tuple[MlflowClient, str]:
    client = open_client(home.root)
    return client, experiment_id(client, "demo", home.root)


def _parent_and_children(home: Home, run: str) -> tuple[Run, list[Run]]:
    client, where = _client(home)
    runs = client.search_runs([where], f"tags.flow_run = '{run}'")
    parents = [one for one in runs if one.data.tags["role"] == "parent"]
    assert len(parents) == 1
    return parents[0], [one for one in runs if one.data.tags["role"] == "child"]


def _steps(home: Home, run: Run, metric: str) -> list[int]:
    return [row.step for row in _client(home)[0].get_metric_history(run.info.run_id, metric)]


def test_a_run_leaves_one_clean_family_of_tracking_runs(home: Home, first: RunResult) -> None:
    parent, children = _parent_and_children(home, first.run)
    assert parent.info.status == "FINISHED"
    assert sorted(child.data.tags["seed"] for child in children) == ["0", "1"]
    for child in children:
        assert child.info.status == "FINISHED"
        assert child.data.tags["mlflow.parentRunId"] == parent.info.run_id
        assert "reused_from" not in child.data.tags
        terms = ["train/reward/price_advantage/mean", "train/reward/concentration/mean"]
        for metric in (*terms, "train/return/mean", "validation/return/mean"):
            assert sorted(_steps(home, child, metric)) == [1, 2, 3]
        figures = child.data.metrics
        assert sum(figures[term] for term in terms) == pytest.approx(figures["train/return/mean"])
    gains = [child.data.metrics["backtest/shortfall_bps/mean"] for child in children]
    assert parent.data.metrics["backtest/shortfall_bps/mean/seeds_mean"] == pytest.approx(sum(gains) / 2)
    assert parent.data.metrics["backtest/shortfall_bps/mean/seeds_std"] == pytest.approx(abs(gains[0] - gains[1]) / 2**0.5)
    assert parent.data.metrics["backtest/shortfall_bps/mean/seeds_min"] == min(gains)


def test_the_artifacts_of_a_run_are_in_mlflow(home: Home, first: RunResult) -> None:
    client, _ = _client(home)
    parent, children = _parent_and_children(home, first.run)

    def paths(run: Run, folder: str) -> set[str]:
        return {Path(file.path).name for file in client.list_artifacts(run.info.run_id, folder)}

    assert paths(parent, "config") == {"experiment.yaml"}
    assert {"report.html", "comparisons.parquet", "orders.parquet"} <= paths(parent, "report")
    for child in children:
        assert paths(child, "model") == {"policy.pt"}
        assert paths(child, "history") == {"train.csv", "validation.csv"}
        assert paths(child, "checkpoints")
        assert len(paths(child, "tables")) == 1


def test_every_metric_and_tag_stands_in_the_schemas(home: Home, first: RunResult) -> None:
    tags = yaml.safe_load((ROOT / "mlflow" / "tag_schema.yaml").read_text())
    schema = yaml.safe_load((ROOT / "mlflow" / "metric_schema.yaml").read_text())
    parent, children = _parent_and_children(home, first.run)
    for run in (parent, *children):
        assert {tag for tag in run.data.tags if not tag.startswith("mlflow.")} <= set(tags)
        prefixes = tuple(schema[run.data.tags["role"]])
        assert [metric for metric in run.data.metrics if not metric.startswith(prefixes)] == []


def test_the_run_shows_its_progress_and_its_report_in_prefect(first: RunResult, servers: Servers) -> None:
    with temporary_settings({PREFECT_API_URL: servers.prefect_api}), get_client(sync_client=True) as client:
        of_run = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[first.prefect_flow_run]))
        found = {artifact.key: artifact for artifact in client.read_artifacts(artifact_filter=of_run)}
    assert {"training-seed-0-fold-0", "training-seed-1-fold-0", "backtest-report", "backtest-table", "mlflow-run"} <= set(found)
    assert found["training-seed-0-fold-0"].data == 100.0
    assert first.message in str(found["backtest-report"].data)
    assert servers.mlflow_url in str(found["mlflow-run"].data)


def test_a_second_run_reuses_everything_and_has_tracking_runs_of_its_own(home: Home, first: RunResult) -> None:
    second = _run(home, "training.iterations=3")
    assert second.run != first.run
    tasks = {"prepare-market-data", "generate-seed-sets", "backtest-agent fold-0"}
    trainings = {"fit-agent seed-0-fold-0", "fit-agent seed-1-fold-0"}
    assert tasks | trainings <= set(second.reused)
    _, children = _parent_and_children(home, second.run)
    _, before = _parent_and_children(home, first.run)
    origin = {child.data.tags["seed"]: child for child in before}
    for child in children:
        source = origin[child.data.tags["seed"]]
        assert child.data.tags["reused_from"] == source.data.tags["run_key"]
        assert child.data.metrics == source.data.metrics
        assert sorted(_steps(home, child, "train/return/mean")) == [1, 2, 3]


def test_a_training_whose_files_have_gone_is_made_again(home: Home, first: RunResult) -> None:
    policy = first.trainings[0] / "policy.pt"
    content = policy.read_bytes()
    for path in sorted(first.trainings[0].rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    again = _run(home, "training.iterations=3")
    assert "fit-agent seed-0-fold-0" not in again.reused
    assert "fit-agent seed-1-fold-0" in again.reused
    assert policy.read_bytes() == content  # the same seed, the same bits


def test_nothing_later_than_the_as_of_date_is_read(home: Home, first: RunResult) -> None:
    stores = set(home.stores.iterdir())
    dates = next(MarketStore.open(path) for path in stores if path.is_dir()).dates
    as_of = dates[-3].item()
    result = _run(home, "training.iterations=1", "seeds=[0]", as_of=as_of)
    assert result.as_of == as_of
    (fresh,) = (path for path in set(home.stores.iterdir()) - stores if path.is_dir())
    assert MarketStore.open(fresh).dates[-1] == dates[-3]


KILLED = """
import os, signal, sys
from pathlib import Path
from flows.cli.experiments import load
from flows.home import Home
from flows.run_experiment import run_experiment

def progress(stage, done, total, text=""):
    if stage.startswith("fit-agent seed-1") and 0 < done < total:
        os.kill(os.getpid(), getattr(signal, sys.argv[2]))

run_experiment(load("demo", sys.argv[3:]), Home.open(Path(sys.argv[1])), None, progress)
"""


def _run_and_kill(home: Home, signal_name: str, *overrides: str) -> int:
    command = [sys.executable, "-c", KILLED, str(home.root), signal_name, *SMALL, *overrides]
    return subprocess.run(command, timeout=300, check=False, cwd=ROOT).returncode


@pytest.mark.parametrize(("signal_name", "code"), [("SIGKILL", -signal.SIGKILL), ("SIGTERM", 143)])
def test_a_killed_run_goes_on_to_the_same_result_and_one_clean_tracking_run(
    home: Home, servers: Servers, signal_name: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    iterations = f"training.iterations={4 if signal_name == 'SIGKILL' else 5}"
    assert _run_and_kill(home, signal_name, iterations) == code
    (killed,) = (record for record in read_records(home) if record.can_go_on)
    assert killed.status == ("killed" if signal_name == "SIGKILL" else "interrupted")
    result = _run(home, iterations)
    assert (result.run, result.is_resumed) == (killed.run, True)
    with temporary_settings({PREFECT_API_URL: servers.prefect_api}), get_client(sync_client=True) as client:
        left = client.read_flow_run(killed.prefect_flow_run).state  # type: ignore[arg-type]  # takes text too
    assert left is not None
    assert left.is_final()
    parent, children = _parent_and_children(home, result.run)
    assert {run.info.status for run in (parent, *children)} == {"FINISHED"}
    assert len(children) == 2
    last = int(iterations[-1])
    for child in children:
        assert sorted(_steps(home, child, "train/return/mean")) == list(range(1, last + 1))
        assert "reused_from" not in child.data.tags
    uninterrupted = Home.open(home.root.parent / f"reference-{signal_name}")
    monkeypatch.setenv("PREFECT_API_URL", servers.prefect_api)
    reference = _run(uninterrupted, iterations)
    for mine, other in zip(result.trainings, reference.trainings, strict=True):
        assert (mine / "policy.pt").read_bytes() == (other / "policy.pt").read_bytes()
    assert result.figures == reference.figures


def test_what_a_killed_run_left_open_is_closed_by_the_next_run(home: Home, servers: Servers) -> None:
    _run_and_kill(home, "SIGKILL", "training.iterations=6")
    (killed,) = (record for record in read_records(home) if record.status == "killed")
    _run(home, "training.iterations=1")
    parent, children = _parent_and_children(home, killed.run)
    assert {run.info.status for run in (parent, *children)} <= {"KILLED", "FINISHED"}
    with temporary_settings({PREFECT_API_URL: servers.prefect_api}), get_client(sync_client=True) as client:
        state = client.read_flow_run(killed.prefect_flow_run).state  # type: ignore[arg-type]  # takes text too
    assert state is not None
    assert state.name == "Crashed"


def test_a_process_worker_runs_the_deployment(home: Home, servers: Servers, tmp_path: Path) -> None:
    environment = {
        **server_environment(home, 0),
        "PREFECT_API_URL": servers.prefect_api,
        "PREFECT_WORKER_QUERY_SECONDS": "2",
        "PREFECT_HOME": str(tmp_path),
    }
    environment.pop("PREFECT_SERVER_UI_API_URL")
    prefect = [sys.executable, "-m", "prefect", "--no-prompt"]

    def call(*arguments: str) -> str:
        command = [*prefect, *arguments]
        done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    call("work-pool", "create", "local-process", "--type", "process")
    call("deploy", "--all", "--prefect-file", "infra/prefect.yaml")
    with (tmp_path / "worker.log").open("wb") as log:
        command = [*prefect, "worker", "start", "--pool", "local-process", "--limit", "1"]
        worker = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)
        try:
            parameters = {"home": str(home.root), "overrides": [*SMALL, "training.iterations=2", "seeds=[0]"]}
            call("deployment", "run", "train-execution-agent/nightly", "--params", json.dumps(parameters), "--watch")
        finally:
            worker.send_signal(signal.SIGTERM)
            try:
                worker.wait(60)
            except subprocess.TimeoutExpired:  # Prefect's worker can miss its own signal on a crowded machine
                worker.kill()
                worker.wait()
    newest = read_records(home)[0]
    assert newest.status == "finished", (tmp_path / "worker.log").read_text()
    assert newest.as_of is not None  # a deployment's run sees the day before it was scheduled and nothing later
    assert newest.report is not None
    assert newest.report.exists()
