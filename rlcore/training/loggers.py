"""Where the numbers of a training go. A logger writes what it is told; it decides nothing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TextIO

from rlcore.environment.episode_table import EpisodeTable
from rlcore.training.csv_table import CsvTable

Phase = Literal["train", "validation", "test"]


class Logger:
    """Base of all loggers: override what matters.

    ``name`` is the key of its state in checkpoints, unique among the loggers of a trainer.
    """

    def __init__(self, name: str = "") -> None:
        self.name = name or type(self).__name__

    def log_metrics(self, iteration: int, metrics: dict[str, float]) -> None:
        """Take the metrics of one iteration (or of a test after it), once per iteration, in order."""

    def log_episodes(self, phase: str, iteration: int, table: EpisodeTable) -> None:
        """Take the episodes of a phase, "train", "validation" or "test"."""

    def reset(self) -> None:
        """Forget everything: called when a training begins anew, and never when it is continued."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""


class ConsoleLogger(Logger):
    """Writes one line per iteration.

    Args:
        shown: names of metrics, in order; those that an iteration lacks are left out.
        stream: where to; None: standard output.
    """

    def __init__(
        self,
        shown: Sequence[str] = ("train/return/mean", "validation/return/mean", "test/return/mean"),
        *,
        stream: TextIO | None = None,
        name: str = "",
    ) -> None:
        super().__init__(name)
        self._shown = tuple(shown)
        self._stream = stream

    def log_metrics(self, iteration: int, metrics: dict[str, float]) -> None:
        parts = [f"{name} {metrics[name]:.6g}" for name in self._shown if name in metrics]
        stream = self._stream or sys.stdout
        stream.write("  ".join([f"[iteration {iteration}]", *parts]) + "\n")
        stream.flush()


class CsvLogger(Logger):
    """Writes every episode, with its iteration, as a row of ``train_episodes.csv``, ``validation_episodes.csv`` or ``test_…``.

    A continued training cuts the files back to the checkpoint's iteration and goes on. A test replaces the test file.

    Args:
        phases: whose episodes are written.
    """

    def __init__(self, folder: Path, phases: Sequence[Phase] = ("train", "validation", "test"), *, name: str = "") -> None:
        super().__init__(name)
        self._tables = {str(phase): CsvTable(Path(folder) / f"{phase}_episodes.csv") for phase in phases}
        self._iteration = 0

    def reset(self) -> None:
        self._iteration = 0

    def log_episodes(self, phase: str, iteration: int, table: EpisodeTable) -> None:
        if phase not in self._tables:
            return
        if phase == "test":
            self._tables[phase].clear()
        elif self._iteration == 0:  # a new training's first rows: the files of another end here
            for earlier in self._tables_of_training().values():
                earlier.clear()
        if phase != "test":
            self._iteration = iteration
        rows = table.to_frame().to_dict("records")
        self._tables[phase].append(iteration, [{str(name): cell for name, cell in row.items()} for row in rows])

    def state_dict(self) -> dict[str, Any]:
        num_columns = {phase: table.num_columns for phase, table in self._tables_of_training().items()}
        return {"iteration": self._iteration, "num_columns": num_columns}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._iteration = state["iteration"]
        for phase, table in self._tables_of_training().items():
            table.cut_after(self._iteration, state["num_columns"].get(phase, table.num_columns))

    def _tables_of_training(self) -> dict[str, CsvTable]:
        return {phase: table for phase, table in self._tables.items() if phase != "test"}
