"""The checkpoint's container: whole or not at all, checksummed, loaded without executing code, refused elsewhere."""

import logging
import pickle

import numpy as np
import pytest
import torch

from rlcore.foundation.errors import CheckpointError, ContractError
from rlcore.training.checkpoint import (
    FORMAT_VERSION,
    checkpoint_name,
    checkpoints_in,
    latest_valid_checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from rlcore.training.resume import flattened, refuse_other_config
from tests.training_toy import assert_same


def content_with(state, **changes):
    content = {"format_version": FORMAT_VERSION, "config": {}, "iteration": 3, "vessel": state, "trainer": {}}
    return {**content, "callbacks": {}, "loggers": {}, "library_versions": {}, **changes}


EVERY_KIND = {
    "plain": [None, True, 3, -0.0, float("nan"), "text", b"bytes", (1, (2.5, []))],
    "optimiser": {"state": {0: {"step": torch.tensor(3.0)}, 1: {}}, "param_groups": [{"lr": 0.1, "betas": (0.9, 0.999)}]},
    "tensors": {"half": torch.ones(2, dtype=torch.bfloat16), "empty": torch.zeros(0, 3), "scalar": torch.tensor(7)},
    "arrays": {
        "replay": np.arange(12, dtype=np.float64).reshape(3, 4)[:, ::-1],
        "key": np.array([2**64 - 1], np.uint64),
        "mask": np.array([True, False]),
        "nothing": np.zeros((0, 2), np.float32),
        "point": np.array(2.5),
        "number": np.float32(0.1),
        "fortran": np.asfortranarray(np.ones((2, 3))),
    },
}


def test_every_kind_of_state_reads_back_to_the_same_bits(tmp_path):
    write_checkpoint(tmp_path / "a.ckpt", content_with(EVERY_KIND))
    assert_same(read_checkpoint(tmp_path / "a.ckpt"), content_with(EVERY_KIND))


def test_form_of_the_file_is_magic_checksum_length_payload(tmp_path):
    import hashlib
    import io

    write_checkpoint(tmp_path / "a.ckpt", content_with({"x": torch.ones(2)}))
    content = (tmp_path / "a.ckpt").read_bytes()
    payload = content[48:]
    assert content[:8] == b"FWCKPT01"
    assert content[8:40] == hashlib.sha256(payload).digest()
    assert int.from_bytes(content[40:48], "little") == len(payload)
    assert torch.load(io.BytesIO(payload), weights_only=True)["iteration"] == 3  # D14: no code is executed to read it


def test_state_that_would_need_code_to_load_is_refused_with_its_place(tmp_path):
    class Opaque:
        pass

    with pytest.raises(
        ContractError, match=r"state vessel\.agent\[1\] must be plain data, a tensor or an array, was .*Opaque: store its fields"
    ):
        write_checkpoint(tmp_path / "a.ckpt", content_with({"agent": [1, Opaque()]}))
    with pytest.raises(ContractError, match=r"array vessel\.names must hold numbers or booleans, was <U1"):
        write_checkpoint(tmp_path / "a.ckpt", content_with({"names": np.array(["a"])}))
    with pytest.raises(ContractError, match=r"keys of state vessel must be str or int"):
        write_checkpoint(tmp_path / "a.ckpt", content_with({(1, 2): 3}))
    with pytest.raises(ContractError, match="lacked loggers"):
        write_checkpoint(tmp_path / "a.ckpt", {key: value for key, value in content_with({}).items() if key != "loggers"})
    assert list(tmp_path.iterdir()) == []


def test_a_pickle_that_would_execute_code_is_refused(tmp_path):
    import hashlib
    import io

    class Evil:
        def __reduce__(self):
            return (pytest.fail, ("code was executed",))

    stream = io.BytesIO()
    torch.save({"x": Evil()}, stream)
    payload = stream.getvalue()
    header = b"FWCKPT01" + hashlib.sha256(payload).digest() + len(payload).to_bytes(8, "little")
    (tmp_path / "a.ckpt").write_bytes(header + payload)
    with pytest.raises(CheckpointError, match="must hold plain data and tensors only"):
        read_checkpoint(tmp_path / "a.ckpt")


def test_damage_at_any_byte_is_noticed(tmp_path):
    path = tmp_path / "a.ckpt"
    write_checkpoint(path, content_with({"x": torch.arange(4.0)}))
    whole = path.read_bytes()
    for position in [0, 7, 8, 39, 40, 47, 48, len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        with pytest.raises(CheckpointError):
            read_checkpoint(path)
    for length in [0, 5, 20, 47, 48, len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError):
            read_checkpoint(path)
    path.write_bytes(whole + b"x")
    with pytest.raises(CheckpointError, match=r"half-written|damaged"):
        read_checkpoint(path)


def test_other_versions_and_other_files_are_refused_with_the_remedy(tmp_path):
    write_checkpoint(tmp_path / "newer.ckpt", content_with({}, format_version=FORMAT_VERSION + 1))
    with pytest.raises(CheckpointError, match=r"format version of .*newer.ckpt must be 3, was 4: read it with the version"):
        read_checkpoint(tmp_path / "newer.ckpt")
    (tmp_path / "form.ckpt").write_bytes(b"FWCKPT99" + bytes(60))
    with pytest.raises(CheckpointError, match="another version wrote it"):
        read_checkpoint(tmp_path / "form.ckpt")
    (tmp_path / "other.ckpt").write_bytes(pickle.dumps({}))
    with pytest.raises(CheckpointError, match="another kind of file"):
        read_checkpoint(tmp_path / "other.ckpt")
    with pytest.raises(CheckpointError, match="must be readable, was not: No such file"):
        read_checkpoint(tmp_path / "missing.ckpt")


def test_damaged_newest_is_reported_and_the_one_before_it_is_used(tmp_path, caplog):
    assert latest_valid_checkpoint(tmp_path / "nowhere") is None
    assert latest_valid_checkpoint(tmp_path) is None
    for iteration in (2, 9, 10):
        write_checkpoint(tmp_path / checkpoint_name(iteration), content_with({}, iteration=iteration))
    (tmp_path / "iteration_000011.ckpt").write_bytes((tmp_path / checkpoint_name(10)).read_bytes()[:-10])
    (tmp_path / ".iteration_000012.ckpt.abcd").write_bytes(b"left by a kill")
    with caplog.at_level(logging.WARNING):
        assert latest_valid_checkpoint(tmp_path) == tmp_path / checkpoint_name(10)
    assert "iteration_000011.ckpt" in caplog.text and "half-written" in caplog.text
    assert [path.name for path in checkpoints_in(tmp_path)] == [checkpoint_name(i) for i in (11, 10, 9, 2)]


def test_writing_over_an_existing_checkpoint_replaces_it_whole(tmp_path):
    for iteration in (1, 2):
        write_checkpoint(tmp_path / "a.ckpt", content_with({}, iteration=iteration))
    assert read_checkpoint(tmp_path / "a.ckpt")["iteration"] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["a.ckpt"]


def test_another_config_is_refused_with_every_differing_key(tmp_path):
    stored = {
        "data": {"train_seeds": "aa"},
        "training": {"agent": {"learning_rate": 0.1, "sizes": (64, 64)}, "gone": 1},
        "code": "x",
    }
    same = {
        "data": {"train_seeds": "aa"},
        "training": {"agent": {"learning_rate": 0.1, "sizes": [64, 64]}, "gone": 1},
        "code": "y",
    }
    refuse_other_config(stored, same, tmp_path)  # code may change: it only makes the continuation inexact
    other = {"data": {"train_seeds": "bb"}, "training": {"agent": {"learning_rate": 0.2, "sizes": [64, 64]}, "new": 2}}
    with pytest.raises(CheckpointError) as caught:
        refuse_other_config(stored, other, tmp_path)
    for part in (
        "data.train_seeds: 'aa' there, 'bb' here",
        "training.agent.learning_rate: 0.1 there, 0.2 here",
        "training.gone: 1 there, '(absent)' here",
        "training.new: '(absent)' there, 2 here",
    ):
        assert part in str(caught.value)
    assert "sizes" not in str(caught.value)


def test_flattened_keys_are_dotted():
    assert flattened({"a": {"b": {"c": 1}, "d": {}}, "e": (1, 2)}) == {"a.b.c": 1, "a.d": {}, "e": [1, 2]}


def file_of(path, payload):
    import hashlib

    path.write_bytes(b"FWCKPT01" + hashlib.sha256(payload).digest() + len(payload).to_bytes(8, "little") + payload)
    return path


@pytest.mark.parametrize(
    "content",
    [
        [1, 2],
        torch.ones(2),
        {"format_version": FORMAT_VERSION},
        {**content_with({}), "iteration": "3"},
        {**content_with({}), "vessel": None},
    ],
)
def test_other_content_under_a_true_checksum_is_refused(tmp_path, content):
    import io

    stream = io.BytesIO()
    torch.save(content, stream)
    with pytest.raises(CheckpointError, match=r"content of .*a\.ckpt must be .* no training wrote it"):
        read_checkpoint(file_of(tmp_path / "a.ckpt", stream.getvalue()))


@pytest.mark.parametrize("payload", [b"", b"no torch", b"PK\x03\x04 no zip either"])
def test_bytes_that_torch_did_not_write_are_refused(tmp_path, payload):
    with pytest.raises(CheckpointError, match=r"a\.ckpt must"):
        read_checkpoint(file_of(tmp_path / "a.ckpt", payload))
