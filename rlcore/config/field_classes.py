"""Every field of an experiment belongs to a class, which says whose result it changes.

======== ==========================================================================================
data     what is traded: the market, the orders, the splits
training what the agent becomes: execution, observation, action, reward, agent, how it is trained
budget   how long it is trained and which of its states is chosen; may change at a resume
evaluation how it is judged, once trained
runtime  how and where it runs; changes no result
======== ==========================================================================================

A field says its class itself (``field_class``), or takes that of the section around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from rlcore.foundation.errors import DataError
from rlcore.foundation.fingerprints import fingerprint_file, fingerprint_of

FieldClass = Literal["data", "training", "budget", "evaluation", "runtime"]
FIELD_CLASSES: tuple[FieldClass, ...] = get_args(FieldClass)


def field_class(name: FieldClass) -> dict[str, Any]:
    """Return what a field carries in ``json_schema_extra`` to say its class."""
    return {"field_class": name}


@dataclass(frozen=True, slots=True)
class Leaf:
    """One value of an experiment."""

    key: str  # dotted
    field_class: FieldClass
    value: Any


def leaves(spec: BaseModel, inherited: FieldClass | None = None, prefix: str = "") -> Iterator[Leaf]:
    """Yield every value below a spec.

    Raises:
        TypeError: for a field that has no class (a mistake in a spec, found by the tests).
    """
    for name, info in type(spec).model_fields.items():
        own = _own_class(info) or inherited
        if own is None:
            raise TypeError(f"{type(spec).__name__}.{name} must have a field class, had none")
        yield from _leaves_of(getattr(spec, name), own, f"{prefix}{name}")


def _leaves_of(value: Any, own: FieldClass, key: str) -> Iterator[Leaf]:
    if isinstance(value, BaseModel):
        yield from leaves(value, own, f"{key}.")
    elif isinstance(value, Mapping) and any(isinstance(entry, BaseModel) for entry in value.values()):
        for name, entry in value.items():
            yield from _leaves_of(entry, own, f"{key}.{name}")
    else:
        yield Leaf(key, own, value)


def plain_fields(spec: BaseModel, *classes: FieldClass) -> dict[str, Any]:
    """Return dotted key → plain value of the fields of these classes. A path stands by the content it leads to."""
    wanted = classes or FIELD_CLASSES
    return {leaf.key: _identity(leaf.value) for leaf in leaves(spec) if leaf.field_class in wanted}


def digest(spec: BaseModel, *classes: FieldClass) -> str:
    """Return the fingerprint of the fields of these classes: equal exactly where all of them are."""
    return fingerprint_of(plain_fields(spec, *classes))


def _own_class(info: FieldInfo) -> FieldClass | None:
    extra = info.json_schema_extra
    return extra.get("field_class") if isinstance(extra, dict) else None  # type: ignore[return-value]  # written by field_class()


def _identity(value: Any) -> Any:
    if isinstance(value, Path):
        return _content(value)
    if isinstance(value, (list, tuple)):
        return [_identity(entry) for entry in value]
    if isinstance(value, Mapping):
        return {str(key): _identity(entry) for key, entry in value.items()}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)  # dates, times


def _content(path: Path) -> str:
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    try:
        return fingerprint_of([[file.name, _of_file(file, file.stat().st_size, file.stat().st_mtime_ns)] for file in files])
    except OSError as error:
        raise DataError(f"{path}: must be a file that can be read: {error.strerror or error}") from error


@lru_cache(maxsize=1024)
def _of_file(path: Path, size: int, modified_ns: int) -> str:
    # Every key of a run asks again; bars can be gigabytes.
    return fingerprint_file(path)
