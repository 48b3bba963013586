"""Values through shared memory: they arrive as they were, can be written to, and leave nothing behind."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from rlcore.environment import shared_arrays
from rlcore.environment.shared_arrays import SharedFolder, read_shared, remove_abandoned, write_shared
from rlcore.foundation.lanes import map_lanes


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    """Both places in a folder of the test's own, so that other processes do not disturb."""
    memory, temporary = tmp_path / "shm", tmp_path / "tmp"
    memory.mkdir()
    temporary.mkdir()
    monkeypatch.setattr(shared_arrays, "_SHARED_MEMORY", memory)
    monkeypatch.setattr(shared_arrays.tempfile, "tempdir", str(temporary))
    return memory, temporary


def left_in(places):
    return [path for place in places for path in place.iterdir()]


@dataclass(frozen=True, slots=True)
class Pair:
    one: np.ndarray
    other: object


Named = namedtuple("Named", "a b")

TREES = {
    "array": np.arange(12.0).reshape(3, 4),
    "nothing": np.zeros((0, 3)),
    "of columns": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "strided": np.arange(20)[::3],
    "no axis": np.array(4),
    "truth": np.array([True, False]),
    "time": np.array(["2020-01-01", "NaT"], "datetime64[s]"),
    "text": np.array(["ab", "c"]),
    "records": np.array([(1, 2.5)], [("a", "i4"), ("b", "f8")]),
    "nested": {"tuple": (Pair(np.ones(3, np.float32), None), Named(np.arange(2), "b")), "number": 3.5, "list": [1, np.ones(1)]},
}


@pytest.mark.parametrize("name", TREES)
def test_a_value_arrives_as_it_was(name, tmp_path):
    value = TREES[name]
    again = read_shared(write_shared([tmp_path / "file"], value))
    assert type(again) is type(value)
    map_lanes(lambda ours, wanted: np.testing.assert_array_equal(ours, wanted, strict=True), again, value)
    assert repr(again) == repr(value)


def test_objects_arrive_and_what_is_one_object_stays_one(tmp_path):
    shared = np.arange(5)
    objects = np.empty(3, object)
    objects[:] = [{"a": shared}, shared, None]
    again = read_shared(write_shared([tmp_path / "file"], (objects, shared)))
    assert again[0][0]["a"] is again[0][1] is again[1]
    again[1][0] = 7
    assert again[0][1][0] == 7


dtypes = st.one_of(
    arrays_of.boolean_dtypes(),
    *(of(endianness="=") for of in (arrays_of.integer_dtypes, arrays_of.floating_dtypes, arrays_of.datetime64_dtypes)),
)
shapes = arrays_of.array_shapes(min_dims=0, min_side=0, max_side=5)


@settings(max_examples=40)
@given(value=st.lists(arrays_of.arrays(dtypes, shapes), max_size=5))
def test_any_arrays_arrive_bit_by_bit_and_aligned(value, tmp_path_factory):
    again = read_shared(write_shared([tmp_path_factory.mktemp("any") / "file"], value))
    for ours, wanted in zip(again, value, strict=True):
        assert (ours.dtype, ours.shape, ours.tobytes()) == (wanted.dtype, wanted.shape, wanted.tobytes())
        assert ours.flags.aligned and ours.flags.writeable


def test_arrays_can_be_written_to_and_nobody_else_sees_it(tmp_path):
    value = np.arange(100_000)
    path = write_shared([tmp_path / "file"], value)
    one, other = read_shared(path), read_shared(path)
    one[:] = 0
    path.unlink()
    np.testing.assert_array_equal(other, value)


def test_both_places_are_private_and_gone_afterwards(places):
    with SharedFolder() as folder:
        paths = folder.places_for("job")
        assert [path.parent.parent for path in paths] == list(places)
        assert all(path.parent.stat().st_mode & 0o777 == 0o700 for path in paths)
        assert write_shared(paths, np.ones(10)) == paths[0]
    assert left_in(places) == []
    with pytest.raises(ValueError, match="by the way"), SharedFolder() as folder:
        write_shared(folder.places_for("job"), np.ones(10))
        raise ValueError("by the way")
    assert left_in(places) == []


def test_without_shared_memory_files_are_temporary_ones(places):
    places[0].rmdir()
    with SharedFolder() as folder:
        (path,) = folder.places_for("job")
        assert path.parent.parent == places[1]


def test_without_any_place_it_says_so(places):
    for place in places:
        place.rmdir()
    with pytest.raises(OSError, match="must be writable, none of"), SharedFolder():
        pass


def test_shared_memory_is_never_filled_by_more_than_half_of_what_is_free(places, monkeypatch):
    usage = shutil.disk_usage(places[0])
    monkeypatch.setattr(shared_arrays.shutil, "disk_usage", lambda path: usage._replace(free=15_000))
    with SharedFolder() as folder:
        first, second = folder.places_for("job")
        assert write_shared((first, second), np.ones(900)) == first
        assert write_shared((first, second), np.ones(1000)) == second


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full, the device that is always full, is Linux's own")
def test_a_full_place_is_an_error_that_leads_to_the_next_one(tmp_path):
    full = tmp_path / "full"
    full.symlink_to("/dev/full")
    assert write_shared([full, tmp_path / "second"], np.ones(100_000)) == tmp_path / "second"
    assert not full.is_symlink()  # what was half written is gone
    full.symlink_to("/dev/full")
    with pytest.raises(OSError) as caught:
        write_shared([full], np.ones(100_000))
    assert caught.value.errno == errno.ENOSPC
    assert read_shared(tmp_path / "second").sum() == 100_000


def test_what_cannot_be_pickled_leaves_no_file(tmp_path):
    with pytest.raises(AttributeError, match="local object"):
        write_shared([tmp_path / "file"], lambda: None)
    assert list(tmp_path.glob("file*")) == []


def test_a_killed_owners_folders_are_removed_by_the_next_one_and_a_living_owners_are_not(places, tmp_path):
    script = textwrap.dedent(
        """
        import sys, time
        from pathlib import Path
        from rlcore.environment import shared_arrays
        shared_arrays._SHARED_MEMORY = Path(sys.argv[1])
        shared_arrays.tempfile.tempdir = sys.argv[2]
        with shared_arrays.SharedFolder() as folder:
            shared_arrays.write_shared(folder.places_for("job"), list(range(1000)))
            print("ready", flush=True)
            time.sleep(600)
        """
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, places)], cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True
    )
    try:
        assert owner.stdout.readline() == "ready\n"
        folders = left_in(places)
        assert len(folders) == 2
        _make_old(folders)
        with SharedFolder():
            _make_old(left_in(places))
            remove_abandoned()
            assert len(left_in(places)) == 4
        owner.send_signal(signal.SIGKILL)
        owner.wait(20)
        assert sorted(left_in(places)) == sorted(folders)
        remove_abandoned()
        assert left_in(places) == []
    finally:
        owner.kill()
        owner.communicate()


def _make_old(folders):
    for folder in folders:
        os.utime(folder, (time.time() - 3600,) * 2)


def test_a_folder_that_was_just_made_is_left_alone(places):
    for name in ("fillwright-workers-new", "fillwright-workers-old", "other"):
        (places[0] / name).mkdir()
        (places[0] / name / "owner").touch()
    _make_old([places[0] / "fillwright-workers-old", places[0] / "other"])
    remove_abandoned()
    assert sorted(path.name for path in left_in(places)) == ["fillwright-workers-new", "other"]


def test_a_place_without_locks_is_used_and_never_cleared(places, monkeypatch):
    def refuse(*arguments):
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with SharedFolder() as folder:
        assert len(folder.places_for("job")) == 2
        _make_old(left_in(places))
        remove_abandoned()
        assert len(left_in(places)) == 2
    assert left_in(places) == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not remove files that are mapped: there results are copied")
def test_thousands_of_results_at_once_need_few_open_files(tmp_path):
    """A mapping keeps its file open, and a process may have 1024 of them on most machines, or 256."""
    import resource

    path = write_shared([tmp_path / "file"], np.arange(5))
    with path.open("rb") as file:
        highest = file.fileno()
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 150, before[1]))
    try:
        values = [read_shared(path) for _ in range(1000)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert all(value.tolist() == [0, 1, 2, 3, 4] and value.flags.writeable for value in values)
