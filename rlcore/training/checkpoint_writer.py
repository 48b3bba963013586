"""The callback that keeps checkpoints: every n iterations, at the end, and the best by a validation metric."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rlcore.foundation.errors import ConfigError
from rlcore.training.callbacks import CHECKPOINT, Callback, is_better, read_monitor, worst
from rlcore.training.checkpoint import checkpoint_name, checkpoints_in, write_checkpoint

if TYPE_CHECKING:
    from rlcore.training.trainer import Trainer
    from rlcore.training.vessel import TrainingVessel

logger = logging.getLogger(__name__)


class CheckpointWriter(Callback):
    """Writes ``iteration_NNNNNN.ckpt`` into a folder, with ``latest.ckpt`` and ``best.ckpt`` beside them as pointers.

    Files are written at the end of an iteration, after every ordinary callback has had its say. The best is one of them that is
    never dropped. What to keep stands in the checkpoint itself, so that what a kill left undone is done at the next start.

    Args:
        every_n_iters: write after iterations n, 2n, …; None: only at the end, and the best.
        save_on_end: write after the last iteration too.
        keep_last: so many of the newest are kept, and the best besides; None: all.
        monitor: the validation metric that says which is best; None: there is no best.
        pointers: relative links, or copies for file systems without links.
    """

    order: ClassVar[int] = CHECKPOINT

    def __init__(
        self,
        folder: Path,
        *,
        every_n_iters: int | None = 1,
        save_on_end: bool = True,
        keep_last: int | None = None,
        monitor: str | None = "validation/return/mean",
        mode: Literal["max", "min"] = "max",
        pointers: Literal["link", "copy"] = "link",
        name: str = "",
    ) -> None:
        super().__init__(name)
        for what, value in (("every_n_iters", every_n_iters), ("keep_last", keep_last)):
            if value is not None and value < 1:
                raise ConfigError(f"{what} of the checkpoint writer must be 1 or more, or None, was {value}")
        self.folder = Path(folder)
        self.every_n_iters, self.save_on_end, self.keep_last = every_n_iters, save_on_end, keep_last
        self.monitor, self.mode, self.pointers = monitor, mode, pointers
        self.reset()

    @property
    def latest_path(self) -> Path | None:
        """The newest checkpoint of this training."""
        return self.folder / checkpoint_name(self._kept[-1]) if self._kept else None

    @property
    def best_path(self) -> Path | None:
        """The checkpoint of the best validation so far."""
        return self.folder / checkpoint_name(self.best_iteration) if self.best_iteration else None

    def reset(self) -> None:
        self.best = worst(self.mode)
        self.best_iteration = 0
        self._is_new_best = False
        self._kept: list[int] = []

    def on_fit_start(self, trainer: Trainer, vessel: TrainingVessel) -> None:
        existing = checkpoints_in(self.folder)
        if existing and trainer.resumed_from is None:
            raise ConfigError(
                f"folder of checkpoints must be empty for a new training, {self.folder} held {len(existing)}: "
                "continue from the latest_valid_checkpoint, or choose another folder"
            )
        for abandoned in self.folder.glob(".iteration_*.ckpt.*"):  # half-written when the process was killed
            abandoned.unlink()
        if trainer.resumed_from is not None:
            self._tidy(trainer.iteration)

    def on_validate_end(self, trainer: Trainer, vessel: TrainingVessel) -> None:
        value = None if self.monitor is None else read_monitor(trainer.metrics, self.monitor)
        if value is not None and is_better(value, self.best, self.mode):
            self.best, self.best_iteration, self._is_new_best = value, trainer.iteration, True

    def on_iteration_end(self, trainer: Trainer, vessel: TrainingVessel) -> None:
        is_due = self.every_n_iters is not None and trainer.iteration % self.every_n_iters == 0
        is_last = self.save_on_end and trainer.status != "running"
        if is_due or is_last or self._is_new_best:
            self._is_new_best = False
            self._write(trainer, vessel)

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "best_iteration": self.best_iteration, "kept": list(self._kept)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.reset()
        self.best, self.best_iteration, self._kept = state["best"], state["best_iteration"], list(state["kept"])

    def _write(self, trainer: Trainer, vessel: TrainingVessel) -> None:
        before = [*self._kept, trainer.iteration]
        newest = before if self.keep_last is None else before[-self.keep_last :]
        self._kept = [iteration for iteration in before if iteration in newest or iteration == self.best_iteration]
        write_checkpoint(self.folder / checkpoint_name(trainer.iteration), trainer.checkpoint(vessel))
        self._point_to_both()
        for iteration in set(before) - set(self._kept):
            (self.folder / checkpoint_name(iteration)).unlink(missing_ok=True)

    def _tidy(self, iteration: int) -> None:
        """Finish what a kill interrupted, and forget files that do not lie here (the training moved to another folder)."""
        if self.best_path is not None and not self.best_path.exists():
            logger.warning("best checkpoint %s is not in the folder any more: the best is judged anew", self.best_path)
            self.best, self.best_iteration = worst(self.mode), 0
        self._kept = [kept for kept in self._kept if (self.folder / checkpoint_name(kept)).exists()]
        if self.keep_last is not None:
            dropped = {checkpoint_name(earlier) for earlier in range(iteration)} - {checkpoint_name(kept) for kept in self._kept}
            for path in checkpoints_in(self.folder):
                if path.name in dropped:
                    path.unlink()
        self._point_to_both()

    def _point_to_both(self) -> None:
        for name, path in (("latest.ckpt", self.latest_path), ("best.ckpt", self.best_path)):
            if path is not None:
                self._point(name, path)

    def _point(self, name: str, target: Path) -> None:
        temporary = self.folder / f".{name}.new"
        temporary.unlink(missing_ok=True)
        if self.pointers == "link":
            temporary.symlink_to(target.name)  # relative to its own folder: never dangles, whatever the working directory
        else:
            shutil.copyfile(target, temporary)
        temporary.replace(self.folder / name)
