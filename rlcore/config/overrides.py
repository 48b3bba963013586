"""``--set KEY=VALUE``: any key of an experiment, dotted, with a value in YAML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlcore.config.yaml_files import KeyPath, parse_yaml
from rlcore.foundation.errors import ConfigError


class CommandLineText(str):
    """Text that was given on the command line, where relative paths start at the working directory."""

    __slots__ = ()


def apply_overrides(data: dict[str, Any], overrides: Sequence[str]) -> tuple[dict[str, Any], dict[KeyPath, str]]:
    """Return the data with every ``KEY=VALUE`` set, in order, and what was given for each key path.

    Keys that nobody knows are let in here and refused with everything else that does not fit.

    Raises:
        ConfigError: for text without ``=``, a value that is no YAML, or a key below something that holds no keys.
    """
    changed = _unshared(data)
    given: dict[KeyPath, str] = {}
    for text in overrides:
        key, equals, value_text = text.partition("=")
        names = [name.strip() for name in key.split(".")]
        if not equals or not all(names):
            raise ConfigError(f"--set must be given KEY=VALUE (for example training.iterations=20), was {text!r}")
        value = _mark(parse_yaml(value_text, f"--set {key}"))
        given[_set(changed, names, value, text)] = text
    return changed, given


def _set(data: dict[str, Any], names: list[str], value: Any, text: str) -> KeyPath:
    at: Any = data
    path: list[str | int] = []
    for depth, name in enumerate(names):
        is_last = depth == len(names) - 1
        step = _step(at, name, text)
        path.append(step)
        if is_last:
            at[step] = value
        elif isinstance(at, dict) and at.get(step) is None:
            at[step] = {}
        at = at[step]
    return tuple(path)


def _step(at: Any, name: str, text: str) -> str | int:
    """Return the key or index that ``name`` means in ``at``."""
    if isinstance(at, dict):
        return name
    if isinstance(at, list):
        if name.isdecimal() and int(name) < len(at):
            return int(name)
        raise ConfigError(f"--set {text}: {name!r} must be the position of an entry, 0 … {len(at) - 1}")
    raise ConfigError(f"--set {text}: {name!r} must lie below a key that holds keys, there stands {at!r}")


def _unshared(value: Any) -> Any:
    """Return a copy in which what YAML's anchors share stands apart, so that setting one leaves the other."""
    if isinstance(value, dict):
        return {key: _unshared(entry) for key, entry in value.items()}
    return [_unshared(entry) for entry in value] if isinstance(value, list) else value


def _mark(value: Any) -> Any:
    if isinstance(value, str):
        return CommandLineText(value)
    if isinstance(value, list):
        return [_mark(entry) for entry in value]
    if isinstance(value, dict):
        return {key: _mark(entry) for key, entry in value.items()}
    return value
