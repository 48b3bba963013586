"""Whole files or none: written beside the target, flushed to disk, then renamed over it."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path`` so that a reader (or a kill -9) sees the old file or the new one, never half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        _name_the_file(error, path)
        raise
    _flush_folder(path.parent)


def remove_half_written(path: Path) -> None:
    """Remove what a kill left of writing ``path``; nobody may be writing it now."""
    for abandoned in path.parent.glob(f".{path.name}.????????"):  # mkstemp's eight letters
        abandoned.unlink(missing_ok=True)


@contextmanager
def folder_written_atomically(path: Path) -> Iterator[Path]:
    """Yield an empty folder to fill; it takes the place of ``path`` on success and vanishes on failure."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        yield temporary
        temporary.chmod(0o755)
        _replace_folder(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    _flush_folder(path.parent)


def _name_the_file(error: BaseException, path: Path) -> None:
    """Say in the error of a full disk whose write it was."""
    if isinstance(error, OSError) and error.errno is not None and error.filename is None:
        error.filename = str(path)


def _replace_folder(new: Path, path: Path) -> None:
    """Rename a folder over another. Several processes may do so at once: the last one wins, and none fails."""
    while True:
        try:
            new.replace(path)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        else:
            return
        # A folder with content cannot be renamed over: it steps aside, whole, and is deleted under its other name.
        aside = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
        with suppress(FileNotFoundError):  # another process was faster
            path.replace(aside)
        shutil.rmtree(aside, ignore_errors=True)


def _flush_folder(folder: Path) -> None:
    # Without this the rename itself can be lost at a power cut (ext4, xfs).
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
