"""Fixtures of the unit tests."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from flows.cli.init import TASK_EXPERIMENT_TEXT, TASK_PLUGIN


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The experiment on a task of one's own that ``fillwright init --task`` writes, with its plugin beside it."""
    (tmp_path / TASK_PLUGIN).write_bytes((resources.files("flows.cli") / "starting_task.py").read_bytes())
    path = tmp_path / "experiment.yaml"
    path.write_text(TASK_EXPERIMENT_TEXT)
    return path
