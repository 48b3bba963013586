"""The life of a worker process, seen from inside."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import shutil
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from rlcore.environment.shared_arrays import read_shared, write_shared
from rlcore.environment.worker_jobs import portable
from rlcore.foundation.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Task:
    """What a worker is sent. It fits into a pipe's buffer, so that sending never waits."""

    perform: Callable[[Any, Any], Any]  # (shared, own) → result
    shared_path: Path
    own_path: Path
    result_places: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a worker sends back."""

    path: Path
    is_error: bool


READY = "ready"  # sent when a worker has started
LOADED = "loaded"  # sent when it has loaded what is shared by the chunks of a job, if it had not


def work(connection: Connection, setup: Callable[[], None] | None) -> None:
    """Do what is sent until told to leave (None), or until the parent is no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    faulthandler.enable()  # a crash in native code says where
    folders: set[Path] = set()
    threading.Thread(target=_leave_with_parent, args=(folders,), daemon=True).start()
    if setup is not None:
        setup()
    connection.send(READY)
    shared: Any = None
    shared_path: Path | None = None
    while True:
        try:
            task: Task | None = connection.recv()
        except (EOFError, OSError):
            return _remove(folders)
        if task is None:
            return
        folders.clear()
        folders.update(place.parent for place in task.result_places)
        try:
            if shared_path != task.shared_path:
                shared = None  # the old one may go before the new one comes
                shared, shared_path = _read(task.shared_path), task.shared_path
                connection.send(LOADED)
            result = task.perform(shared, _read(task.own_path))
            answer = Answer(_write(task, result), False)
            del result
        except Exception as error:
            answer = Answer(write_shared(task.result_places, portable(error)), True)
        try:
            connection.send(answer)
        except OSError:
            return _remove(folders)


def _read(path: Path) -> Any:
    try:
        return read_shared(path)
    except (AttributeError, ImportError) as error:  # pickle looks classes and functions up by module and name
        raise ConfigError(
            f"parts, policy, seeds and episodes in progress must be importable in worker processes, were not "
            f"({type(error).__name__}: {error}): define their classes and functions at the top of a module or of the script, "
            "not below its main guard, in a notebook or at a prompt; or use InlineBackend"
        ) from error


def _write(task: Task, result: Any) -> Path:
    try:
        return write_shared(task.result_places, result)
    except OSError:
        raise
    except Exception as error:  # pickling runs users' code
        raise not_picklable("what a worker process sends back (episodes in progress)", error) from error


def not_picklable(what: str, error: Exception) -> ConfigError:
    """Return the error that says what to do."""
    return ConfigError(
        f"{what} must be picklable for worker processes, were not ({type(error).__name__}: {error}): "
        "define classes and functions in a module, or use InlineBackend"
    )


def _leave_with_parent(folders: set[Path]) -> None:
    """End when the parent has ended, and remove the folders that it could not."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        _remove(folders)
        os._exit(1)


def _remove(folders: set[Path]) -> None:
    """Remove what a parent that has ended could not; the main thread and the one that waits for that end may both do it."""
    for folder in tuple(folders):
        shutil.rmtree(folder, ignore_errors=True)
