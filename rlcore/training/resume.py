"""May this checkpoint continue this training, and will it continue to the bit?"""

from __future__ import annotations

import logging
import platform
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

import torch

import rlcore
from rlcore.foundation.errors import CheckpointError, ConfigError
from rlcore.foundation.fingerprints import fingerprint_sources

_PINS = ("torch", "numpy", "tianshou", "gymnasium")
_REFUSED_CLASSES = ("data", "training")

logger = logging.getLogger(__name__)


@cache
def code_fingerprint() -> str:
    """Return the fingerprint of the library's own source."""
    return fingerprint_sources(Path(str(rlcore.__file__)).parent)


def library_versions(state: Any) -> dict[str, str]:
    """Return what the last bits of a training depend on besides its config: versions, processor, threads, devices."""
    return {
        "python": platform.python_version(),
        **{name: _version(name) for name in _PINS},
        "machine": platform.machine(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "num_threads": str(torch.get_num_threads()),
        "devices": " ".join(sorted(set(_devices(state)))) or "cpu",
    }


def refuse_other_config(stored: Mapping[str, Any], current: Mapping[str, Any], path: Path) -> None:
    """Hold a checkpoint to the data and training fields of the training that wants to continue it.

    Raises:
        CheckpointError: naming every differing key with both values.
    """
    differences = [
        line
        for field_class in _REFUSED_CLASSES
        for line in _differing(stored.get(field_class, {}), current.get(field_class, {}), field_class)
    ]
    if differences:
        raise CheckpointError(
            f"checkpoint {path} must be of the same data and training fields, differs in {'; '.join(differences)}: "
            "continue with the fields it was made with, or begin a new training in another folder"
        )


def warn_if_inexact(content: Mapping[str, Any], config: Mapping[str, Any], versions: Mapping[str, str], path: Path) -> bool:
    """Return whether a continuation will have the bits of a training that was never interrupted; warn with the reasons if not."""
    reasons = _differing(content["library_versions"], versions, "")
    reasons += _differing({"code": content["config"].get("code")}, {"code": config.get("code")}, "")
    if reasons:
        logger.warning("continuing from %s is not exact to the bit: %s", path, "; ".join(reasons))
    return not reasons


class Restorable(Protocol):
    """What a checkpoint keeps by name: a callback or a logger."""

    name: str

    def reset(self) -> None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any]) -> None: ...


def refuse_equal_names(names: Sequence[str], what: str) -> None:
    """Hold parts to distinct names, by which a checkpoint keeps their state.

    Raises:
        ConfigError: naming the first that stands twice.
    """
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ConfigError(
            f"names of {what} must differ, {twice[0]!r} stands {names.count(twice[0])} times: give each name=… of its own"
        )


def restore_by_name(parts: Sequence[Restorable], states: Mapping[str, dict[str, Any]], what: str) -> None:
    """Give every part its state back. Parts may have come or gone since: what is new begins anew, and either is said."""
    for part in parts:
        if part.name in states:
            part.load_state_dict(states[part.name])
        elif part.state_dict():
            logger.warning("%s %r is not in the checkpoint: it begins anew", what, part.name)
    for name in sorted(states.keys() - {part.name for part in parts}):
        logger.warning("the checkpoint's %s %r takes no part any more: its state is dropped", what, name)


def flattened(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested plain data as one level with dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        dotted = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(value, Mapping) and value:
            flat |= flattened(value, dotted)
        else:
            flat[dotted] = list(value) if isinstance(value, tuple) else value
    return flat


def _differing(stored: Mapping[str, Any], current: Mapping[str, Any], prefix: str) -> list[str]:
    before, now = flattened(stored, prefix), flattened(current, prefix)
    absent = "(absent)"
    return [
        f"{key}: {before.get(key, absent)!r} there, {now.get(key, absent)!r} here"
        for key in sorted(before.keys() | now.keys())
        if before.get(key, absent) != now.get(key, absent)
    ]


def _devices(state: Any) -> Iterator[str]:
    if isinstance(state, torch.Tensor):
        yield state.device.type
    elif isinstance(state, Mapping):
        for child in state.values():
            yield from _devices(child)
    elif isinstance(state, list | tuple):
        for child in state:
            yield from _devices(child)


@cache
def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"
