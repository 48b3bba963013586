"""Where episodes run: in this process, or in worker processes. The result is the same to the bit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.policy import Policy
from rlcore.contracts.seeds import SeedSet
from rlcore.environment.episode_jobs import EpisodeJob, JobResult, merge_results, run_chunk
from rlcore.environment.parts import EnvironmentParts
from rlcore.environment.rollout import Episodes, Passage, Rollout, StepRecorder, keep_transitions
from rlcore.environment.step_jobs import StepJob, run_group
from rlcore.environment.steps import Fragment
from rlcore.environment.worker_jobs import EpisodeWork, StepWork
from rlcore.environment.worker_processes import WorkerProcesses
from rlcore.environment.worker_recovery import OnWorkerDeath
from rlcore.foundation.errors import ConfigError, nearest_name

# QlibRL's names of its vector environments stand for ours.
BACKEND_KINDS = {"inline": "inline", "subproc": "subproc", "dummy": "inline", "shmem": "subproc"}


class EpisodeBackend(ABC):
    """Runs a job's episodes and returns them in the job's order. A context manager: leaving it ends what it started."""

    @abstractmethod
    def run(self, job: EpisodeJob, recorders: Sequence[StepRecorder] = ()) -> JobResult:
        """Run every episode of the job (up to the first that raises, where the job says "stop")."""

    @abstractmethod
    def run_steps(self, job: StepJob) -> list[Fragment]:
        """Take the steps of every group of the job and return the groups' fragments in order (see ``collect_steps``)."""

    @abstractmethod
    def close(self) -> None:
        """End worker processes; the backend may be used again and starts new ones."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class InlineBackend(EpisodeBackend):
    """Runs episodes in this process."""

    def run(self, job: EpisodeJob, recorders: Sequence[StepRecorder] = ()) -> JobResult:
        # Steps wait for the recorders until their chunk has succeeded: short chunks keep what waits small.
        length = job.passage.num_lanes if recorders else max(len(job.seed_id), 1)
        results = []
        for start, stop in cut(len(job.seed_id), length):
            results.append(run_chunk(job, start, stop, recorders))
            if results[-1].failures and job.on_failure == "stop":
                break
        return merge_results(results)

    def run_steps(self, job: StepJob) -> list[Fragment]:
        return [run_group(job, group, len(job.groups), running) for group, running in enumerate(job.groups)]

    def close(self) -> None:
        """There is nothing to end."""


class SubprocBackend(EpisodeBackend):
    """Runs chunks of ``num_lanes`` seeds in worker processes that are started with the first job and kept for the next.

    Parts, policy and seeds are pickled once for each job, so that workers always act with today's parameters. How the chunks
    are cut does not depend on the number of workers.

    Args:
        num_workers: processes at most.
        worker_setup: called once in each new worker, for what is not inherited (thread counts, plugins); importable.
        chunk_deadline_seconds: a worker that needs longer for a chunk is ended and counts as dead.
        on_worker_death: "fail": a worker that dies is an error that names its seeds. "restart": a new worker takes the chunk; a
            chunk that keeps killing is halved until the seed that kills stands alone, and that seed fails as if it had raised.
            Of a step job, the group's fragment starts again.
    """

    def __init__(
        self,
        num_workers: int,
        *,
        worker_setup: Callable[[], None] | None = None,
        chunk_deadline_seconds: float = 600.0,
        on_worker_death: OnWorkerDeath = "fail",
    ) -> None:
        if num_workers < 1:
            raise ConfigError(f"num_workers must be at least 1, was {num_workers}")
        if not chunk_deadline_seconds > 0:
            raise ConfigError(f"chunk_deadline_seconds must be positive, was {chunk_deadline_seconds}")
        if on_worker_death not in get_args(OnWorkerDeath):
            raise ConfigError(f"on_worker_death must be fail or restart, was {on_worker_death!r}")
        self._workers = WorkerProcesses(num_workers, worker_setup, chunk_deadline_seconds, on_worker_death)

    def run(self, job: EpisodeJob, recorders: Sequence[StepRecorder] = ()) -> JobResult:
        if recorders:
            raise ConfigError("recorders must run in this process, were given to worker processes: use InlineBackend")
        if not len(job.seed_id):
            return run_chunk(job, 0, 0)
        return merge_results(self._workers.run(EpisodeWork(job), cut(len(job.seed_id), job.passage.num_lanes)))

    def run_steps(self, job: StepJob) -> list[Fragment]:
        return self._workers.run(StepWork(job), [(group, group + 1) for group in range(len(job.groups))])

    def close(self) -> None:
        self._workers.close()


def build_backend(
    kind: str,
    num_workers: int,
    *,
    worker_setup: Callable[[], None] | None = None,
    chunk_deadline_seconds: float = 600.0,
    on_worker_death: OnWorkerDeath = "fail",
) -> EpisodeBackend:
    """Return a backend by name: "inline" or "subproc", or QlibRL's "dummy" or "shmem" for them."""
    if kind not in BACKEND_KINDS:
        raise ConfigError(f"backend must be one of {', '.join(BACKEND_KINDS)}, was {kind!r}{nearest_name(kind, BACKEND_KINDS)}")
    if BACKEND_KINDS[kind] == "inline":
        return InlineBackend()
    return SubprocBackend(
        num_workers,
        worker_setup=worker_setup,
        chunk_deadline_seconds=chunk_deadline_seconds,
        on_worker_death=on_worker_death,
    )


def collect_episodes(
    backend: EpisodeBackend,
    parts: EnvironmentParts,
    policy: Policy,
    seeds: SeedSet[Any],
    seed_id: NDArray[np.int64],
    visit: NDArray[np.int64],
    passage: Passage,
    keep: Callable[..., Rollout] | None = keep_transitions,
) -> Episodes:
    """Run training episodes on a backend: ``run_episodes``, wherever it happens.

    Raises:
        Exception: whatever the first seed that fails raised, with a note that names the seed.
    """
    result = backend.run(EpisodeJob(parts, policy, seeds, seed_id, visit, passage, "stop", keep))
    for failure in result.failures.values():
        raise failure.exception
    return result.episodes


def cut(total: int, length: int) -> list[tuple[int, int]]:
    """Return (start, stop) of chunks of ``length`` (the last may be shorter); one empty chunk for nothing."""
    return [(start, min(start + length, total)) for start in range(0, total, length)] or [(0, 0)]
