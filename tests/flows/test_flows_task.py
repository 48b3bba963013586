"""The flow of a task of one's own on a real Prefect server and a real MLflow store: whole, from the cache, killed and gone on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from mlflow.entities import Run

from flows.cache_keys import CacheKeys
from flows.cli.experiments import load
from flows.cli.init import TASK_PLUGIN
from flows.cli.run_figures import lines_of
from flows.home import Home
from flows.run_experiment import run_experiment
from flows.run_lifecycle import RunResult
from flows.run_records import read_records
from flows.servers import Servers, free_port, serving
from flows.stages import Stage
from flows.task_stages import describe_task
from flows.tracking.stores import experiment_id, open_client
from flows.workspace import write_workspace
from rlcore.agents.saved_policy import load_policy
from rlcore.config.task_experiment import TaskExperiment
from rlcore.foundation.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
SMALL = ["seeds=[0,1]", "training.iterations=20"]
# Walking straight home from n steps away: 1 on arrival, 0.05 for each of n steps.
PHASES = ("train", "best_validation/near", "best_validation/far")
BEST_ON_TEST = 1 - 0.05 * np.mean([6, 4, 4, 8])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("task")


@pytest.fixture(scope="module")
def home(folder: Path) -> Home:
    return Home.open(folder / "home")


@pytest.fixture(scope="module")
def servers(home: Home) -> Iterator[Servers]:
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    with serving(home, free_port(), free_port()) as running:
        yield running


@pytest.fixture(scope="module")
def first(folder: Path, servers: Servers) -> dict[str, Any]:
    _fillwright(folder, "init", "--task")
    return _fillwright(folder, "run", "experiment.yaml", *(word for change in SMALL for word in ("--set", change)))


def _fillwright(folder: Path, *arguments: str) -> dict[str, Any]:
    environment = {**os.environ, "FILLWRIGHT_HOME": str(folder / "home"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", "from flows.cli import main; main()", *arguments, "--json"]
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-4000:]
    result: dict[str, Any] = json.loads(ended.stdout)  # and nothing else on stdout
    return result


def _run(folder: Path, home: Home, *overrides: str, until: Stage = "backtest") -> RunResult:
    return run_experiment(load(str(folder / "experiment.yaml"), overrides), home, until=until)


def _parent_and_children(home: Home, run: str) -> tuple[Run, list[Run]]:
    client = open_client(home.root)
    runs = client.search_runs([experiment_id(client, "my-task", home.root)], f"tags.flow_run = '{run}'")
    (parent,) = (one for one in runs if one.data.tags["role"] == "parent")
    return parent, [one for one in runs if one.data.tags["role"] == "child"]


def _family(home: Home, run: str) -> list[Run]:
    parent, children = _parent_and_children(home, run)
    return [parent, *children]


def test_what_init_writes_finds_the_best_policy(first: dict[str, Any]) -> None:
    assert first["form"] == "task"
    assert first["figures"]["test/return/mean/seeds_mean"] == pytest.approx(BEST_ON_TEST)
    assert first["figures"]["test/return/mean/seeds_std"] == pytest.approx(0.0, abs=1e-12)
    assert first["figures"]["test/distance_left/mean/seeds_max"] == 0.0  # the simulator's own metric
    terms = [first["figures"][f"test/reward/{name}/mean/seeds_mean"] for name in ("arrival", "effort")]
    assert sum(terms) == pytest.approx(BEST_ON_TEST)
    assert first["report"] is None
    assert first["message"] == "The mean return of an episode on the test seeds is 0.725, 0.725 to 0.725 over 2 trainings."
    table = pd.read_csv(Path(first["folder"]) / "results.csv", index_col="seed")
    assert list(table.index) == [0, 1]
    np.testing.assert_allclose(table["test/return/mean"], BEST_ON_TEST)


def test_the_policy_acts_by_itself(first: dict[str, Any]) -> None:
    policy = load_policy(Path(first["trainings"][0]) / "policy.pt")
    assert [int(policy.act(np.array([at], np.float32))) for at in (-0.7, 0.7)] == [1, 0]


def test_a_run_leaves_one_clean_family_of_tracking_runs(home: Home, first: dict[str, Any]) -> None:
    parent, children = _parent_and_children(home, first["run"])
    client = open_client(home.root)
    assert sorted(child.data.tags["seed"] for child in children) == ["0", "1"]
    assert {run.info.status for run in (parent, *children)} == {"FINISHED"}
    tags = yaml.safe_load((ROOT / "mlflow" / "tag_schema.yaml").read_text())
    schema = yaml.safe_load((ROOT / "mlflow" / "metric_schema.yaml").read_text())
    for run in (parent, *children):
        assert {tag for tag in run.data.tags if not tag.startswith("mlflow.")} <= set(tags)
        assert [metric for metric in run.data.metrics if not metric.startswith(tuple(schema[run.data.tags["role"]]))] == []
    assert parent.data.params["agent.learning_rate"] == "0.003"
    assert "runtime.device" not in parent.data.params
    for child in children:
        assert child.data.params == {**parent.data.params, "seed": child.data.tags["seed"]}
        assert child.data.tags["mlflow.parentRunId"] == parent.info.run_id
        assert child.data.metrics["test/return/mean"] == pytest.approx(BEST_ON_TEST)
        steps = [row.step for row in client.get_metric_history(child.info.run_id, "train/reward/arrival/mean")]
        assert sorted(steps) == list(range(1, 21))
        assert {"model", "checkpoints", "history", "config", "tables"} <= {
            file.path for file in client.list_artifacts(child.info.run_id)
        }
    assert [file.path for file in client.list_artifacts(parent.info.run_id, "results")] == ["results/results.csv"]


def test_a_second_run_reuses_what_has_not_changed(folder: Path, home: Home, first: dict[str, Any]) -> None:
    trainings = {f"fit-agent seed-{seed}-fold-0" for seed in (0, 1)}
    tests = {f"test-agent seed-{seed}-fold-0" for seed in (0, 1)}
    again = _run(folder, home, *SMALL)
    assert trainings | tests <= set(again.reused)
    assert again.figures == first["figures"]
    params = [child.data.params for child in _parent_and_children(home, again.run)[1]]
    assert [one["agent.learning_rate"] for one in params] == ["0.003", "0.003"]
    other_seeds = _run(folder, home, *SMALL, "task.seeds.test.initial_states=[1, -2]")
    assert trainings <= set(other_seeds.reused)
    assert not tests & set(other_seeds.reused)
    assert other_seeds.figures["test/return/mean/seeds_mean"] == pytest.approx(1 - 0.05 * 1.5)


def test_a_quick_trial_ends_before_the_test_seeds_are_touched(folder: Path, home: Home, first: dict[str, Any]) -> None:
    several = "{near: {kind: integers, first: 1, count: 3}, far: {kind: integers, first: 8, count: 3}}"
    quick = ["training.fast_dev_run=2", "training.iterations=1", "training.validate_every=1", "seeds=[0]"]
    result = _run(folder, home, *quick, f"task.seeds.validation={several}", until="validation")
    figures = result.figures
    assert not [name for name in figures if name.startswith("test/")]
    for phase in PHASES:
        assert figures[f"{phase}/num_episodes/seeds_mean"] == 2
    table = [re.split("  +", line) for line in lines_of(result)]
    assert table[0] == ["mean of seeds ± deviation", "training, latest", "validation near", "validation far"]
    assert table[1] == ["return", *(f"{figures[f'{phase}/return/mean/seeds_mean']:.4g}" for phase in PHASES)]
    near = figures["best_validation/near/return/mean/seeds_mean"]  # the first of them chooses
    assert result.message == (
        f"The mean return of an episode on the validation near seeds is {near:.4g}. "
        "This was a trial of 2 seeds of each set, no result."
    )
    assert {record.run: record.trial for record in read_records(home)} == {result.run: 2} | {
        record.run: None for record in read_records(home) if record.run != result.run
    }
    assert {run.data.tags["trial"] for run in _family(home, result.run)} == {"2"}
    assert {run.data.tags["trial"] for run in _family(home, first["run"])} == {"none"}


def test_the_order_of_validation_sets_outlives_the_runs_own_file(folder: Path, home: Home, first: dict[str, Any]) -> None:
    near, far = "near: {kind: integers, first: 1, count: 3}", "far: {kind: integers, first: 8, count: 3}"
    keys = []
    for sets in (f"{{{near}, {far}}}", f"{{{far}, {near}}}"):
        experiment = load(str(folder / "experiment.yaml"), [f"task.seeds.validation={sets}"])
        kept = write_workspace(home, "order", experiment, None).load_experiment()
        assert kept.validation_phases == experiment.validation_phases
        assert isinstance(kept, TaskExperiment)
        keys.append(CacheKeys(home, kept, None).training(0, describe_task(kept)))
    assert kept.validation_phases == ("validation/far", "validation/near")
    assert keys[0] != keys[1]  # another set chooses


def test_a_training_that_ends_before_it_was_judged_says_what_to_change(folder: Path, home: Home, first: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"judged at least once before it ends, the budget of .* was used up after iteration 0"):
        _run(folder, home, "seeds=[0]", "training.wall_clock_budget_seconds=1e-6")


def test_a_part_that_ends_the_process_is_a_failed_run(folder: Path, home: Home, first: dict[str, Any], tmp_path: Path) -> None:
    plugin, step = (folder / TASK_PLUGIN).read_text(), "    def step(self, action: int) -> None:\n"
    assert step in plugin
    (tmp_path / TASK_PLUGIN).write_text(plugin.replace(step, f"{step}        raise SystemExit(0)\n"))
    (tmp_path / "experiment.yaml").write_bytes((folder / "experiment.yaml").read_bytes())
    before = {record.run for record in read_records(home)}
    with pytest.raises(SystemExit):
        _run(tmp_path, home, "seeds=[0]", "training.iterations=1", "training.validate_every=1")
    (record,) = (record for record in read_records(home) if record.run not in before)
    assert (record.status, record.message) == ("failed", "SystemExit: 0")
    assert {run.info.status for run in _family(home, record.run)} == {"FAILED"}


KILLED = """
import os, signal, sys
from pathlib import Path
from flows.cli.experiments import load
from flows.home import Home
from flows.run_experiment import run_experiment

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's job in the background inherits that it is ignored

def progress(stage, done, total, text=""):
    if stage.startswith("fit-agent seed-1") and 0 < done < total:
        os.kill(os.getpid(), getattr(signal, sys.argv[2]))

run_experiment(load("experiment.yaml", sys.argv[3:]), Home.open(Path(sys.argv[1])), None, progress)
"""


def test_a_killed_run_goes_on_to_the_same_bits_and_one_clean_tracking_run(
    folder: Path, home: Home, servers: Servers, first: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Lanes in mid-episode are in the checkpoint: they are replayed, one-episode simulators and all.
    by_steps = ["episodes_per_iteration=null", "steps_per_iteration=128", "lanes=8", "groups=2", "iterations=6"]
    changes = [*(f"training.{change}" for change in by_steps), "seeds=[0,1]"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for by, status in (("SIGKILL", "killed"), ("SIGINT", "interrupted")):  # the second goes on for the first
        command = [sys.executable, "-c", KILLED, str(home.root), by, *changes]
        ended = subprocess.run(command, timeout=300, check=False, cwd=folder, env=environment)
        assert ended.returncode == -getattr(signal, by)
        (killed,) = (record for record in read_records(home) if record.can_go_on)
        assert killed.status == status
    assert killed.num_starts == 2
    result = _run(folder, home, *changes)
    assert (result.run, result.is_resumed) == (killed.run, True)
    parent, children = _parent_and_children(home, result.run)
    assert {run.info.status for run in (parent, *children)} == {"FINISHED"}
    assert {child.data.params["training.steps_per_iteration"] for child in children} == {"128"}
    for child in children:
        steps = [row.step for row in open_client(home.root).get_metric_history(child.info.run_id, "train/total_steps")]
        assert sorted(steps) == list(range(1, 7))
    monkeypatch.setenv("PREFECT_API_URL", servers.prefect_api)
    reference = _run(folder, Home.open(folder / "reference"), *changes)
    for mine, other in zip(result.trainings, reference.trainings, strict=True):
        assert (mine / "policy.pt").read_bytes() == (other / "policy.pt").read_bytes()
    assert result.figures == reference.figures
