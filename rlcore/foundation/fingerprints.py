"""Identity by content: the same bytes have the same fingerprint, on every machine."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LENGTH = 16


def canonical_json(value: Any) -> str:
    """Return JSON with sorted keys and no spaces; refuses what JSON cannot hold."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def fingerprint_of(value: Any) -> str:
    """Return the fingerprint of plain data (dict, list, str, number, bool, None)."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:_LENGTH]


def fingerprint_arrays(arrays: dict[str, NDArray[Any]]) -> str:
    """Return the fingerprint of named arrays: name, dtype, shape and bytes."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}:{array.dtype.str}:{array.shape}".encode())
        digest.update(array.data.cast("B") if array.size else b"")
    return digest.hexdigest()[:_LENGTH]


def fingerprint_file(path: Path) -> str:
    """Return the fingerprint of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:_LENGTH]


def fingerprint_sources(package_root: Path) -> str:
    """Return the fingerprint of every ``.py`` file below a package: names and contents."""
    files = sorted(p for p in package_root.rglob("*.py"))
    return fingerprint_of({str(p.relative_to(package_root).as_posix()): fingerprint_file(p) for p in files})
