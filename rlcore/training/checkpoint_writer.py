"""The callback that keeps checkpoints: every n iterations, every so many seconds, at the end, and the best by a metric."""

from __future__ import annotations

import logging
import math
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rlcore.foundation.errors import ConfigError
from rlcore.foundation.whole_numbers import require_whole_number_or_none
from rlcore.training.callbacks import (
    CHECKPOINT,
    Callback,
    check_mode,
    is_better,
    is_judged_alike,
    is_of_validation,
    read_monitor,
    worst,
)
from rlcore.training.checkpoint import checkpoints_in, is_same_checkpoint, iteration_of, write_checkpoint
from rlcore.training.checkpoint_file_name import PLAIN_FILE_NAME, CheckpointFileName

if TYPE_CHECKING:
    from rlcore.training.trainer import Trainer
    from rlcore.training.vessel import TrainingVessel

logger = logging.getLogger(__name__)


class CheckpointWriter(Callback):
    """Writes ``iteration_NNNNNN.ckpt`` into a folder, with ``latest.ckpt`` and ``best.ckpt`` beside them as pointers.

    Files are written at the end of an iteration, after every ordinary callback has had its say. The best is one of them that is
    never dropped. What to keep stands in the checkpoint itself, so that what a kill left undone is done at the next start.

    Args:
        every_n_iters: write after iterations n, 2n, …; None: for other reasons only.
        every_seconds: write when so much time has passed since the last one that this process wrote, the first at once; None:
            whatever the time.
        save_on_end: write after the last iteration too.
        keep_last: so many of the newest are kept, and the best besides; None: all.
        monitor: the metric that says which is best, of validation or of training; None: there is no best.
        file_name: what the files are called (``CheckpointFileName`` says what may stand in it). A metric stands there with its
            newest value, of this iteration or of the last that had it.
        pointers: relative links, or copies for file systems without links; None: there are no pointers.
    """

    order: ClassVar[int] = CHECKPOINT

    def __init__(
        self,
        folder: Path,
        *,
        every_n_iters: int | None = 1,
        every_seconds: float | None = None,
        save_on_end: bool = True,
        keep_last: int | None = None,
        monitor: str | None = "validation/return/mean",
        mode: Literal["max", "min"] = "max",
        file_name: str = PLAIN_FILE_NAME,
        pointers: Literal["link", "copy"] | None = "link",
        name: str = "",
    ) -> None:
        super().__init__(name)
        if every_seconds is not None and not 0 < every_seconds < math.inf:
            raise ConfigError(f"every_seconds of the checkpoint writer must be positive, or None, was {every_seconds}")
        if pointers not in ("link", "copy", None):
            raise ConfigError(f"pointers of the checkpoint writer must be 'link', 'copy' or None, was {pointers!r}")
        check_mode(mode)
        self.folder = Path(folder)
        self.every_n_iters = require_whole_number_or_none("every_n_iters of the checkpoint writer", every_n_iters)
        self.keep_last = require_whole_number_or_none("keep_last of the checkpoint writer", keep_last)
        self.every_seconds, self.save_on_end = every_seconds, save_on_end
        self.monitor, self.mode, self.pointers = monitor, mode, pointers
        self._file_name = CheckpointFileName(file_name)
        self.reset()

    @property
    def latest_path(self) -> Path | None:
        """The newest checkpoint of this training."""
        return self.folder / self._kept[-1] if self._kept else None

    @property
    def best_path(self) -> Path | None:
        """The checkpoint of the best judgement so far."""
        best = [name for name in self._kept if iteration_of(name) == self.best_iteration]
        return self.folder / best[0] if best else None

    def reset(self) -> None:
        self.best = worst(self.mode)
        self.best_iteration = 0
        self._new_best: float | None = None  # of the iteration in progress, which may yet be abandoned
        self._kept: list[str] = []  # names of files, oldest first
        self._newest: dict[str, float] = {}  # values of the metrics that file names show
        self._written_at: float | None = None  # by this process's clock
        self._saved_iteration = 0  # the last one that lies in a checkpoint

    def claims(self, phases: Sequence[str]) -> Sequence[Path]:
        return (self.folder / "latest.ckpt",) if "train" in phases else ()

    def check_start(self, resume_from: Path | None) -> None:
        existing = checkpoints_in(self.folder)
        if existing and resume_from is None:
            raise ConfigError(
                f"folder of checkpoints must be empty for a new training, {self.folder} held {len(existing)}: "
                "continue from the latest_valid_checkpoint, or choose another folder"
            )
        if existing and resume_from is not None and not self._holds(resume_from, existing):
            raise ConfigError(
                f"folder of checkpoints must be empty, or hold the checkpoint to continue from, {self.folder} held "
                f"{len(existing)} others than {resume_from}, which would be overwritten: choose another folder "
                "(to move a training, copy its whole folder)"
            )

    def on_fit_start(self, trainer: Trainer, vessel: TrainingVessel) -> None:
        self._saved_iteration = trainer.iteration
        for abandoned in self.folder.glob(".iteration_*.ckpt.*"):  # half-written when the process was killed
            abandoned.unlink()
        if trainer.resumed_from is not None:
            self._tidy(trainer.iteration)

    def on_train_end(self, trainer: Trainer, vessel: TrainingVessel) -> None:
        if self.monitor is not None and not is_of_validation(self.monitor):
            self._judge(trainer, self.monitor)

    def on_validate_end(self, trainer: Trainer, vessel: TrainingVessel) -> None:
        if self.monitor is not None and is_of_validation(self.monitor):
            self._judge(trainer, self.monitor)

    def on_iteration_end(self, trainer: Trainer, vessel: TrainingVessel) -> None:
        is_new_best = self._new_best is not None
        if self._new_best is not None:
            self.best, self.best_iteration, self._new_best = self._new_best, trainer.iteration, None
        metrics = trainer.metrics
        self._newest |= {name: metrics[name] for name in self._file_name.metrics if name in metrics}
        is_due = self.every_n_iters is not None and trainer.iteration % self.every_n_iters == 0
        is_last = self.save_on_end and trainer.status != "running"
        if is_due or is_last or is_new_best or self._is_time():
            self._write(trainer, vessel)
            self._written_at = time.monotonic()

    def on_stop(self, trainer: Trainer, vessel: TrainingVessel) -> None:
        if self.save_on_end and trainer.iteration != self._saved_iteration:  # stopped by a callback behind this one
            self._write(trainer, vessel)

    def state_dict(self) -> dict[str, Any]:
        return {
            "best": self.best,
            "best_iteration": self.best_iteration,
            "kept": list(self._kept),
            "newest": dict(self._newest),
            "judged_by": [self.monitor, self.mode],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.reset()
        what = f"checkpoint writer {self.name!r}"
        if state["best_iteration"] and (self.monitor is None or is_judged_alike(what, state, self.monitor, self.mode)):
            self.best, self.best_iteration = state["best"], state["best_iteration"]
        self._kept, self._newest = list(state["kept"]), dict(state["newest"])

    def _holds(self, checkpoint: Path, existing: Sequence[Path]) -> bool:
        """Whether a checkpoint lies in this folder, or one of those there is a copy of it."""
        is_here = checkpoint.resolve().parent == self.folder.resolve()
        return is_here or any(is_same_checkpoint(path, checkpoint) for path in existing)

    def _judge(self, trainer: Trainer, monitor: str) -> None:
        value = read_monitor(trainer.metrics, monitor)
        if value is not None and is_better(value, self.best, self.mode):
            self._new_best = value

    def _is_time(self) -> bool:
        if self.every_seconds is None:
            return False
        return self._written_at is None or time.monotonic() - self._written_at >= self.every_seconds

    def _write(self, trainer: Trainer, vessel: TrainingVessel) -> None:
        name = self._file_name.render(trainer.iteration, {**trainer.metrics, **self._newest})
        before = [*self._kept, name]
        newest = before if self.keep_last is None else before[-self.keep_last :]
        self._kept = [kept for kept in before if kept in newest or iteration_of(kept) == self.best_iteration]
        write_checkpoint(self.folder / name, trainer.checkpoint(vessel))
        self._saved_iteration = trainer.iteration
        self._point_to_both()
        for dropped in set(before) - set(self._kept):
            (self.folder / dropped).unlink(missing_ok=True)
        for path in checkpoints_in(self.folder):  # of a training that had come so far when it was killed, and named it otherwise
            if iteration_of(path.name) == trainer.iteration and path.name != name:
                path.unlink()

    def _tidy(self, iteration: int) -> None:
        """Finish what a kill interrupted, and forget files that do not lie here (the training moved to another folder)."""
        self._kept = [kept for kept in self._kept if (self.folder / kept).exists()]
        if self.best_iteration and self.best_path is None:
            logger.warning(
                "the best checkpoint, of iteration %d, is not in %s any more: the best is judged anew",
                self.best_iteration,
                self.folder,
            )
            self.best, self.best_iteration = worst(self.mode), 0
        if self.keep_last is not None:
            for path in checkpoints_in(self.folder):
                if iteration_of(path.name) < iteration and path.name not in self._kept:
                    path.unlink()
        self._point_to_both()

    def _point_to_both(self) -> None:
        for name, path in (("latest.ckpt", self.latest_path), ("best.ckpt", self.best_path)):
            if path is not None and self.pointers is not None:
                self._point(name, path)
        if self.best_path is None and (self.folder / "best.ckpt").is_symlink():  # to one that is not judged the best any more
            (self.folder / "best.ckpt").unlink()

    def _point(self, name: str, target: Path) -> None:
        temporary = self.folder / f".{name}.new"
        temporary.unlink(missing_ok=True)
        try:
            if self.pointers == "link":
                temporary.symlink_to(target.name)  # relative to its own folder: never dangles, whatever the working directory
            else:
                shutil.copyfile(target, temporary)
            temporary.replace(self.folder / name)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
