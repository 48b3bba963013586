"""Locks of the operating system on open files: they end with whoever holds them, however that ends.

Windows has none of this kind: there every lock is granted.
"""

from __future__ import annotations

import sys
from typing import IO, Any

if sys.platform != "win32":
    import fcntl


def lock_at_once(file: IO[Any] | int) -> None:
    """Hold an open file, or descriptor, until it is closed.

    Raises:
        BlockingIOError: another process holds it.
        OSError: the file system has no locks.
    """
    if sys.platform != "win32":
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def lock_in_turn(file: IO[Any] | int) -> None:
    """Hold an open file, or descriptor, until it is closed, after whoever holds it now.

    Raises:
        OSError: the file system has no locks.
    """
    if sys.platform != "win32":
        fcntl.flock(file, fcntl.LOCK_EX)
