"""What worker processes need to know of a job: how it is cut, what travels, and what a death means for it."""

from __future__ import annotations

import pickle
import traceback
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, Generic, TypeVar

from rlcore.environment.episode_jobs import EpisodeJob, JobResult, failed_result, run_chunk
from rlcore.environment.step_jobs import StepJob, run_group
from rlcore.environment.steps import Fragment, RunningLanes
from rlcore.foundation.errors import EvaluationError

Chunk = tuple[int, int]  # (start, stop) of positions in the job
Result = TypeVar("Result")


class WorkerJob(ABC, Generic[Result]):
    """A job whose positions can be worked at in any order and in any process; chunks of them are handed out."""

    @property
    @abstractmethod
    def shared(self) -> Any:
        """What every worker needs, pickled once."""

    @abstractmethod
    def own(self, chunk: Chunk) -> Any:
        """Return what a chunk needs besides, pickled each time that the chunk is handed out."""

    @staticmethod
    @abstractmethod
    def perform(shared: Any, own: Any) -> Any:
        """Run a chunk; called in the worker. Returns the result."""

    @abstractmethod
    def describe(self, chunk: Chunk) -> str:
        """Return which episodes a chunk holds, for messages."""

    @abstractmethod
    def give_up(self, position: int, how: str) -> Result:
        """Return the result of a position that no worker survives, or raise.

        Args:
            how: what has happened to the workers.
        """

    @abstractmethod
    def is_last(self, result: Result) -> bool:
        """Return whether positions behind this result are not wanted any more."""


class EpisodeWork(WorkerJob[JobResult]):
    """Whole episodes; a position is an episode."""

    def __init__(self, job: EpisodeJob) -> None:
        self._job = job

    @property
    def shared(self) -> EpisodeJob:
        return self._job

    def own(self, chunk: Chunk) -> Chunk:
        return chunk

    @staticmethod
    def perform(shared: EpisodeJob, own: Chunk) -> JobResult:
        result = run_chunk(shared, *own)
        failures = {at: replace(failure, exception=portable(failure.exception)) for at, failure in result.failures.items()}
        return JobResult(result.episodes, failures)

    def describe(self, chunk: Chunk) -> str:
        return _seeds(self._job.seed_id[slice(*chunk)].tolist())

    def give_up(self, position: int, how: str) -> JobResult:
        error = EvaluationError(f"a worker process must survive {self.describe((position, position + 1))}, {how}")
        return failed_result(int(self._job.seed_id[position]), position, error)

    def is_last(self, result: JobResult) -> bool:
        return bool(result.failures) and self._job.on_failure == "stop"


class StepWork(WorkerJob[Fragment]):
    """Steps of groups; a position is a group."""

    def __init__(self, job: StepJob) -> None:
        self._job = job

    @property
    def shared(self) -> StepJob:
        return replace(self._job, groups=())

    def own(self, chunk: Chunk) -> tuple[int, int, RunningLanes]:
        (group, _), groups = chunk, self._job.groups
        return group, len(groups), groups[group]

    @staticmethod
    def perform(shared: StepJob, own: tuple[int, int, RunningLanes]) -> Fragment:
        return run_group(shared, *own)

    def describe(self, chunk: Chunk) -> str:
        return f"{_seeds(self._job.groups[chunk[0]].lanes.status.seed_id.tolist())} (and those that followed them)"

    def give_up(self, position: int, how: str) -> Fragment:
        raise EvaluationError(f"a worker process must survive {self.describe((position, position + 1))}, {how}")

    def is_last(self, result: Fragment) -> bool:
        return False


def portable(error: Exception) -> Exception:
    """Return the exception with its traceback as a note, or a plain one with the same text where it cannot be pickled."""
    note = "in a worker process:\n" + "".join(traceback.format_exception(error))
    try:
        copy = pickle.loads(pickle.dumps(error))
        portable = copy if isinstance(copy, Exception) else EvaluationError(str(error))
    except Exception:  # a user's exception may fail to pickle in any way
        portable = EvaluationError(f"{type(error).__name__}: {error}")
    portable.add_note(note)
    return portable


def _seeds(ids: list[int]) -> str:
    if len(ids) == 1:
        return f"seed {ids[0]}"
    shown = ", ".join(map(str, ids[:10])) + (f", … {ids[-1]}" if len(ids) > 10 else "")
    return f"the {len(ids)} seeds {shown}"
