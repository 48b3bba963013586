"""One training or test at a time writes to a file: claims by locks of the operating system, which end with whoever holds them."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Protocol

from rlcore.foundation.errors import ConfigError
from rlcore.foundation.file_locks import lock_at_once

logger = logging.getLogger(__name__)


class Claimant(Protocol):
    """Who writes files: a callback or a logger."""

    name: str

    def claims(self, phases: Sequence[str]) -> Sequence[Path]: ...


@contextmanager
def claimed(claimants: Sequence[Claimant], phases: Sequence[str]) -> Iterator[None]:
    """Hold all that the claimants are going to write, for the length of the block; makes the folders.

    Raises:
        ConfigError: another training or test holds it, two claimants want the same, or it cannot be written there.
    """
    holders: dict[Path, str] = {}
    with ExitStack() as stack:
        for claimant in claimants:
            for path in claimant.claims(phases):
                place = path.absolute()
                if place in holders:
                    raise ConfigError(
                        f"{path} must be written by one callback or logger, was claimed by {holders[place]!r} and "
                        f"{claimant.name!r}: give each a folder of its own"
                    )
                holders[place] = claimant.name
                stack.enter_context(_locked(path))
        yield


def lock_path(path: Path) -> Path:
    """Return where the lock on ``path`` lies while somebody writes there, or after it was killed."""
    return path.with_name(f".{path.name}.lock")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = lock_path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = _open_and_lock(lock)
    except BlockingIOError:
        raise ConfigError(
            f"{path} must be written by one training or test at a time, another that is still running writes there: "
            "choose another folder, or wait for its end"
        ) from None
    except OSError as error:
        raise ConfigError(
            f"folder {path.parent} must be one to write in, was not: {error.strerror} ({error.filename})"
        ) from error
    with stream:
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)  # while it is held: see _open_and_lock


def _open_and_lock(lock: Path) -> IO[bytes]:
    while True:
        stream = lock.open("ab")
        try:
            _lock(stream)
            # Who held it before has perhaps removed it since it was opened here: then it keeps nobody else out.
            if lock.exists() and os.path.samestat(lock.stat(), os.fstat(stream.fileno())):
                return stream
        except FileNotFoundError:  # removed between the two looks
            pass
        except BaseException:
            stream.close()
            raise
        stream.close()


def _lock(stream: IO[bytes]) -> None:
    try:
        lock_at_once(stream)
    except BlockingIOError:
        raise
    except OSError as error:  # a file system without locks
        logger.warning("%s cannot be locked (%s): nothing keeps a second one from writing there", stream.name, error.strerror)
