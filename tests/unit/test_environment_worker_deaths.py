"""Workers that die or hang, made good: every seed exactly one row, the killer alone fails, nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcore.environment import shared_arrays, worker_processes
from rlcore.environment.backends import InlineBackend, SubprocBackend, build_backend
from rlcore.environment.evaluation import evaluate
from rlcore.environment.random_actions import RandomActions
from rlcore.environment.worker_recovery import DEATHS_OF_ONE_POSITION, Assignment, after_death
from rlcore.foundation.errors import ConfigError, EvaluationError
from rlcore.foundation.random_streams import RandomStreams
from tests.environment_hazards import DeadlyToLoad, DyingSpend, RandomlyDyingSpend, bad_world, end_process, take_one_and_die
from tests.environment_toys import SpendAction, spend_parts, spend_seeds

POLICY = RandomActions(SpendAction.action_space)
NUM_SEEDS = 23
quiet = pytest.mark.filterwarnings("ignore:(worker process|a worker must):RuntimeWarning")


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    """Where this test's shared files lie."""
    folders = [tmp_path / "shm", tmp_path / "tmp"]
    for folder in folders:
        folder.mkdir()
    monkeypatch.setattr(shared_arrays, "_SHARED_MEMORY", folders[0])
    monkeypatch.setattr(shared_arrays.tempfile, "tempdir", str(folders[1]))
    yield folders
    assert [path for folder in folders for path in folder.iterdir()] == []


# What is tried again


@given(
    length=st.integers(1, 200),
    killers=st.sets(st.integers(0, 199), max_size=4),
    moody=st.lists(st.integers(0, 30), max_size=3),
)
def test_killers_end_up_alone_and_everybody_else_is_finished_once(length, killers, moody):
    killers = {killer for killer in killers if killer < length}
    waiting, finished, guilty, num_deaths, num_turns = [Assignment((0, length))], [], [], 0, 0
    while waiting:
        assignment = waiting.pop(0)
        num_turns += 1
        positions = range(*assignment.chunk)
        if not killers & set(positions) and num_turns not in moody:
            finished += positions
            continue
        num_deaths += 1
        again = after_death(assignment)
        assert [position for one in again for position in range(*one.chunk)] == list(positions)
        guilty += [one.start for one in again if one.is_guilty]
        waiting = [one for one in again if not one.is_guilty] + waiting
    assert sorted(finished + guilty) == list(range(length))
    assert killers <= set(guilty)
    if len(moody) < DEATHS_OF_ONE_POSITION:
        assert killers == set(guilty)
    # A chunk twice, then at each halving once, then three times alone.
    deaths_of_one_killer = 2 + np.ceil(np.log2(length)) + DEATHS_OF_ONE_POSITION
    assert num_deaths <= max(len(killers), 1) * deaths_of_one_killer + 2 * len(moody)


# In processes


def table_of(backend, parts=None, seeds=None, num_lanes=4, **settings):
    seeds = seeds or spend_seeds(NUM_SEEDS)
    return evaluate(parts or spend_parts(), POLICY, seeds, RandomStreams(1), "test", num_lanes, backend=backend, **settings)


@quiet
@pytest.mark.parametrize(
    ("how", "what"),
    [
        ("exit", "ended with exit code 7"),
        ("kill", "ended with signal SIGKILL"),
        ("crash", "ended with signal SIGSEGV"),
        ("hang", "missed its deadline of 1 s"),
    ],
)
def test_a_seed_that_kills_has_a_failed_row_that_says_how_and_all_others_are_as_ever(how, what):
    seeds = bad_world(NUM_SEEDS, 6)
    with SubprocBackend(2, on_worker_death="restart", chunk_deadline_seconds=1 if how == "hang" else 60) as backend:
        table = table_of(backend, spend_parts(simulator=DyingSpend(how)), seeds, num_lanes=3, allow_failed="keep")
    assert np.flatnonzero(table.is_failed).tolist() == [6] and table["seed_id"].tolist() == list(range(NUM_SEEDS))
    assert table["error"][6].endswith(f"EvaluationError: a worker process must survive seed 6, 3 have not: the last {what}")
    healthy = table_of(InlineBackend(), seeds=seeds, num_lanes=3)
    for name in healthy.columns:
        np.testing.assert_array_equal(table[name][~table.is_failed], healthy[name][~table.is_failed])


@quiet
@pytest.mark.parametrize("num_workers", [1, 3])
def test_where_failed_rows_are_refused_the_first_one_in_order_is_told(num_workers):
    parts, seeds = spend_parts(simulator=DyingSpend("exit")), bad_world(NUM_SEEDS, 5, 10, 21)
    message = "test must have no failed rows, seed 5 raised .*EvaluationError: a worker process must survive seed 5, 3 have not"
    with build_backend("subproc", num_workers, on_worker_death="restart", chunk_deadline_seconds=60) as backend:
        with pytest.raises(EvaluationError, match=message):
            table_of(backend, parts, seeds)
        assert not table_of(backend).is_failed.any()


@quiet
def test_workers_that_die_at_random_moments_make_no_difference(tmp_path):
    folders = [tmp_path / "while it runs", tmp_path / "while it starts"]
    for folder, number in zip(folders, (5, 2), strict=True):
        folder.mkdir()
        for name in range(number):
            (folder / f"{name}").touch()
    parts, setup = spend_parts(simulator=RandomlyDyingSpend(folders[0])), partial(take_one_and_die, folders[1])
    wanted = table_of(InlineBackend(), seeds=spend_seeds(300))
    with SubprocBackend(2, worker_setup=setup, on_worker_death="restart", chunk_deadline_seconds=60) as backend:
        table = table_of(backend, parts, spend_seeds(300))
    for name in wanted.columns:
        np.testing.assert_array_equal(table[name], wanted[name], strict=True)
    assert not any(any(folder.iterdir()) for folder in folders)


@quiet
def test_workers_that_never_start_are_an_error_however_deaths_are_made_good():
    with SubprocBackend(2, worker_setup=partial(end_process, "exit"), on_worker_death="restart") as backend:
        dies = pytest.raises(
            EvaluationError, match="must stay alive, ended with exit code 7 while it started: look at its output"
        )
        with dies:
            table_of(backend)


@quiet
@pytest.mark.parametrize("choice", ["fail", "restart"])
def test_what_kills_while_it_is_loaded_is_no_seeds_fault(choice):
    with SubprocBackend(2, on_worker_death=choice, chunk_deadline_seconds=60) as backend:
        dies = pytest.raises(EvaluationError, match="ended with exit code 7 while it loaded parts, policy and seeds")
        with dies:
            table_of(backend, spend_parts(simulator=DeadlyToLoad()), allow_failed="keep")


@quiet
def test_where_nothing_survives_not_every_seed_is_tried(monkeypatch):
    monkeypatch.setattr(worker_processes, "DEATHS_WITHOUT_SUCCESS", 6)
    with SubprocBackend(1, on_worker_death="restart", chunk_deadline_seconds=60) as backend:
        dies = pytest.raises(EvaluationError, match="ended with exit code 7 while it ran seed 0: look at its output above")
        with dies:
            table_of(backend, spend_parts(simulator=DyingSpend("exit")), bad_world(NUM_SEEDS, *range(NUM_SEEDS)), num_lanes=4)


def test_each_death_is_told():
    with SubprocBackend(1, on_worker_death="restart", chunk_deadline_seconds=60) as backend:
        parts = spend_parts(simulator=DyingSpend("exit"))
        with pytest.warns(RuntimeWarning) as told:
            table_of(backend, parts, bad_world(NUM_SEEDS, 6), allow_failed="keep", num_lanes=1)
        assert len(told) == DEATHS_OF_ONE_POSITION
        for line in told:
            assert line.message.args[0].endswith("ended with exit code 7 while it ran seed 6: a new worker takes over")


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_whatever_ends_the_parent_no_process_and_no_file_stays(sent, places, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys
            from pathlib import Path
            from rlcore.environment import shared_arrays, worker_processes
            from rlcore.environment.backends import SubprocBackend
            from tests.environment_hazards import SleepySpend
            from tests.environment_toys import spend_parts, spend_seeds
            from tests.unit.test_environment_worker_deaths import table_of

            if __name__ == "__main__":
                shared_arrays._SHARED_MEMORY, shared_arrays.tempfile.tempdir = Path(sys.argv[1]), sys.argv[2]
                with SubprocBackend(2, on_worker_death="restart") as backend:
                    table_of(backend)
                    print("running", flush=True)
                    table_of(backend, spend_parts(simulator=SleepySpend()), spend_seeds(100_000))
            """
        )
    )
    root = Path(__file__).parents[2]
    parent = subprocess.Popen(
        [sys.executable, str(script), *map(str, places)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert parent.stdout.readline() == "running\n", parent.stderr.read()
        children = psutil.Process(parent.pid).children(recursive=True)
        assert len(children) >= 2
        _wait_until(lambda: list(places[0].glob("*/result-*")))  # in the middle of the second passage
        parent.send_signal(sent)
        assert parent.wait(30) != 0
        assert psutil.wait_procs(children, timeout=30)[1] == []
        _wait_until(lambda: not any(any(place.iterdir()) for place in places))
    finally:
        parent.kill()
        parent.communicate()


def _wait_until(is_so, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_misuse_is_refused():
    with pytest.raises(ConfigError, match="on_worker_death must be fail or restart, was 'retry'"):
        build_backend("subproc", 2, on_worker_death="retry")
