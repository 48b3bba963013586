"""Claims on folders by locks of the operating system: a claim vanishes with its process, however that ends.

The lock lies beside its folder, so that the folder itself can be made, replaced and deleted under it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rlcore.foundation.file_locks import lock_at_once, lock_in_turn


def lock_path(folder: Path) -> Path:
    return folder.parent / f".{folder.name}.lock"


@contextmanager
def try_to_claim(folder: Path) -> Iterator[bool]:
    """Claim a folder for the length of the block, unless another holds it; yields whether it is ours."""
    with lock_path(folder).open("a") as stream:
        try:
            lock_at_once(stream)
        except BlockingIOError:
            yield False
            return
        yield True


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Claim a folder for the length of the block, after whoever holds it now."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with lock_path(folder).open("a") as stream:
        lock_in_turn(stream)
        yield
