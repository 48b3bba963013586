"""Where a project keeps its state: one folder, ``FILLWRIGHT_HOME``, by default ``.fillwright/`` where the command is given."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from rlcore.foundation.errors import InputError

VARIABLE = "FILLWRIGHT_HOME"
DEFAULT = ".fillwright"


@dataclass(frozen=True, slots=True)
class Home:
    """The state folder and what lies in it. Everything can be built again but ``mlflow`` and ``runs``."""

    root: Path

    @property
    def stores(self) -> Path:
        """Market stores, one folder each, named by what they were built from."""
        return self.root / "stores"

    @property
    def seed_sets(self) -> Path:
        """Seed sets: the orders of the splits as parquet."""
        return self.root / "seed_sets"

    @property
    def trainings(self) -> Path:
        """Trainings, one folder each: checkpoints and the full history of metrics."""
        return self.root / "trainings"

    @property
    def runs(self) -> Path:
        """Results, one folder for each run: resolved experiment, episode tables, report."""
        return self.root / "runs"

    @property
    def mlflow(self) -> Path:
        """The MLflow database and artifacts."""
        return self.root / "mlflow"

    @property
    def prefect(self) -> Path:
        """Prefect's database, results and logs."""
        return self.root / "prefect"

    @property
    def folders(self) -> tuple[Path, ...]:
        return (self.stores, self.seed_sets, self.trainings, self.runs, self.mlflow, self.prefect)

    @staticmethod
    def locate(root: Path | None = None) -> Home:
        """Say where the home is, without touching the disk: ``root``, else the variable, else the default."""
        chosen = root if root is not None else Path(os.environ.get(VARIABLE) or DEFAULT)
        return Home(chosen.expanduser().absolute())

    @staticmethod
    def open(root: Path | None = None) -> Home:
        """Make the folders that are missing.

        Raises:
            InputError: when the home cannot be written, before anything else has been done.
        """
        home = Home.locate(root)
        try:
            for folder in home.folders:
                folder.mkdir(parents=True, exist_ok=True)
            probe = home.root / f".writable-{os.getpid()}"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise InputError(
                f"the home folder must be a folder that can be written, was {home.root} ({error.strerror or error}): "
                f"name another in the environment variable {VARIABLE}"
            ) from error
        return home
