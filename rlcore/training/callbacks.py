"""What takes part in a training from outside: hooks, and state that travels in the checkpoint."""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from rlcore.foundation.errors import ConfigError, nearest_name
from rlcore.foundation.whole_numbers import require_whole_number
from rlcore.training.csv_table import CsvTable

if TYPE_CHECKING:
    from rlcore.training.trainer import Trainer
    from rlcore.training.vessel import TrainingVessel

logger = logging.getLogger(__name__)

BEFORE_CHECKPOINT, CHECKPOINT, AFTER_CHECKPOINT = 0, 1, 2


class Callback:
    """Base of all callbacks: override the hooks that matter.

    ``trainer.iteration`` is the number of finished iterations: while one is in progress the old number, from ``on_train_end`` on
    the new one. A hook ends the training with ``trainer.stop``; the iteration in progress is finished first.
    """

    order: ClassVar[int] = BEFORE_CHECKPOINT
    """Hooks run by order, then as listed: a checkpoint holds what ordinary callbacks made of the iteration, and who tells the
    outside world (a tracking server) does so after the checkpoint is safe."""

    def __init__(self, name: str = "") -> None:
        self.name = name or type(self).__name__
        """The key of the state in checkpoints; unique among the callbacks of a trainer."""

    def claims(self, phases: Sequence[str]) -> Sequence[Path]:
        """Return the files (one of many will do) that nobody else may write to while this takes part in a training, or a test.

        Args:
            phases: of the training: "train", "validation" (or "validation/<name>" for each of several sets); or "test" alone.
        """
        return ()

    def check_start(self, resume_from: Path | None) -> None:
        """Refuse what cannot be, with everything claimed and before anything is changed."""

    def on_fit_start(self, trainer: Trainer, vessel: TrainingVessel) -> None: ...
    def on_fit_end(self, trainer: Trainer, vessel: TrainingVessel) -> None: ...

    def on_stop(self, trainer: Trainer, vessel: TrainingVessel) -> None:
        """The training ends here, with the agent as its last iteration left it; not where an iteration was abandoned."""

    def on_iteration_start(self, trainer: Trainer, vessel: TrainingVessel) -> None: ...
    def on_iteration_end(self, trainer: Trainer, vessel: TrainingVessel) -> None: ...
    def on_train_start(self, trainer: Trainer, vessel: TrainingVessel) -> None: ...
    def on_train_end(self, trainer: Trainer, vessel: TrainingVessel) -> None: ...
    def on_validate_start(self, trainer: Trainer, vessel: TrainingVessel) -> None: ...
    def on_validate_end(self, trainer: Trainer, vessel: TrainingVessel) -> None: ...
    def on_test_start(self, trainer: Trainer, vessel: TrainingVessel) -> None: ...
    def on_test_end(self, trainer: Trainer, vessel: TrainingVessel) -> None: ...

    def reset(self) -> None:
        """Forget everything: called when a training begins anew, and never when it is continued."""

    def state_dict(self) -> dict[str, Any]:
        """Return plain data, tensors and arrays only."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint; called before ``on_fit_start``."""


def read_monitor(metrics: dict[str, float], monitor: str) -> float | None:
    """Return the monitored metric, or None with a warning: nothing is judged by a number that is not there."""
    value = metrics.get(monitor)
    if value is None:
        hint = nearest_name(monitor, metrics)
        logger.warning("monitored metric %r is not among the metrics of this iteration%s: nothing is judged", monitor, hint)
    return value


def is_of_validation(monitor: str) -> bool:
    """Whether a metric is made by validation, of whichever set; the others are there after every update."""
    return monitor.startswith("validation/")


def check_mode(mode: str) -> None:
    """Hold a mode to "max" or "min".

    Raises:
        ConfigError: for another.
    """
    if mode not in ("max", "min"):
        raise ConfigError(f"mode must be 'max' or 'min', was {mode!r}")


def worst(mode: Literal["max", "min"]) -> float:
    """Return what every finite value is better than."""
    return -math.inf if mode == "max" else math.inf


def is_judged_alike(what: str, state: dict[str, Any], monitor: str, mode: str) -> bool:
    """Whether the best in a checkpoint was judged as it is judged now; a warning says if it was not."""
    before = state.get("judged_by", [monitor, mode])  # older checkpoints do not say
    if before != [monitor, mode]:
        judged = f"{before[0]} ({before[1]}) before, and is by {monitor} ({mode}) now"
        logger.warning("%s was judged by %s: the best is judged anew", what, judged)
    return bool(before == [monitor, mode])


def is_better(value: float, than: float, mode: Literal["max", "min"], min_delta: float = 0.0) -> bool:
    """Whether ``value`` beats ``than`` by more than ``min_delta``."""
    return value - min_delta > than if mode == "max" else value + min_delta < than


class EarlyStopping(Callback):
    """Ends the training when a metric has stopped improving.

    A metric of validation (``validation/…``, or ``validation/<name>/…`` of one of several sets) is judged after every validation,
    any other (``train/…``) after every iteration's update. Every judgement counts as a wait of one; one that improves on the best
    so far by more than ``min_delta`` (and beats the baseline by as much, where one is given) sets the wait back to zero. The
    training ends at a wait of ``patience``, never at the first judgement. Where the metric is absent, nothing is judged.

    Args:
        monitor: name of a metric.
        patience: so many judgements in a row without improvement end the training; 0 is the same as 1.
        baseline: improvements below it do not set the wait back.
        restore_best_weights: put the agent of the best judgement back at the end. It is kept whole (with its replay memory) here
            and in every checkpoint; where that is too much, let ``CheckpointWriter`` keep the best instead.
    """

    def __init__(
        self,
        monitor: str = "validation/return/mean",
        *,
        min_delta: float = 0.0,
        patience: int = 0,
        mode: Literal["max", "min"] = "max",
        baseline: float | None = None,
        restore_best_weights: bool = False,
        name: str = "",
    ) -> None:
        super().__init__(name)
        check_mode(mode)
        for what, value in (("min_delta", min_delta), ("baseline", baseline)):
            if value is not None and not math.isfinite(value):
                raise ConfigError(f"{what} of early stopping must be finite, was {value}: nothing would ever count as better")
        self.monitor, self.min_delta = monitor, abs(min_delta)
        self.patience = require_whole_number("patience of early stopping", patience, first=0)
        self.mode, self.baseline, self.restore_best_weights = mode, baseline, restore_best_weights
        self.reset()

    def reset(self) -> None:
        self.wait = 0
        self.num_judgements = 0
        self.best = worst(self.mode)
        self.best_iteration = 0
        self._best_agent: dict[str, Any] | None = None

    def on_fit_start(self, trainer: Trainer, vessel: TrainingVessel) -> None:
        if trainer.val_every_n_iters is None and is_of_validation(self.monitor):
            raise ConfigError(
                f"val_every_n_iters must be set to stop early by {self.monitor}, was None: nothing would ever be judged; "
                "set it, or monitor a metric of training"
            )
        self._stop_if_waited_enough(trainer)  # continued after it had stopped: stays stopped, unless given more patience

    def on_train_end(self, trainer: Trainer, vessel: TrainingVessel) -> None:
        if not is_of_validation(self.monitor):
            self._judge(trainer, vessel)

    def on_validate_end(self, trainer: Trainer, vessel: TrainingVessel) -> None:
        if is_of_validation(self.monitor):
            self._judge(trainer, vessel)

    def on_fit_end(self, trainer: Trainer, vessel: TrainingVessel) -> None:
        if self.restore_best_weights and self._best_agent is not None and trainer.status != "terminated":
            vessel.agent.load_state_dict(copy.deepcopy(self._best_agent))

    def state_dict(self) -> dict[str, Any]:
        return {
            "wait": self.wait,
            "num_judgements": self.num_judgements,
            "best": self.best,
            "best_iteration": self.best_iteration,
            "best_agent": self._best_agent,
            "judged_by": [self.monitor, self.mode],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if not is_judged_alike(f"early stopping {self.name!r}", state, self.monitor, self.mode):
            self.reset()
            return
        self.wait, self.num_judgements = state["wait"], state["num_judgements"]
        self.best, self.best_iteration = state["best"], state["best_iteration"]
        self._best_agent = copy.deepcopy(state["best_agent"])

    def _judge(self, trainer: Trainer, vessel: TrainingVessel) -> None:
        value = read_monitor(trainer.metrics, self.monitor)
        if value is None:
            return
        self.wait += 1
        self.num_judgements += 1
        if is_better(value, self.best, self.mode, self.min_delta):
            self.best, self.best_iteration = value, trainer.iteration
            if self.restore_best_weights:
                self._best_agent = copy.deepcopy(vessel.agent.state_dict())
            if self.baseline is None or is_better(value, self.baseline, self.mode, self.min_delta):
                self.wait = 0
        self._stop_if_waited_enough(trainer)

    def _stop_if_waited_enough(self, trainer: Trainer) -> None:
        if self.num_judgements > 1 and self.wait >= max(self.patience, 1):
            times = "validations" if is_of_validation(self.monitor) else "iterations"
            best = f"best {self.best:.6g} after iteration {self.best_iteration}"
            trainer.stop("early_stopped", f"{self.monitor} did not improve in {self.wait} {times}; {best}")


class MetricsWriter(Callback):
    """Writes ``train.csv`` and ``validation.csv``: one row per iteration that trained or validated, one column per metric.

    A continued training cuts the files back to the checkpoint's iteration and goes on: they end as if nothing had happened.
    """

    def __init__(self, folder: Path, name: str = "") -> None:
        super().__init__(name)
        self._folder = Path(folder)
        self._tables = {phase: CsvTable(self._folder / f"{phase}.csv") for phase in ("train", "validation")}
        self._iteration = 0

    def claims(self, phases: Sequence[str]) -> Sequence[Path]:
        return (self._folder / "train.csv",) if "train" in phases else ()

    def reset(self) -> None:
        self._iteration = 0

    def on_train_end(self, trainer: Trainer, vessel: TrainingVessel) -> None:
        self._write("train", trainer)

    def on_validate_end(self, trainer: Trainer, vessel: TrainingVessel) -> None:
        self._write("validation", trainer)

    def state_dict(self) -> dict[str, Any]:
        return {"iteration": self._iteration, "num_columns": {phase: table.num_columns for phase, table in self._tables.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._iteration = state["iteration"]
        for phase, table in self._tables.items():
            table.cut_after(self._iteration, state["num_columns"][phase])

    def _write(self, phase: str, trainer: Trainer) -> None:
        if self._iteration == 0:  # a new training's first row, not before: until then another's files may still be wanted
            for table in self._tables.values():
                table.clear()
        self._iteration = trainer.iteration
        row = {name: value for name, value in trainer.metrics.items() if name.startswith(f"{phase}/")}
        self._tables[phase].append(trainer.iteration, [row])
