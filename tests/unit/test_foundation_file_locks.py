"""Locks end with whoever holds them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rlcore.foundation.file_locks import lock_at_once, lock_in_turn

HOLDER = """
import sys, time
from rlcore.foundation.file_locks import lock_at_once
with open(sys.argv[1], "ab") as file:
    lock_at_once(file)
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no locks of this kind: every lock is granted there")
def test_a_lock_keeps_others_out_until_its_holder_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with path.open("ab") as file:
            with pytest.raises(BlockingIOError):
                lock_at_once(file)
            holder.kill()
            lock_in_turn(file)
            with path.open("ab") as another, pytest.raises(BlockingIOError):
                lock_at_once(another.fileno())
        with path.open("ab") as file:
            lock_at_once(file)
    finally:
        holder.kill()
        holder.wait()
