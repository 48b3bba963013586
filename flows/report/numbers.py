"""How numbers read in the report."""

from __future__ import annotations

import math

UNKNOWN = "–"


def bps(value: float, digits: int = 2) -> str:
    """Return basis points with a sign: ``+1.20``, ``−0.35``, ``0.00``."""
    if not math.isfinite(value):
        return UNKNOWN
    rounded = round(value, digits)
    sign = "+" if rounded > 0 else "−" if rounded < 0 else ""
    return f"{sign}{abs(rounded):,.{digits}f}"


def plain(value: float, digits: int = 2) -> str:
    """Return a number without a sign for what is above zero."""
    if not math.isfinite(value):
        return UNKNOWN
    rounded = round(value, digits) + 0.0  # −0.0 + 0.0 is 0.0
    return f"{rounded:,.{digits}f}".replace("-", "−")


def percent(value: float, digits: int = 1) -> str:
    """Return a share as a percentage."""
    return UNKNOWN if not math.isfinite(value) else f"{plain(100.0 * value, digits)} %"


def count(value: float) -> str:
    """Return a number of things; means over training seeds may have a fraction."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def things(number: int, name: str) -> str:
    """Return ``1 day``, ``12 days``."""
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def interval(low: float, high: float) -> str:
    """Return ``+0.10 to +0.60``."""
    return UNKNOWN if not (math.isfinite(low) and math.isfinite(high)) else f"{bps(low)} to {bps(high)}"


def listed(names: list[str]) -> str:
    """Return ``a``, ``a and b``, ``a, b and c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
