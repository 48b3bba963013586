"""A training as seen from outside: its figures go to the run's log book and to whoever watches its progress."""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

from flows.tracking.run_recorder import RunRecorder
from rlcore.training.callbacks import AFTER_CHECKPOINT, Callback
from rlcore.training.trainer import Trainer
from rlcore.training.vessel import TrainingVessel

Choose = Callable[[Mapping[str, float]], dict[str, float]]

_SECONDS_BETWEEN_REPORTS = 5.0


class TrainingReporter(Callback):
    """Reports at a bounded rate, after the checkpoint is safe.

    Args:
        recorder: of the training's run.
        folder: of the training's full history, as ``MetricsWriter`` keeps it.
        shown: chooses the figures that are reported.
        watch: is told the finished iterations and their figures, at the same rate and at the end.
    """

    order: ClassVar[int] = AFTER_CHECKPOINT

    def __init__(
        self, recorder: RunRecorder, folder: Path, shown: Choose, watch: Callable[[int, Mapping[str, float]], None]
    ) -> None:
        super().__init__()
        self._recorder = recorder
        self._folder = folder
        self._shown = shown
        self._watch = watch
        self._next_report = 0.0

    def on_fit_start(self, trainer: Trainer, vessel: TrainingVessel) -> None:
        # A kill between a checkpoint and its report leaves a gap, which nobody will run again.
        if trainer.resumed_from is not None:
            record_history(self._recorder, self._folder, self._shown)

    def on_train_end(self, trainer: Trainer, vessel: TrainingVessel) -> None:
        self._note("train", trainer)

    def on_validate_end(self, trainer: Trainer, vessel: TrainingVessel) -> None:
        self._note("validation", trainer)

    def on_iteration_end(self, trainer: Trainer, vessel: TrainingVessel) -> None:
        if time.monotonic() >= self._next_report:
            self._report(trainer)
            self._next_report = time.monotonic() + _SECONDS_BETWEEN_REPORTS

    def on_fit_end(self, trainer: Trainer, vessel: TrainingVessel) -> None:
        self._report(trainer)

    def _note(self, phase: str, trainer: Trainer) -> None:
        own = {name: value for name, value in trainer.metrics.items() if name.startswith(f"{phase}/")}
        self._recorder.metrics(trainer.iteration, self._shown(own))

    def _report(self, trainer: Trainer) -> None:
        self._recorder.tags({"last_step_at": datetime.now(UTC).isoformat(timespec="seconds")})
        self._recorder.flush()
        self._watch(trainer.iteration, trainer.metrics)


def record_history(recorder: RunRecorder, folder: Path, shown: Choose) -> None:
    """Queue the whole history of a training; the log book leaves out what it has."""
    for phase in ("train", "validation"):
        for iteration, figures in _rows(folder / f"{phase}.csv"):
            recorder.metrics(iteration, shown(figures))


def last_figures(folder: Path, shown: Choose) -> dict[str, float]:
    """Return each figure of a training from the newest iteration that has it: no episode need have ended in the last."""
    newest: dict[str, float] = {}
    for _, figures in _rows(folder / "train.csv"):
        newest |= figures
    return shown(newest)


def _rows(path: Path) -> Iterator[tuple[int, dict[str, float]]]:
    if not path.exists():
        return
    with path.open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            yield int(row.pop("iteration")), {name: float(cell) for name, cell in row.items() if cell}
