"""One tree of exceptions. Messages read ``<what> must be <rule>, was <value>`` and say where and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class FillwrightError(Exception):
    """Every error that Fillwright raises on purpose."""


class InputError(FillwrightError):
    """What the user gave is wrong: a command ends with exit code 2 and this message."""


class ConfigError(InputError):
    """A value in an experiment file, or an argument of a constructor, breaks its rule."""


class DataError(InputError):
    """Market data or orders break the schema; names file, row and column."""


class SpaceError(FillwrightError):
    """An observation or an action lies outside its declared space."""


class ContractError(FillwrightError):
    """A part breaks its contract (shape, order of calls, a frozen lane that moved)."""


class CheckpointError(InputError):
    """A checkpoint is damaged, of another version, or of another experiment."""


class EvaluationError(FillwrightError):
    """An evaluation has failed rows and the caller did not allow them."""


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Return ``" (did you mean 'x'?)"`` for the nearest known name, or an empty string."""
    matches = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {matches[0]!r}?)" if matches else ""
