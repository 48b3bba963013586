"""Atomic files, fingerprints, the registry, and the tree of errors."""

from __future__ import annotations

import hashlib
import os
import stat

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcore.foundation import errors
from rlcore.foundation.atomic_files import folder_written_atomically, write_atomically
from rlcore.foundation.errors import ConfigError, nearest_name
from rlcore.foundation.fingerprints import (
    canonical_json,
    fingerprint_arrays,
    fingerprint_file,
    fingerprint_of,
    fingerprint_sources,
)
from rlcore.foundation.registry import CATEGORIES, Registry


def names(folder):
    return [path.name for path in folder.iterdir()]


def test_a_file_is_written_whole_into_a_new_folder(tmp_path):
    path = tmp_path / "new" / "file"
    write_atomically(path, b"one")
    write_atomically(path, b"two")
    assert path.read_bytes() == b"two" and names(path.parent) == ["file"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def full(descriptor):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old" and names(tmp_path) == ["file"]


def test_a_folder_takes_the_place_of_another_or_vanishes(tmp_path):
    target = tmp_path / "folder"
    for content in ("one", "two"):
        with folder_written_atomically(target) as folder:
            (folder / content).write_text(content)
    assert names(target) == ["two"]
    with pytest.raises(RuntimeError), folder_written_atomically(target) as folder:
        (folder / "half").write_text("half")
        raise RuntimeError
    assert names(target) == ["two"] and names(tmp_path) == ["folder"]


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=8,
)


@given(value=st.dictionaries(st.text(), plain, max_size=5))
def test_the_order_of_keys_does_not_matter(value):
    backwards = dict(reversed(value.items()))
    assert canonical_json(value) == canonical_json(backwards)
    assert fingerprint_of(value) == fingerprint_of(backwards)


def test_a_fingerprint_is_the_beginning_of_sha256_of_canonical_json():
    assert canonical_json({"b": [1, None], "a": "é"}) == '{"a":"é","b":[1,null]}'
    assert fingerprint_of({"b": 1, "a": 2}) == hashlib.sha256(b'{"a":2,"b":1}').hexdigest()[:16]
    with pytest.raises(ValueError, match="not JSON compliant"):
        fingerprint_of(float("nan"))


def test_arrays_are_told_apart_by_name_type_shape_and_bytes_not_by_memory_layout():
    x = np.arange(6.0).reshape(2, 3)
    same = fingerprint_arrays({"x": x})
    assert fingerprint_arrays({"x": np.asfortranarray(x)}) == same
    assert fingerprint_arrays({"x": np.arange(12.0).reshape(2, 6)[:, :3] * 0 + x}) == same
    others = [{"y": x}, {"x": x.astype(np.float32)}, {"x": x.reshape(3, 2)}, {"x": -x}, {"x": x[:0]}]
    assert len({same, *(fingerprint_arrays(other) for other in others)}) == 6
    assert fingerprint_arrays({"a": x, "b": x}) == fingerprint_arrays({"b": x, "a": x})


def test_files_and_sources_by_content(tmp_path):
    (tmp_path / "a.py").write_text("x = 1")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c.py").write_text("x = 2")
    (tmp_path / "notes.txt").write_text("no source")
    first = fingerprint_sources(tmp_path)
    (tmp_path / "notes.txt").write_text("other")
    assert fingerprint_sources(tmp_path) == first
    (tmp_path / "b" / "c.py").write_text("x = 3")
    assert fingerprint_sources(tmp_path) != first
    assert fingerprint_file(tmp_path / "a.py") == hashlib.sha256(b"x = 1").hexdigest()[:16]


def test_the_registry_keeps_kinds_by_category():
    registry = Registry()
    registry.register("reward", "bargain", int)
    registry.register("reward", "haste", float)
    registry.register("agent", "bargain", str)
    assert registry["reward", "haste"] is float and registry.kinds("reward") == {"bargain": int, "haste": float}
    assert len(registry) == 3 and ("agent", "bargain") in list(registry)


def test_the_registry_refuses_with_a_suggestion():
    registry = Registry()
    registry.register("reward", "bargain", int)
    with pytest.raises(ConfigError, match=r"must be one of bargain, was 'bargin' \(did you mean 'bargain'\?\)"):
        registry["reward", "bargin"]
    with pytest.raises(ConfigError, match=r"must be one of \(none\)"):
        registry["agent", "ppo"]
    with pytest.raises(ConfigError, match="kind must be unused in category 'reward', was 'bargain'"):
        registry.register("reward", "bargain", float)
    with pytest.raises(ConfigError, match=r"category must be one of .*, was 'rewards' \(did you mean 'reward'\?\)"):
        registry.register("rewards", "x", float)
    assert "reward" in CATEGORIES


def test_errors_form_one_tree_and_those_of_users_are_input_errors():
    own = [getattr(errors, name) for name in dir(errors) if isinstance(getattr(errors, name), type)]
    own = [kind for kind in own if issubclass(kind, Exception)]
    assert all(issubclass(kind, errors.FillwrightError) for kind in own) and errors.SpaceError in own
    for kind in (errors.ConfigError, errors.DataError, errors.CheckpointError):
        assert issubclass(kind, errors.InputError)
    assert nearest_name("lernrate", ["learnrate", "x"]) == " (did you mean 'learnrate'?)"
    assert nearest_name("zzz", ["learnrate"]) == ""
