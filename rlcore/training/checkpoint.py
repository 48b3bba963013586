"""One file with everything that a continued training needs: whole or not at all, checksummed, loaded without executing code.

Form of the file: magic (8 bytes), SHA-256 of the payload (32), length of the payload (8, little endian), payload. The payload
is what ``torch.save`` writes of one dict of plain data and tensors; NumPy arrays travel as tensors, because ``weights_only``
refuses them.
"""

from __future__ import annotations

import hashlib
import io
import logging
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rlcore.foundation.atomic_files import write_atomically
from rlcore.foundation.errors import CheckpointError, ContractError

FORMAT_VERSION = 3
TOP_KEYS = ("format_version", "config", "iteration", "vessel", "trainer", "callbacks", "loggers", "library_versions")
_KINDS = dict.fromkeys(TOP_KEYS, dict) | {"format_version": int, "iteration": int}

_MAGIC = b"FWCKPT01"
_MAGIC_FAMILY = _MAGIC[:6]
_HEADER_LENGTH = len(_MAGIC) + 32 + 8
_ARRAY, _SCALAR = "__numpy_array__", "__numpy_scalar__"
_FILE_NAME = re.compile(r"iteration_(\d+)(-.*)?\.ckpt")

logger = logging.getLogger(__name__)


def checkpoint_name(iteration: int) -> str:
    """Return the name of the file that holds the state after so many iterations."""
    return f"iteration_{iteration:06d}.ckpt"


def write_checkpoint(path: Path, content: Mapping[str, Any]) -> None:
    """Write a checkpoint so that a kill at any moment leaves the old file or the new one.

    Raises:
        ContractError: for a missing top key, or state that is neither plain data, tensor nor array (its place is named).
    """
    missing = [key for key in TOP_KEYS if key not in content]
    if missing:
        raise ContractError(f"a checkpoint must have the keys {', '.join(TOP_KEYS)}, lacked {', '.join(missing)}")
    stream = io.BytesIO()
    torch.save(_pack(content, ""), stream)
    payload = stream.getbuffer()
    header = _MAGIC + hashlib.sha256(payload).digest() + len(payload).to_bytes(8, "little")
    write_atomically(path, b"".join((header, payload)))


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Return the content; tensors lie on the CPU.

    Raises:
        CheckpointError: for a file that is missing, damaged, half-written or of another version.
    """
    stream = io.BytesIO(_checked_payload(path))
    try:
        content: Any = _unpack(torch.load(stream, map_location="cpu", weights_only=True))
    except pickle.UnpicklingError as error:
        raise CheckpointError(f"checkpoint {path} must hold plain data and tensors only, held more: do not load it") from error
    except Exception as error:  # torch raises this and that for what it did not write
        raise CheckpointError(f"content of {path} must be what a training wrote, could not be read: {error}") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"content of {path} must be a dict, was {type(content).__qualname__}: no training wrote it")
    if content.get("format_version") != FORMAT_VERSION:
        raise CheckpointError(
            f"format version of {path} must be {FORMAT_VERSION}, was {content.get('format_version')!r}: "
            "read it with the version of Fillwright that wrote it"
        )
    wrong = [key for key, kind in _KINDS.items() if not isinstance(content.get(key), kind)]
    if wrong:
        raise CheckpointError(
            f"content of {path} must be what a training wrote, {', '.join(wrong)} was not: no training wrote it"
        )
    return content


def is_same_checkpoint(one: Path, other: Path) -> bool:
    """Whether two files hold the same checkpoint, by the checksums that they state.

    Raises:
        CheckpointError: one cannot be read.
    """
    return _header(one) == _header(other)


def require_storable(state: Any, where: str = "") -> None:
    """Hold state to what a checkpoint can hold.

    Raises:
        ContractError: naming the place of what is neither plain data, tensor nor array.
    """
    _pack(state, where)


def _header(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(_HEADER_LENGTH)
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> CheckpointError:
    return CheckpointError(f"checkpoint {path} must be readable, was not: {error.strerror}")


def latest_valid_checkpoint(folder: Path) -> Path | None:
    """Return the checkpoint with the most iterations that is whole, or None; damaged newer ones are reported and left there."""
    for path in checkpoints_in(folder):
        try:
            _checked_payload(path)
        except CheckpointError as error:
            logger.warning("checkpoint skipped, the one before it is used: %s", error)
        else:
            return path
    return None


def checkpoints_in(folder: Path) -> list[Path]:
    """Return the checkpoints of a folder, the one with the most iterations first, whole or not."""
    found = [path for path in (folder.iterdir() if folder.is_dir() else ()) if _FILE_NAME.fullmatch(path.name)]
    return sorted(found, key=lambda path: (iteration_of(path.name), path.name), reverse=True)


def iteration_of(name: str) -> int:
    """Return the iteration after which a checkpoint was written, by the name of its file."""
    match = _FILE_NAME.fullmatch(name)
    assert match is not None  # asked of names that checkpoints_in or a writer gave
    return int(match[1])


def _checked_payload(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error
    if not content.startswith(_MAGIC):
        if content.startswith(_MAGIC_FAMILY):
            raise CheckpointError(
                f"checkpoint {path} must have the form {_MAGIC.decode()}, was {content[:8]!r}: another version wrote it"
            )
        raise CheckpointError(f"{path} must be a Fillwright checkpoint, was another kind of file, or a damaged one")
    remedy = "use the checkpoint before it (latest_valid_checkpoint finds it)"
    stated = int.from_bytes(content[_HEADER_LENGTH - 8 : _HEADER_LENGTH], "little")
    payload = content[_HEADER_LENGTH:]
    if len(content) < _HEADER_LENGTH or len(payload) != stated:
        raise CheckpointError(f"payload of {path} must be {stated} bytes, was {len(payload)}: half-written; {remedy}")
    if hashlib.sha256(payload).digest() != content[len(_MAGIC) : len(_MAGIC) + 32]:
        raise CheckpointError(f"checksum of {path} must match its header, did not: damaged; {remedy}")
    return payload


def _pack(value: Any, where: str) -> Any:
    """Return the same tree with arrays as tensors; refuses what cannot be loaded without executing code."""
    if value is None or type(value) in (bool, int, float, str, bytes):
        return value
    if isinstance(value, torch.Tensor):
        return value.detach()
    if isinstance(value, np.ndarray):
        return {_ARRAY: _as_tensor(value, where)}
    if isinstance(value, np.generic):
        return {_SCALAR: _as_tensor(np.asarray(value), where)}
    if isinstance(value, Mapping):
        return {_key(key, where): _pack(child, f"{where}.{key}" if where else str(key)) for key, child in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_pack(child, f"{where}[{index}]") for index, child in enumerate(value))
    raise ContractError(
        f"state {where} must be plain data, a tensor or an array, was {type(value).__qualname__}: store its fields"
    )


def _key(key: Any, where: str) -> str | int:
    if type(key) not in (str, int):
        raise ContractError(f"keys of state {where} must be str or int, was {key!r} ({type(key).__qualname__})")
    return key  # type: ignore[no-any-return]  # its type was just compared


def _as_tensor(array: np.ndarray[Any, Any], where: str) -> torch.Tensor:
    try:
        return torch.from_numpy(np.array(array, array.dtype.newbyteorder("="), order="C"))
    except TypeError as error:
        raise ContractError(
            f"array {where} must hold numbers or booleans, was {array.dtype}: store it in another form"
        ) from error


def _unpack(value: Any) -> Any:
    if isinstance(value, dict):
        if value.keys() == {_ARRAY}:
            return value[_ARRAY].numpy()
        if value.keys() == {_SCALAR}:
            return value[_SCALAR].numpy()[()]
        return {key: _unpack(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_unpack(child) for child in value)
    return value
