"""What ``fillwright init`` writes runs as it is: an own reward and an own network, through the whole flow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def fillwright(folder: Path, *arguments: str) -> dict[str, Any]:
    environment = {**os.environ, "FILLWRIGHT_HOME": str(folder / "home")}
    command = [sys.executable, "-c", "from flows.cli import main; main()", *arguments, "--json"]
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-4000:]
    result: dict[str, Any] = json.loads(ended.stdout)  # and nothing else on stdout
    return result


def test_the_starting_point_runs_and_a_second_run_reuses_its_training(tmp_path: Path) -> None:
    fillwright(tmp_path, "init")
    small = ["--set", "seeds=[0]", "--set", "training.iterations=5"]
    first = fillwright(tmp_path, "run", "experiment.yaml", *small)
    assert {"train/reward/impatience/mean/seeds_mean", "baseline/twap/shortfall_bps/mean"} <= set(first["figures"])
    assert Path(first["report"]).is_file()
    second = fillwright(tmp_path, "run", "experiment.yaml", *small)
    assert second["trainings"] == first["trainings"] and second["reused"]
    assert second["mlflow_run"] != first["mlflow_run"]
    (tmp_path / "own_parts.py").write_text((tmp_path / "own_parts.py").read_text() + "\n# another plugin\n")
    third = fillwright(tmp_path, "train", "experiment.yaml", *small)
    assert third["trainings"] != first["trainings"]  # the plugin's source is in the key
    assert third["report"] is None
    assert len(fillwright(tmp_path, "runs")["runs"]) == 3
    assert fillwright(tmp_path, "gc", "--keep-runs", "1")["num_bytes"] > 0
    assert len(fillwright(tmp_path, "runs")["runs"]) == 1
