"""Whole numbers that users hand in: NumPy's count as well as Python's; nothing is rounded, and True is no 1."""

from __future__ import annotations

import operator
from typing import Any

from rlcore.foundation.errors import ConfigError


def require_whole_number(name: str, value: Any, first: int | None = 1, last: int | None = None) -> int:
    """Return the value as an int.

    Args:
        name: of the argument, for the message.
        first: the least that it may be; None: no limit.
        last: the most; None: no limit.

    Raises:
        ConfigError: for what is no whole number, or lies outside.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    is_whole = number is not None and not isinstance(value, bool)
    if last is not None:
        rule = f"a whole number from {first} to {last}"
    elif is_whole or first is None:
        rule = "a whole number" if first is None else f"{first} or more"
    else:
        rule = f"a whole number of {first} or more"
    is_inside = number is not None and (first is None or number >= first) and (last is None or number <= last)
    if number is None or not is_whole or not is_inside:
        raise ConfigError(f"{name} must be {rule}, was {value!r}")
    return number


def require_whole_number_or_none(name: str, value: Any, first: int = 1) -> int | None:
    """Return the same, or None for None."""
    return None if value is None else require_whole_number(name, value, first)
