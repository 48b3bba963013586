"""What checking a law gives, and the bit-for-bit comparison that the laws speak of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.seeds import SeedSet
from rlcore.foundation.errors import ContractError


class LawError(ContractError):
    """A part breaks one of the laws of the environment."""


@dataclass(frozen=True, slots=True)
class LawResult:
    """The verdict on one law. ``detail``: how much was tried, or what is wrong, or what was lacking for a check."""

    law: str
    verdict: Literal["holds", "violated", "not checked"]
    detail: str

    def __str__(self) -> str:
        return f"{self.law}: {self.verdict} ({self.detail})"


@dataclass(frozen=True, slots=True)
class ConformanceReport:
    """The verdicts on all laws."""

    results: tuple[LawResult, ...]

    @property
    def violations(self) -> tuple[LawResult, ...]:
        return tuple(result for result in self.results if result.verdict == "violated")

    def raise_if_violated(self) -> None:
        """Raise a ``LawError`` that lists every violated law."""
        if self.violations:
            raise LawError("; ".join(map(str, self.violations)))

    def __str__(self) -> str:
        return "\n".join(map(str, self.results))


def difference(one: Any, other: Any, path: str = "") -> str | None:
    """Return where two trees of arrays first differ in their bits, and how, or None. NaN equals NaN; objects pass."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return _array_difference(one, other, path)
    if type(one) is not type(other):
        return f"{path} was {type(one).__name__} and {type(other).__name__}"
    if isinstance(one, dict):
        if one.keys() != other.keys():
            return f"{path} had keys {sorted(one)} and {sorted(other)}"
        pairs = [(f"{path}[{key!r}]", one[key], other[key]) for key in one]
    elif isinstance(one, tuple):
        if len(one) != len(other):
            return f"{path} had {len(one)} and {len(other)} elements"
        pairs = [(f"{path}[{i}]", a, b) for i, (a, b) in enumerate(zip(one, other, strict=True))]
    elif is_dataclass(one):
        pairs = [(f"{path}.{f.name}".lstrip("."), getattr(one, f.name), getattr(other, f.name)) for f in fields(one)]
    else:
        return None
    return next((found for at, a, b in pairs if (found := difference(a, b, at)) is not None), None)


def _array_difference(one: NDArray[Any], other: NDArray[Any], path: str) -> str | None:
    if one.dtype != other.dtype or one.shape != other.shape:
        return f"{path} was {one.dtype}{list(one.shape)} and {other.dtype}{list(other.shape)}"
    if one.dtype == object:
        return None
    is_same = one == other
    if one.dtype.kind == "f":
        is_same = (is_same & (np.signbit(one) == np.signbit(other))) | (np.isnan(one) & np.isnan(other))
    if is_same.all():
        return None
    at = tuple(int(i) for i in np.argwhere(~is_same)[0])
    return f"{path}{list(at)} was {one[at]} and {other[at]}"


def some_seeds(seeds: SeedSet[Any], seed_ids: Sequence[int] | NDArray[np.int64] | None, at_most: int = 12) -> NDArray[np.int64]:
    """Return the seeds to try: those given, or at most so many, spread over the whole set."""
    if seed_ids is not None:
        return np.asarray(seed_ids, np.int64)
    if len(seeds) == 0:
        raise ContractError("a seed set to check must hold at least 1 seed, held 0")
    return np.unique(np.linspace(0, len(seeds) - 1, min(at_most, len(seeds))).round().astype(np.int64))
