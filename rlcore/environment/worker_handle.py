"""The parent's side of one worker process."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal, cast

from rlcore.environment.worker_life import LOADED, Answer, Task, work
from rlcore.environment.worker_recovery import Assignment

START_SECONDS = 120.0  # importing torch on a loaded machine takes long
CLOSE_SECONDS = 5.0

# It starts; waits for a chunk; loads the job of the chunk that it was given, if that is a new one; runs the chunk.
Stage = Literal["starting", "idle", "loading", "running"]


class WorkerDiedError(Exception):
    """How a worker ended; it may be alive and too late."""

    def __init__(self, how: str, is_late: bool = False) -> None:
        super().__init__(how)
        self.how, self.is_late = how, is_late


class WorkerHandle:
    """The parent's side of one process: what it is at, and until when."""

    def __init__(self, setup: Callable[[], None] | None) -> None:
        # Spawn: forking a process that has threads (torch, BLAS) can deadlock the child.
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs, setup), daemon=True, name="fillwright worker")
        self.process.start()
        theirs.close()
        self.stage: Stage = "starting"
        self.assignment: Assignment | None = None
        self.own_path: Path | None = None
        self._loaded_path: Path | None = None
        self._set_deadline(START_SECONDS)

    def send(self, task: Task, assignment: Assignment, patience_seconds: float) -> None:
        """Hand out a chunk; the patience counts from when the job is loaded."""
        self.assignment, self.own_path, self._running_seconds = assignment, task.own_path, patience_seconds
        if task.shared_path == self._loaded_path:
            self._run()
        else:
            self.stage, self._loaded_path = "loading", task.shared_path
            self._set_deadline(START_SECONDS)
        with suppress(OSError):  # it has died already: ``news`` says so
            self.connection.send(task)

    def _run(self) -> None:
        self.stage = "running"
        self._set_deadline(self._running_seconds)

    def _set_deadline(self, seconds: float) -> None:
        self.patience_seconds, self.deadline = seconds, time.monotonic() + seconds

    def news(self) -> Answer | str | None:
        """Return what it says: READY, LOADED or its answer; None: nothing yet.

        Raises:
            WorkerDiedError: there will be nothing more.
        """
        if self.connection.poll():
            try:
                message = self.connection.recv()
            except (EOFError, OSError):
                raise WorkerDiedError(self._how()) from None
            if message == LOADED:
                self._run()
            else:
                self.stage = "idle"
            return cast("Answer | str", message)  # what ``work`` sends
        if not self.process.is_alive():
            raise WorkerDiedError(self._how())
        if time.monotonic() > self.deadline:
            raise WorkerDiedError(f"missed its deadline of {self.patience_seconds:g} s", is_late=True)
        return None

    def ask_to_leave(self) -> None:
        with suppress(OSError):  # it has left already
            self.connection.send(None)

    def kill(self) -> None:
        self.process.kill()
        self.connection.close()

    def _how(self) -> str:
        self.process.join(CLOSE_SECONDS)
        code = self.process.exitcode
        return (
            f"ended with signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"ended with exit code {code}"
        )


def what_happened(worker: WorkerHandle, death: WorkerDiedError, chunk: str) -> tuple[str, str]:
    """Return what happened and what to do about it."""
    doing = {"starting": "started", "loading": "loaded parts, policy and seeds"}.get(worker.stage, f"ran {chunk}")
    if not death.is_late:
        return f"worker process {worker.process.pid} must stay alive, {death.how} while it {doing}", (
            "look at its output above; SIGKILL is often the memory limit; a script that uses worker processes must guard its "
            "start with if __name__ == '__main__'"
        )
    if worker.stage != "running":
        return f"worker process {worker.process.pid} must be ready in time, {death.how} while it {doing}", (
            "look at its output above, and at how busy the machine is"
        )
    return f"a worker must finish a chunk within {worker.patience_seconds:g} s, has not finished {chunk}", (
        "raise chunk_deadline_seconds, or lower num_lanes to make chunks shorter"
    )
