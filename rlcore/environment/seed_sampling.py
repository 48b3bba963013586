"""Which seed is used next, as a pure function of the position: endless passes, each in an order of its own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rlcore.foundation.errors import ConfigError
from rlcore.foundation.random_streams import hash_key


def training_draw(
    root: int, num_seeds: int, first_position: int, count: int, stride: int = 1
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the seeds at positions ``first_position, first_position + stride, …`` (``count`` of them) of an endless sequence.

    Every pass over the seeds uses each of them once, shuffled by (root, number of the pass). Whoever knows the position knows the
    seed: nothing has to be stored to resume, and no worker can draw out of turn.

    Returns:
        seed_id and visit (the number of the pass), each (count,).
    """
    if num_seeds < 1:
        raise ConfigError(f"a seed set to draw from must hold at least 1 seed, held {num_seeds}")
    if first_position < 0 or count < 0:
        raise ConfigError(f"first_position and count must be at least 0, were {first_position} and {count}")
    visit, place = np.divmod(first_position + stride * np.arange(count), num_seeds)
    seed_id = np.empty(count, np.int64)
    # Visits rise, so that each pass has one slice; passes that a long stride leaps over have none.
    start = 0
    while start < count:
        stop = int(np.searchsorted(visit, visit[start], side="right"))
        seed_id[start:stop] = _pass_order(root, num_seeds, int(visit[start]))[place[start:stop]]
        start = stop
    return seed_id, visit


@dataclass(frozen=True, slots=True)
class InterleavedDraw:
    """The share of one of several groups in the endless sequence: positions ``group``, ``group + num_groups``, …

    Together the groups draw the sequence that one alone would. Picklable, so that worker processes can draw.
    """

    root: int
    num_seeds: int
    group: int
    num_groups: int

    def __call__(self, first_position: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return seed_id and visit at the group's own positions ``first_position … first_position + count - 1``."""
        first = self.group + self.num_groups * first_position
        return training_draw(self.root, self.num_seeds, first, count, self.num_groups)


def finite_passes(
    num_seeds: int, repeats: int = 1, *, order: Literal["in_order", "shuffled"] = "in_order", root: int = 0
) -> NDArray[np.int64]:
    """Return seed ids of ``repeats`` whole passes, for ``evaluate(…, seed_ids=…)``: every seed exactly so often.

    A seed's repetitions are visits of their own, with other random numbers each.

    Args:
        order: "in_order": every pass 0 … num_seeds - 1; "shuffled": each in an order of its own (``training_draw``'s).

    Returns:
        (repeats * num_seeds,)
    """
    if repeats < 1:
        raise ConfigError(f"repeats must be at least 1, was {repeats}")
    if order not in ("in_order", "shuffled"):
        raise ConfigError(f"order must be in_order or shuffled, was {order!r}")
    if order == "in_order":
        return np.tile(np.arange(num_seeds), repeats)
    return training_draw(root, num_seeds, 0, repeats * num_seeds)[0]


@lru_cache(maxsize=8)  # EnvWrapper draws one seed at a time
def _pass_order(root: int, num_seeds: int, number: int) -> NDArray[np.int64]:
    order = np.argsort(hash_key(root, "seed order", number, np.arange(num_seeds)), kind="stable")
    order.flags.writeable = False
    return order
