"""Which seed is used next, as a pure function of the position: endless passes, each in an order of its own."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rlcore.foundation.errors import ConfigError
from rlcore.foundation.random_streams import hash_key


def training_draw(root: int, num_seeds: int, first_position: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the seeds at positions ``first_position … first_position + count - 1`` of an endless sequence.

    Every pass over the seeds uses each of them once, shuffled by (root, number of the pass). Whoever knows the position knows the
    seed: nothing has to be stored to resume, and no worker can draw out of turn.

    Returns:
        seed_id and visit (the number of the pass), each (count,).
    """
    if num_seeds < 1:
        raise ConfigError(f"a seed set to draw from must hold at least 1 seed, held {num_seeds}")
    if first_position < 0 or count < 0:
        raise ConfigError(f"first_position and count must be at least 0, were {first_position} and {count}")
    seed_id, visit = np.empty(count, np.int64), np.empty(count, np.int64)
    for number in range(first_position // num_seeds, -(-(first_position + count) // num_seeds)):
        order = _pass_order(root, num_seeds, number)
        pass_start = number * num_seeds - first_position  # where this pass starts among the wanted positions
        here = slice(max(pass_start, 0), min(pass_start + num_seeds, count))
        seed_id[here] = order[here.start - pass_start : here.stop - pass_start]
        visit[here] = number
    return seed_id, visit


@lru_cache(maxsize=8)  # EnvWrapper draws one seed at a time
def _pass_order(root: int, num_seeds: int, number: int) -> NDArray[np.int64]:
    order = np.argsort(hash_key(root, "seed order", number, np.arange(num_seeds)), kind="stable")
    order.flags.writeable = False
    return order
