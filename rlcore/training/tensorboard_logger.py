"""Metrics as TensorBoard's event files. The step is the iteration.

TensorBoard's own record format and messages are used, not ``torch.utils.tensorboard``: that one writes from a thread of its own,
which a kill would cut off, and names its files by host and process.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcore.training.log_levels import LogLevel
from rlcore.training.loggers import Logger

if TYPE_CHECKING:
    from tensorboard.compat.proto.event_pb2 import Event

_FILE_NAME = re.compile(r"events\.out\.tfevents\.(\d+)\.fillwright")
_FORMAT = "brain.Event:2"  # what TensorBoard looks for in a file's first event


class TensorBoardLogger(Logger):
    """Writes every metric of its level as a scalar of its name; see it with ``tensorboard --logdir <folder>``.

    A continued training opens a further file, which begins by telling TensorBoard to forget all steps from the next iteration on
    (a session that starts there: ``purge_step`` in TensorFlow's terms), so that no step shows twice. A file is never written to
    after another has been opened, and never cut: a TensorBoard that is running may be reading it.

    Args:
        folder: of this training's event files alone; a new training deletes those of another at its first metrics. A test of its
            own (``Trainer.test`` of a fresh trainer, ``backtest``) adds to them.
    """

    def __init__(self, folder: Path, *, level: LogLevel = LogLevel.PERIODIC, name: str = "") -> None:
        super().__init__(name, level)
        self._folder = Path(folder)
        self.reset()

    def claims(self, phases: Sequence[str]) -> Sequence[Path]:
        # A test writes to a file of its own, each record at once.
        return (self._folder / "events.out.tfevents",) if "train" in phases else ()

    def reset(self) -> None:
        self._iteration = 0
        self._path: Path | None = None  # of the file that this training writes to now

    def log_metrics(self, iteration: int, metrics: dict[str, float]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        if self._path is None:
            self._begin(is_training=not all(name.startswith("test/") for name in metrics))
        self._iteration = iteration
        values = [Summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
        self._append(Event(wall_time=time.time(), step=iteration, summary=Summary(value=values)))

    def state_dict(self) -> dict[str, Any]:
        return {"iteration": self._iteration}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        self._iteration = state["iteration"]
        files = self._files()
        if self._iteration and files:
            self._open(files[-1][0] + 1)
            restart = SessionLog(status=SessionLog.START)
            self._append(Event(wall_time=time.time(), step=self._iteration + 1, session_log=restart))

    def _begin(self, *, is_training: bool) -> None:
        files = self._files()
        if is_training:
            for _, earlier in files:
                earlier.unlink()
        self._open(files[-1][0] + 1 if files and not is_training else 1)

    def _files(self) -> list[tuple[int, Path]]:
        found = ((_FILE_NAME.fullmatch(path.name), path) for path in self._folder.glob("events.out.tfevents.*"))
        return sorted((int(match[1]), path) for match, path in found if match)

    def _open(self, number: int) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._folder.mkdir(parents=True, exist_ok=True)
        self._path = self._folder / f"events.out.tfevents.{number:06d}.fillwright"  # TensorBoard reads them by name
        self._append(Event(wall_time=time.time(), file_version=_FORMAT))

    def _append(self, event: Event) -> None:
        from tensorboard.summary.writer.record_writer import RecordWriter

        assert self._path is not None  # opened before
        with self._path.open("ab") as stream:  # what is handed over survives a kill of the process at once
            RecordWriter(stream).write(event.SerializeToString())
