"""Random numbers as a pure function of where they are used, so that nothing depends on who drew first.

A counter hash (SplitMix64 finaliser, Steele, Lea & Flood 2014) over the key (root, phase, seed id, visit, step, purpose).
There is no generator state: any number can be drawn again, in any process, in any order.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.foundation.errors import ConfigError
from rlcore.foundation.whole_numbers import require_whole_number

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_TO_UNIT = 2.0**-53


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * _MIX_1
    x = (x ^ (x >> np.uint64(27))) * _MIX_2
    return x ^ (x >> np.uint64(31))


def _absorb(state: NDArray[np.uint64], word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return _mix(state * _MIX_2 + word + _GOLDEN)


def _word(value: int | str | NDArray[np.integer]) -> NDArray[np.uint64]:
    if isinstance(value, str):
        value = zlib.crc32(value.encode())
    word = np.asarray(value)
    if word.dtype.kind not in "iub":  # 1.7 would be taken for 1, and what has more bits is an object
        raise ConfigError(f"numbers in a key of random numbers must be whole and of 64 bits, was {value!r}")
    return word.astype(np.uint64)


def require_root(name: str, value: Any) -> int:
    """Return a root of randomness as an int.

    Raises:
        ConfigError: for what is no whole number of 64 bits.
    """
    return require_whole_number(name, value, 0, 2**64 - 1)


def hash_key(*key: int | str | NDArray[np.integer]) -> NDArray[np.uint64]:
    """Return 64 well-mixed bits for a key; its parts broadcast against each other."""
    with np.errstate(over="ignore"):
        state = np.zeros((), np.uint64)
        for part in key:
            state = _absorb(state, _word(part))
        return state


def key_seed(*key: int | str) -> int:
    """Return a seed in [0, 2**63) for a library that wants one (NumPy, torch)."""
    return int(hash_key(*key)) >> 1


def key_generator(*key: int | str) -> np.random.Generator:
    """Return a fresh NumPy generator that belongs to this key alone (for set-up work, not for the hot loop)."""
    return np.random.Generator(np.random.PCG64(key_seed(*key)))


@lru_cache(maxsize=64)  # the beginning of every key of a passage
def _stream_start(root: int, phase: str) -> NDArray[np.uint64]:
    return hash_key(root, phase)


@dataclass(frozen=True, slots=True)
class LaneRandomness:
    """The random numbers of one step of every lane.

    ``key`` has shape (lanes,): the hash of (root, phase, seed id, visit, step).
    """

    key: NDArray[np.uint64]

    def uniform(self, purpose: str, size: int = 1) -> NDArray[np.float64]:
        """Return uniforms in [0, 1), shape (lanes, size); the same purpose gives the same numbers."""
        with np.errstate(over="ignore"):
            base = _absorb(self.key, _word(purpose))
            bits = _absorb(base[:, None], _word(np.arange(size)))
        return (bits >> np.uint64(11)).astype(np.float64) * _TO_UNIT


@dataclass(frozen=True, slots=True)
class RandomStreams:
    """The root of all randomness of a run: a whole number from 0 to 2**64 - 1."""

    root: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", require_root("root_seed", self.root))

    def lanes(
        self,
        phase: str,
        seed_id: NDArray[np.int64],
        visit: NDArray[np.int64],
        step: NDArray[np.int64],
    ) -> LaneRandomness:
        """Return the numbers of one step; each argument has shape (lanes,)."""
        state = _stream_start(self.root, phase)
        with np.errstate(over="ignore"):
            for part in (seed_id, visit, step):
                state = _absorb(state, _word(part))
        return LaneRandomness(np.atleast_1d(state))
