"""Who owns a run, how a killed one goes on, and what may be deleted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import date
from pathlib import Path
from typing import Literal

import pytest

from flows.home import Home
from flows.housekeeping.garbage import collect, find_garbage
from flows.run_records import newer_run, own_run, read_records

OWNER = """
import sys, time
from pathlib import Path
from flows.home import Home
from flows.run_records import own_run
with own_run(Home.open(Path(sys.argv[1])), "trial", "same", None) as run:
    print(run.record.run, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.open(tmp_path / "home")


def _owner(home: Home) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen([sys.executable, "-c", OWNER, str(home.root)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def test_a_run_with_a_living_owner_is_left_alone_and_goes_on_after_a_kill(home: Home) -> None:
    process, name = _owner(home)
    try:
        with own_run(home, "trial", "same", None) as second:
            assert second.record.run != name
            assert not second.is_resumed
            second.end("finished")
        assert {record.run: record.status for record in read_records(home)}[name] == "running"
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert {record.run: record.status for record in read_records(home)}[name] == "killed"
    with own_run(home, "trial", "other", None) as other:
        assert other.record.run != name
        other.end("finished")
    with own_run(home, "trial", "same", None) as resumed:
        assert (resumed.record.run, resumed.is_resumed) == (name, True)
        resumed.end("finished")
    with own_run(home, "trial", "same", None) as fresh:
        assert fresh.record.run != name


def _run(home: Home, identity: str, uses: tuple[Path, ...]) -> str:
    with own_run(home, "trial", identity, None) as run:
        run.update(uses=uses)
        run.end("finished")
        time.sleep(0.01)  # the next one starts later
        return run.record.run


def test_what_no_kept_run_stands_on_may_go(home: Home) -> None:
    old, new, orphan = (home.trainings / name for name in ("old", "new", "orphan"))
    for folder in (old, new, orphan):
        (folder / "checkpoints").mkdir(parents=True)
        for iteration in (1, 2, 3):
            (folder / "checkpoints" / f"iteration_{iteration:06d}.ckpt").write_bytes(b"12345")
        (folder / "policy.pt").write_bytes(b"policy")
    first = _run(home, "a", (old,))
    _run(home, "b", (new,))
    garbage = find_garbage(home, keep_runs=1)
    assert collect(garbage).num_bytes == garbage.num_bytes > 0
    assert not old.exists()
    assert not orphan.exists()
    assert not (home.runs / first).exists()
    assert [path.name for path in (new / "checkpoints").iterdir()] == ["iteration_000003.ckpt"]
    assert (new / "policy.pt").exists()
    assert find_garbage(home, keep_runs=1).paths == ()


@pytest.mark.parametrize("status", ["killed", "interrupted"])
def test_what_a_killed_run_needs_to_go_on_stays(home: Home, status: Literal["killed", "interrupted"]) -> None:
    training = home.trainings / "begun"
    (training / "checkpoints").mkdir(parents=True)
    for iteration in (1, 2):
        (training / "checkpoints" / f"iteration_{iteration:06d}.ckpt").write_bytes(b"12345")
    with own_run(home, "trial", "a", None) as run:
        run.update(uses=(training,))
        run.end(status)
    assert find_garbage(home, keep_runs=0).paths == ()
    with own_run(home, "trial", "a", None) as again:
        assert again.is_resumed


def test_a_folder_that_another_process_holds_is_left(home: Home) -> None:
    process, name = _owner(home)
    try:
        assert home.runs / name not in find_garbage(home, keep_runs=0).paths
    finally:
        process.kill()
        process.wait()


def test_a_late_run_gives_way_to_one_that_has_seen_more(home: Home) -> None:
    with own_run(home, "trial", "newer", date(2024, 1, 10)) as run:
        run.end("finished")
    with own_run(home, "trial", "failed", date(2024, 1, 12)) as run:
        run.end("failed")
    newer = newer_run(home, "trial", date(2024, 1, 9))
    assert newer is not None
    assert newer.as_of == date(2024, 1, 10)
    assert newer_run(home, "trial", date(2024, 1, 10)) is None
    assert newer_run(home, "other", date(2024, 1, 1)) is None
