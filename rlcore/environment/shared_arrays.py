"""Values handed from process to process through files in shared memory: arrays are neither copied nor pickled, only mapped.

A file holds a pickle (protocol 5) and, behind it, the memory of its arrays (out-of-band buffers, PEP 574). It is written with
``write``, so that a full ``/dev/shm`` is an error here, and the next place is tried: storing into a mapped file would end the
process with SIGBUS. It is read by a copy-on-write mapping, so that arrays can be written to and nobody else sees it (by a copy,
where there are many mappings already).
"""

from __future__ import annotations

import mmap
import pickle
import shutil
import struct
import sys
import tempfile
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from rlcore.foundation.file_locks import lock_at_once

_SHARED_MEMORY = Path("/dev/shm")  # where it exists: Linux
_PREFIX = "fillwright-workers-"
_OWNER = "owner"  # a file that the living owner of a folder holds locked
_ALIGNMENT = 64  # bytes: of a cache line, and more than any array needs
_HEAD = struct.Struct("<QQ")  # length of the pickle, number of buffers; the buffers' lengths follow
_MOMENT_SECONDS = 60.0  # between making a folder and locking it there is a moment

# Each mapping keeps a file open, of which a process may have few (1024, or 256), and a job can have thousands of results.
_MAX_MAPPINGS = 64
# Not a WeakSet: its callbacks run at any moment, and a Ctrl-C that arrives in one is lost.
_mappings: list[weakref.ref[mmap.mmap]] = []


class SharedFolder:
    """Private folders that are gone when everything is over: in shared memory, where there is any, and for temporary files.

    What a killed owner could not remove, the next owner's ``remove_abandoned`` does.
    """

    def __init__(self) -> None:
        self._folders: list[Path] = []
        self._locks: list[IO[bytes]] = []

    def __enter__(self) -> Self:
        try:
            for place in _places():
                with suppress(OSError):  # not writable, or full
                    self._folders.append(Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place)))
                    self._locks.append((self._folders[-1] / _OWNER).open("wb"))
                    lock_at_once(self._locks[-1])
            if not self._folders:
                raise OSError(f"a folder for what worker processes exchange must be writable, none of {_places()} was")
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._remove()

    def places_for(self, name: str) -> tuple[Path, ...]:
        """Return the files that ``write_shared`` may write, the best first."""
        return tuple(folder / name for folder in self._folders)

    def _remove(self) -> None:
        for lock in self._locks:
            lock.close()
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)
        self._locks, self._folders = [], []


def write_shared(places: Sequence[Path], value: Any) -> Path:
    """Pickle a value into the first of these files that has room, and return which.

    Raises:
        OSError: none has room.
        Exception: whatever pickling raised.
    """
    buffers: list[pickle.PickleBuffer] = []
    stream = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    views = [buffer.raw() for buffer in buffers]
    head = _HEAD.pack(len(stream), len(views)) + struct.pack(f"<{len(views)}Q", *(view.nbytes for view in views))
    pieces: list[bytes | memoryview] = [head, stream]
    at = len(head) + len(stream)
    for view in views:
        pieces += [bytes(-at % _ALIGNMENT), view]
        at += -at % _ALIGNMENT + view.nbytes
    problem: OSError | None = None
    for path in places:
        try:
            # No more than half of what is free, unless nothing else is left: others live in shared memory, too.
            if path is places[-1] or 2 * at <= shutil.disk_usage(path.parent).free:
                with path.open("wb") as file:
                    file.writelines(pieces)
                return path
        except OSError as error:  # no space left
            problem = error
            path.unlink(missing_ok=True)
    raise problem or OSError(f"one of the files {places} must have room for {at} bytes, none has")


def read_shared(path: Path) -> Any:
    """Return the value that ``write_shared`` wrote. Its arrays can be written to; the file may be removed."""
    with path.open("rb") as file:
        content = _mapped(file) or bytearray(file.read())
    memory = memoryview(content)
    num_bytes, num_buffers = _HEAD.unpack_from(memory)
    lengths = struct.unpack_from(f"<{num_buffers}Q", memory, _HEAD.size)
    at = _HEAD.size + 8 * num_buffers
    stream = memory[at : at + num_bytes]
    at += num_bytes
    views = []
    for length in lengths:
        at += -at % _ALIGNMENT
        views.append(memory[at : at + length])
        at += length
    return pickle.loads(stream, buffers=views)


def _mapped(file: IO[bytes]) -> mmap.mmap | None:
    """Return the file's content as a mapping; None: not here, or not so many."""
    if len(_mappings) >= _MAX_MAPPINGS:
        _mappings[:] = [one for one in _mappings if one() is not None]
    if len(_mappings) >= _MAX_MAPPINGS or sys.platform == "win32":  # Windows does not remove files that are mapped
        return None
    mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    _mappings.append(weakref.ref(mapping))
    return mapping


def remove_abandoned() -> None:
    """Remove folders whose owners were killed, as far as this user may."""
    if sys.platform == "win32":
        return
    for place in _places():
        for folder in place.glob(f"{_PREFIX}*"):
            with suppress(OSError):
                if time.time() - folder.stat().st_mtime > _MOMENT_SECONDS and not _has_owner(folder):
                    shutil.rmtree(folder, ignore_errors=True)


def _has_owner(folder: Path) -> bool:
    try:
        with (folder / _OWNER).open("rb") as file:
            lock_at_once(file)
    except (BlockingIOError, FileNotFoundError):  # the second: nobody knows
        return True
    return False


def _places() -> list[Path]:
    temporary = Path(tempfile.gettempdir())
    return [_SHARED_MEMORY, temporary] if _SHARED_MEMORY.is_dir() else [temporary]
