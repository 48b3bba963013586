"""What every task is handed: which run of which experiment, in which home. Plain data."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict

from flows.home import Home
from rlcore.config.execution_experiment import ExecutionExperiment
from rlcore.config.experiment import ExperimentSpec
from rlcore.config.loading import parse_experiment
from rlcore.foundation.atomic_files import write_atomically


class Workspace(BaseModel):
    """A run's surroundings. The experiment is referred to by file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    home_root: Path
    run: str
    experiment_path: Path
    as_of: date | None

    @property
    def home(self) -> Home:
        return Home(self.home_root)

    @property
    def folder(self) -> Path:
        """The run's own folder."""
        return self.home.runs / self.run

    def load_experiment(self) -> ExperimentSpec:
        """Read the experiment; whoever needs it often keeps it."""
        return parse_experiment(json.loads(self.experiment_path.read_text(encoding="utf-8")))

    def load_execution_experiment(self) -> ExecutionExperiment:
        """Read the experiment of a flow that executes orders."""
        experiment = self.load_experiment()
        assert isinstance(experiment, ExecutionExperiment)  # the flow has seen to it
        return experiment


def write_workspace(home: Home, run: str, experiment: ExperimentSpec, as_of: date | None) -> Workspace:
    """Write the resolved experiment into the run's folder, for the tasks (JSON) and for people (YAML)."""
    plain = experiment.to_plain()
    path = home.runs / run / "experiment.json"
    # Keys stay in their order: of several validation sets the first chooses.
    write_atomically(path, json.dumps(plain, ensure_ascii=False, allow_nan=False).encode())
    write_atomically(path.with_suffix(".yaml"), yaml.safe_dump(plain, sort_keys=False, allow_unicode=True).encode())
    return Workspace(home_root=home.root, run=run, experiment_path=path, as_of=as_of)
