"""Points of a training at which it can be killed.

Nothing in rlcore knows of this: they are found from outside, by callbacks, by wrapping a vessel's methods, and by Python's audit
events, which announce every operation on a file before it happens.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path
from typing import Any, ClassVar

from rlcore.environment import worker_processes
from rlcore.training.callbacks import AFTER_CHECKPOINT, Callback
from rlcore.training.trainer import Trainer
from rlcore.training.vessel import TrainingVessel

END = "end.json"  # how a training ended, and what it passed


class Plug:
    """Kills this process at a named point.

    Points are: the hooks of callbacks, seen before all others and after the checkpoint; edges of the vessel's work; and every
    operation on a file in the folder, before it happens, named by what it does to which file, numbers and random names left out.
    A point that begins with "half " is reached when the file it names has been written; it is cut to half of what was written.
    Where a point is passed several times in an iteration, the second is called "… (2)".

    SIGKILL goes to the training's process alone, any other signal to its workers too, as a terminal or a service manager does it.

    Args:
        point: where; "": nowhere, but every point that is passed is noted.
        iteration: in which iteration; 0: before the first (of a training that goes on: while it is taken up).
    """

    def __init__(self, folder: Path, point: str, iteration: int, signal_number: int = signal.SIGKILL) -> None:
        self.passed: dict[int, list[str]] = {0: []}  # by iteration
        self._folder, self._point, self._iteration, self._signal = folder, point, iteration, signal_number
        self._now = 0
        self._written: tuple[str, Path, int] | None = None  # the file being written: its point, where, how long it was
        self.callbacks = _BeforeOthers(self), _AfterCheckpoint(self)
        sys.addaudithook(self._on_event)

    def reach(self, name: str) -> None:
        self._half_of_what_was_written()
        if self._note(name):
            self._kill()

    def _note(self, name: str) -> bool:
        here = self.passed[self._now]
        number = 1 + sum(passed == name or passed.startswith(f"{name} (") for passed in here)
        here.append(name if number == 1 else f"{name} ({number})")
        return self._now == self._iteration and here[-1] == self._point

    def at_iteration(self, number: int) -> None:
        self._now = number
        self.passed.setdefault(number, [])

    def watch(self, vessel: Any) -> None:
        """Announce the edges of the vessel's work; in this process only."""
        for name in ("collect", "update", "evaluate"):
            self._announce(vessel, name, f"{name} begins", f"{name} is done")
        self._announce(worker_processes, "wait", "workers are busy", "a worker has news")

    def _announce(self, owner: Any, name: str, before: str, after: str) -> None:
        real = getattr(owner, name)

        def wrapped(*given: Any) -> Any:
            self.reach(before)
            result = real(*given)
            self.reach(after)
            return result

        setattr(owner, name, wrapped)

    def _on_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        operation = _operation(event, arguments, self._folder)
        if operation is None:
            return
        what, path = operation
        name = f"{what} {_shape(path.relative_to(self._folder))}"
        self.reach(name)
        if what in ("create", "append to"):
            size = path.stat().st_size if what == "append to" and path.exists() else 0
            self._written = _shape(path.relative_to(self._folder)), path, size

    def _half_of_what_was_written(self) -> None:
        if self._written is None:
            return
        (name, path, before), self._written = self._written, None
        after = path.stat().st_size if path.exists() else 0
        if after <= before:
            return
        if self._note(f"half {name}"):
            os.truncate(path, (before + after) // 2)
            self._kill()

    def _kill(self) -> None:
        if self._signal == signal.SIGKILL:
            os.kill(os.getpid(), self._signal)
        else:
            os.killpg(os.getpid(), self._signal)


class _BeforeOthers(Callback):
    def __init__(self, plug: Plug) -> None:
        super().__init__("before others")
        self._plug = plug

    def on_iteration_start(self, trainer: Trainer, vessel: TrainingVessel) -> None:
        self._plug.at_iteration(trainer.iteration + 1)
        self._plug.reach("iteration starts")

    def on_train_end(self, trainer: Trainer, vessel: TrainingVessel) -> None:
        self._plug.reach("training is over")

    def on_validate_end(self, trainer: Trainer, vessel: TrainingVessel) -> None:
        self._plug.reach("validation is over")

    def on_iteration_end(self, trainer: Trainer, vessel: TrainingVessel) -> None:
        self._plug.reach("iteration is over")


class _AfterCheckpoint(Callback):
    order: ClassVar[int] = AFTER_CHECKPOINT

    def __init__(self, plug: Plug) -> None:
        super().__init__("after the checkpoint")
        self._plug = plug

    def on_iteration_end(self, trainer: Trainer, vessel: TrainingVessel) -> None:
        self._plug.reach("checkpoint is written")

    def on_fit_end(self, trainer: Trainer, vessel: TrainingVessel) -> None:
        self._plug.reach("fit is over")


def _operation(event: str, arguments: tuple[Any, ...], folder: Path) -> tuple[str, Path] | None:
    """Return what an audit event is about to do to a file in the folder; None for what changes nothing there."""
    what, at = {"os.rename": ("rename to", 1), "os.remove": ("remove", 0), "os.symlink": ("link", 1), "open": ("", 0)}.get(
        event, (None, 0)
    )
    if what is None or not isinstance(arguments[at], str | Path):
        return None
    path = Path(arguments[at])
    if event == "os.remove" and arguments[1] >= 0:  # relative to an open folder, as shutil.rmtree does it
        path = Path(f"/proc/self/fd/{arguments[1]}").resolve() / path
    if not path.is_relative_to(folder) or path == folder / END:
        return None
    if event == "open":
        flags = arguments[2]
        if path.is_dir():
            return "flush folder", path
        if not flags & (os.O_WRONLY | os.O_RDWR):
            return None
        what = "append to" if flags & os.O_APPEND else "create"
    return what, path


def _shape(path: Path) -> str:
    """Return a name that is the same in every run: numbers of iterations and random endings are left out."""
    name = re.sub(r"iteration_\d+|\d{9}(?=\.parquet)", lambda found: re.sub(r"\d+", "N", found[0]), path.name)
    if name.startswith(".") and not name.endswith(".new"):
        name = re.sub(r"\.[a-z0-9_]{8}$", ".*", name)
    return str(path.with_name(name)) if path.name else "."
