"""Where a training's episodes run: in this process, or in worker processes that compute as this one does."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch

from rlcore.environment.backends import EpisodeBackend, build_backend
from rlcore.environment.worker_recovery import OnWorkerDeath

FiniteEnvType = Literal["inline", "dummy", "subproc", "shmem"]


def backend_like_here(
    kind: FiniteEnvType,
    concurrency: int,
    worker_setup: Callable[[], None] | None = None,
    *,
    on_worker_death: OnWorkerDeath = "fail",
    chunk_deadline_seconds: float = 600.0,
) -> EpisodeBackend:
    """Return a backend whose workers compute with as many threads as this process.

    Matrix products differ in the last bits between thread counts.
    """
    return build_backend(
        kind,
        concurrency,
        worker_setup=partial(_set_up_worker, torch.get_num_threads(), worker_setup),
        on_worker_death=on_worker_death,
        chunk_deadline_seconds=chunk_deadline_seconds,
    )


def _set_up_worker(num_threads: int, further: Callable[[], None] | None) -> None:
    torch.set_num_threads(num_threads)
    if further is not None:
        further()
