"""Identity by content of any Python object: of whatever people make initial states of."""

from __future__ import annotations

import datetime
import enum
import hashlib
import re
import struct
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property
from pathlib import PurePath
from types import FunctionType
from typing import Any

import numpy as np

from rlcore.foundation.fingerprints import fingerprint_arrays

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{4,}")


class ContentReader:
    """Digests objects by what they hold, to the bit and alike in every process.

    Numbers, texts, arrays and tables are read as they are; dicts, lists, tuples, sets and objects with attributes by what they
    hold. What shows nothing of itself (no attributes, no ``repr`` of its own) counts by its type alone: ``unreadable`` has
    the names of such types.
    """

    def __init__(self) -> None:
        self.unreadable: set[str] = set()
        # By identity, so that what many states share is read once. The object is kept: another may not take its place.
        self._known: dict[int, tuple[Any, bytes]] = {}

    def fingerprint(self, values: Iterable[Any]) -> str:
        """Return the fingerprint of values in their order."""
        return self._joined("values", (self._digest(value) for value in values)).hex()[:16]

    def _digest(self, value: Any) -> bytes:
        text = _text_of(value)
        if text is not None:
            return text
        if id(value) not in self._known:
            self._known[id(value)] = value, b"within itself"  # what is found there on the way round a circle
            self._known[id(value)] = value, self._digest_of_parts(value)
        return self._known[id(value)][1]

    def _digest_of_parts(self, value: Any) -> bytes:
        kind = type(value).__qualname__
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            return fingerprint_arrays({kind: value}).encode()
        if isinstance(value, np.ndarray):
            return self._joined(f"{kind}{value.shape}", map(self._digest, value.ravel().tolist()))
        if hasattr(value, "iloc"):  # a table's columns one by one: together they may be rounded to a common type
            columns = [value.iloc[:, at].array for at in range(value.shape[1])] if value.ndim == 2 else [value.array]
            return self._joined(kind, map(self._digest, [value.axes, *columns]))
        if hasattr(type(value), "__array__"):
            return self._digest_of_array_like(value, kind)
        if isinstance(value, Mapping):
            return self._joined(kind, sorted(self._digest(key) + self._digest(part) for key, part in value.items()))
        if isinstance(value, set | frozenset):
            return self._joined(kind, sorted(map(self._digest, value)))
        if isinstance(value, list | tuple | deque):
            return self._joined(kind, map(self._digest, value))
        if isinstance(value, datetime.datetime):
            return self._joined(kind, [value.isoformat().encode(), self._digest(value.tzinfo)])
        return self._digest_of_object(value, kind)

    def _digest_of_array_like(self, value: Any, kind: str) -> bytes:
        try:
            return self._joined(kind, [self._digest(np.asarray(value))])
        except Exception:  # a foreign library's: a tensor on another device, say
            return self._by_type_alone(kind)

    def _digest_of_object(self, value: Any, kind: str) -> bytes:
        if isinstance(value, type):
            return f"class {value.__qualname__}".encode()
        if isinstance(value, FunctionType):
            name = value.__qualname__
            return f"function {name}".encode() if "<" not in name else self._by_type_alone(f"function {name}")
        attributes = _attributes(value)
        if attributes:
            return self._joined(kind, (self._digest(part) for item in sorted(attributes.items()) for part in item))
        shown = repr(value)
        if _ADDRESS.search(shown):  # that of object, too, shows an address and nothing else
            return self._by_type_alone(kind)
        return f"{kind} {shown}".encode("utf-8", "surrogatepass")

    def _by_type_alone(self, kind: str) -> bytes:
        self.unreadable.add(kind)
        return kind.encode()

    @staticmethod
    def _joined(kind: str, parts: Iterable[bytes]) -> bytes:
        digest = hashlib.sha256(kind.encode())
        for part in parts:
            digest.update(struct.pack("<q", len(part)))  # where one ends and the next begins
            digest.update(part)
        return digest.digest()


def _text_of(value: Any) -> bytes | None:
    """Return what stands for a value without parts; None for all others."""
    kind = type(value)
    if kind is float:
        return b"f" + struct.pack("<d", value)
    if kind in (int, bool, str, type(None), complex, range):
        return f"{kind.__name__} {value!r}".encode("utf-8", "surrogatepass")
    if kind in (bytes, bytearray):
        return b"b" + bytes(value)
    if isinstance(value, np.generic) and not isinstance(value, np.object_):
        return f"{value.dtype.str} ".encode() + value.tobytes()
    if isinstance(value, enum.Enum):
        return f"{kind.__qualname__}.{value.name}".encode()
    if isinstance(value, PurePath):
        return f"path {value.as_posix()}".encode("utf-8", "surrogatepass")
    return None


def _attributes(value: Any) -> dict[str, Any]:
    """Return an object's attributes, in whatever form its class keeps them; what it only remembers is left out."""
    kind = type(value)
    if is_dataclass(value):
        names = [field.name for field in fields(value)]
    else:
        slots = [getattr(base, "__slots__", ()) for base in kind.__mro__]
        names = [name for some in slots for name in ([some] if isinstance(some, str) else some)]
    found = {name: getattr(value, name) for name in names if name not in ("__dict__", "__weakref__") and hasattr(value, name)}
    found |= getattr(value, "__dict__", {})
    return {name: part for name, part in found.items() if not isinstance(getattr(kind, name, None), cached_property)}
