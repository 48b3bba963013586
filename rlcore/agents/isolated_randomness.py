"""Code that draws from global generators, walled in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from rlcore.foundation.random_streams import key_seed


@contextmanager
def isolated_randomness(root: int, update_number: int | str) -> Iterator[None]:
    """Seed NumPy's and torch's global generators from a key, and put them back as they were.

    tianshou shuffles with the one and torch initialises parameters and drops units with the other: inside, what they draw
    depends on the key alone; outside, nobody notices.

    Args:
        root: root of the run's randomness.
        update_number: which update of the run this is, or the name of other work ("initialisation").
    """
    seed = key_seed(root, "update", update_number)
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]  # torch
    numpy_state = np.random.get_state()  # noqa: NPY002  # the generator that tianshou uses
    try:
        with torch.random.fork_rng(devices=devices):
            np.random.seed(seed % 2**32)  # noqa: NPY002
            torch.default_generator.manual_seed(seed)
            for device in devices:
                torch.cuda.default_generators[device].manual_seed(seed)
            yield
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
