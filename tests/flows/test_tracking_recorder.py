"""The log book: one clean run whatever happens, finite figures only, and nothing lost while the server is away."""

from __future__ import annotations

import math
from importlib import resources
from pathlib import Path

import pytest

from flows.cli.init import TASK_EXPERIMENT_TEXT, TASK_PLUGIN
from flows.tracking import run_recorder
from flows.tracking.operations import SetTags
from flows.tracking.params import params_of
from flows.tracking.run_recorder import Tracking, replay_waiting, spool_folder
from flows.tracking.spool import Spool
from flows.tracking.stores import artifact_root, experiment_id, open_client
from rlcore.config.loading import load_experiment


@pytest.fixture(autouse=True)
def _own_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def _history(home: Path, run_id: str, key: str) -> list[tuple[int, float]]:
    rows = open_client(home).get_metric_history(run_id, key)
    return sorted((row.step, row.value) for row in rows)


def test_a_metric_stands_once_at_each_step_even_when_a_resumed_process_says_it_again(tmp_path: Path) -> None:
    first = Tracking(tmp_path, "experiment", "one").recorder("one")
    first.start("one", {"seed": "0"})
    for step in range(3):
        first.metrics(step, {"train/loss": float(step)})
    first.flush()

    second = Tracking(tmp_path, "experiment", "one").recorder("one")
    second.start("one", {"seed": "0"})
    for step in range(5):
        second.metrics(step, {"train/loss": float(step)})
    second.end("FINISHED")

    assert second.run_id == first.run_id
    assert _history(tmp_path, str(second.run_id), "train/loss") == [(step, float(step)) for step in range(5)]
    run = open_client(tmp_path).get_run(str(second.run_id))
    assert (run.info.status, run.data.tags["seed"]) == ("FINISHED", "0")


def test_params_stand_once_and_a_run_that_goes_on_keeps_them(tmp_path: Path) -> None:
    many = {f"agent.layer_{number}": str(number) for number in range(230)}  # MLflow takes 100 at once
    for said in (many, {**many, "agent.layer_0": "other", "agent.late": "1"}):  # MLflow itself refuses to change one
        recorder = Tracking(tmp_path, "experiment", "one").recorder("one")
        recorder.start("one", {})
        recorder.params(said)
        recorder.end("FINISHED")
        assert not list(spool_folder(tmp_path).glob("*.jsonl"))
    assert open_client(tmp_path).get_run(str(recorder.run_id)).data.params == {**many, "agent.late": "1"}


def test_params_are_what_mlflow_takes(tmp_path: Path) -> None:
    (tmp_path / TASK_PLUGIN).write_bytes((resources.files("flows.cli") / "starting_task.py").read_bytes())
    (tmp_path / "experiment.yaml").write_text(TASK_EXPERIMENT_TEXT)
    states = list(range(1000))
    params = params_of(load_experiment(tmp_path / "experiment.yaml", [f"task.seeds.train.initial_states={states}"]))
    assert params["training.lanes"] == "64"
    assert params["training.steps_per_iteration"] == "null"
    assert params["agent.kind"] == "ppo"
    cut = params["task.seeds.train.initial_states"]
    assert (len(cut), cut[:-1]) == (500, str(states)[:499])
    assert not [name for name in params if name.startswith(("seeds", "runtime", "evaluation", "training.iterations"))]


def test_what_is_not_finite_is_counted_and_never_logged(tmp_path: Path) -> None:
    recorder = Tracking(tmp_path, "experiment", "one").recorder("one")
    recorder.start("one", {})
    for step, value in enumerate([1.0, math.nan, math.inf, -math.inf]):
        recorder.metrics(step, {"train/loss": value})
    recorder.end("FINISHED")
    assert _history(tmp_path, str(recorder.run_id), "train/loss") == [(0, 1.0)]
    assert _history(tmp_path, str(recorder.run_id), "nan_train/loss") == [(1, 1.0), (2, 2.0), (3, 3.0)]


def test_children_know_their_parent_and_artifacts_lie_in_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("MLFLOW_RUN_ID", "0" * 32)  # a parent process's run must not be written over
    home = tmp_path / "home"
    tracking = Tracking(home, "experiment", "one")
    parent, child = tracking.recorder("one"), tracking.recorder("one.seed-0")
    parent.start("one", {})
    child.start("seed-0", {}, parent_key="one")
    (tmp_path / "table.csv").write_text("a\n1\n")
    child.artifact(tmp_path / "table.csv", "tables")
    child.end("FINISHED")
    parent.end("FINISHED")
    run = open_client(home).get_run(str(child.run_id))
    assert run.data.tags["mlflow.parentRunId"] == parent.run_id
    assert list(artifact_root(home).rglob("table.csv"))
    assert not list(elsewhere.iterdir())


def test_an_outage_neither_stops_the_run_nor_loses_a_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_recorder, "_SECONDS_BETWEEN_TRIES", 0.0)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")  # the discard port: nobody listens
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    tracking = Tracking(tmp_path, "experiment", "one")
    parent, child = tracking.recorder("one"), tracking.recorder("one.seed-0")
    parent.start("one", {})
    child.start("seed-0", {}, parent_key="one")
    for step in range(4):
        child.metrics(step, {"train/loss": 1.0 + step})
        child.flush()
    child.end("FINISHED")
    parent.end("FINISHED")
    assert parent.run_id is None
    assert list(spool_folder(tmp_path).glob("*.jsonl"))

    monkeypatch.delenv("MLFLOW_TRACKING_URI")  # the server is back
    assert replay_waiting(tmp_path, lambda flow_run: True) == 0  # a living owner's spool is left alone
    assert list(spool_folder(tmp_path).glob("*.jsonl"))
    assert replay_waiting(tmp_path, lambda flow_run: False) == 0
    client = open_client(tmp_path)
    runs = client.search_runs([experiment_id(client, "experiment", tmp_path)])
    by_key = {run.data.tags["run_key"]: run for run in runs}
    assert set(by_key) == {"one", "one.seed-0"}
    child_run = by_key["one.seed-0"]
    assert child_run.data.tags["mlflow.parentRunId"] == by_key["one"].info.run_id
    assert _history(tmp_path, child_run.info.run_id, "train/loss") == [(step, 1.0 + step) for step in range(4)]
    assert child_run.info.status == "FINISHED"
    assert not list(spool_folder(tmp_path).glob("*.jsonl"))


@pytest.mark.parametrize("torn_bytes", [1, 2, 20])
def test_a_line_torn_by_a_kill_takes_no_other_with_it(tmp_path: Path, torn_bytes: int) -> None:
    operations = [SetTags(run_key="one", tags={"number": str(number)}) for number in range(4)]
    spool = Spool(tmp_path / "waiting.jsonl", "experiment")
    spool.append(operations[:2])
    spool.path.write_bytes(spool.path.read_bytes()[:-torn_bytes])
    Spool(spool.path, "experiment").append(operations[2:])
    # One whose end of line alone is missing was said in full.
    assert spool.read() == [operations[0], *operations[1 if torn_bytes == 1 else 2 :]]


@pytest.mark.parametrize("length", [0, 5])
def test_a_spool_whose_first_line_was_torn_says_its_experiment_anew(tmp_path: Path, length: int) -> None:
    operation = SetTags(run_key="one", tags={})
    spool = Spool(tmp_path / "waiting.jsonl", "experiment")
    spool.append([operation])
    spool.path.write_bytes(spool.path.read_bytes()[:length])
    spool.append([operation])
    existing = Spool.open_existing(spool.path)
    assert existing is not None and (existing.experiment, existing.read()) == ("experiment", [operation])


def test_what_waits_may_hold_any_character(tmp_path: Path) -> None:
    operation = SetTags(run_key="one", tags={"note": "é\u2028\x85\n\r\x0b end"})
    spool = Spool(tmp_path / "waiting.jsonl", "experiment")
    spool.append([operation])
    assert spool.read() == [operation]


def test_what_mlflow_refuses_is_left_out_and_does_not_hold_up_the_rest(tmp_path: Path) -> None:
    recorder = Tracking(tmp_path, "experiment", "one").recorder("one")
    recorder.start("one", {})
    recorder.metrics(0, {"not ? allowed": 1.0})
    recorder.flush()
    recorder.metrics(1, {"train/loss": 2.0})
    recorder.end("FINISHED")
    assert _history(tmp_path, str(recorder.run_id), "train/loss") == [(1, 2.0)]
    assert not list(spool_folder(tmp_path).glob("*.jsonl"))


def test_many_figures_go_in_batches_that_mlflow_accepts(tmp_path: Path) -> None:
    recorder = Tracking(tmp_path, "experiment", "one").recorder("one")
    recorder.start("one", {})
    for step in range(1500):
        recorder.metrics(step, {"train/loss": float(step), "train/entropy": 1.0})
    recorder.end("FINISHED")
    assert len(_history(tmp_path, str(recorder.run_id), "train/loss")) == 1500


def test_an_experiment_that_was_deleted_comes_back(tmp_path: Path) -> None:
    client = open_client(tmp_path)
    identity = experiment_id(client, "experiment", tmp_path)
    client.delete_experiment(identity)
    assert experiment_id(client, "experiment", tmp_path) == identity


def test_a_recorder_made_later_knows_what_another_wrote_meanwhile(tmp_path: Path) -> None:
    tracking = Tracking(tmp_path, "experiment", "one")
    tracking.recorder("one").start("one", {})
    elsewhere = Tracking(tmp_path, "experiment", "one").recorder("one")
    elsewhere.metrics(0, {"train/loss": 1.0})
    elsewhere.flush()
    later = tracking.recorder("one")
    later.metrics(0, {"train/loss": 1.0})
    later.end("FINISHED")
    assert _history(tmp_path, str(later.run_id), "train/loss") == [(0, 1.0)]


def test_artifacts_are_found_after_the_home_was_moved(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    (tmp_path / "table.csv").write_text("a\n1\n")
    recorder = Tracking(before, "experiment", "one").recorder("one")
    recorder.start("one", {})
    recorder.artifact(tmp_path / "table.csv", "tables")
    recorder.end("FINISHED")
    run_id = str(recorder.run_id)
    before.rename(after)
    client = open_client(after)
    assert [file.path for file in client.list_artifacts(run_id, "tables")] == ["tables/table.csv"]
    assert client.get_run(run_id).info.artifact_uri.startswith(artifact_root(after).as_uri())
    where = client.get_experiment(experiment_id(client, "experiment", after))
    assert where.artifact_location.startswith(artifact_root(after).as_uri())
