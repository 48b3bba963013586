"""Every snippet of the README runs: Python in one namespace, commands in one folder, YAML as sections of an experiment."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from flows.cli.init import TASK_EXPERIMENT_TEXT, TASK_PLUGIN
from rlcore.config.loading import parse_experiment
from rlcore.config.yaml_files import parse_yaml

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    lines = [line[2:] for block in blocks("console") for line in block.splitlines() if line.startswith("$ ")]
    return [line for line in lines if line.startswith("fillwright ")]


def test_the_readme_has_snippets_of_every_kind() -> None:
    assert len(blocks("python")) >= 2
    assert len(commands()) >= 4
    assert len(blocks("yaml")) >= 1


def test_python_snippets_run(tmp_path: Path) -> None:
    script = tmp_path / "snippets.py"
    script.write_text("\n\n".join(blocks("python")))
    ended = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]


def test_commands_run(tmp_path: Path) -> None:
    environment = {**os.environ, "FILLWRIGHT_HOME": str(tmp_path / "home")}
    for command in commands():
        # Servers and schedules run until Ctrl-C; the tests of the flows start them for real.
        if command.split()[1] in {"ui", "bench"}:
            continue
        words = [sys.executable, "-c", "from flows.cli import main; main()", *shlex.split(command)[1:]]
        ended = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, f"{command}\n{ended.stdout[-1500:]}\n{ended.stderr[-3000:]}"


@pytest.mark.parametrize("text", blocks("yaml"))
def test_yaml_snippets_are_sections_of_an_experiment(text: str, tmp_path: Path) -> None:
    (tmp_path / "bars.csv").write_text("")
    (tmp_path / TASK_PLUGIN).write_bytes((ROOT / "flows" / "cli" / "starting_task.py").read_bytes())
    sections = parse_yaml(text, "README.md")
    around = TASK_EXPERIMENT_TEXT if "task" in sections else (ROOT / "flows" / "experiments" / "demo.yaml").read_text()
    parse_experiment({**parse_yaml(around, "around"), **sections}, tmp_path)


def test_the_test_command_of_the_readme_is_the_one_that_ci_runs() -> None:
    assert "$ make test\n" in README
    assert "\nmake test\n" in (ROOT / ".ci" / "run").read_text()
