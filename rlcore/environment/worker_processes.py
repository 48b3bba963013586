"""Worker processes that cannot hang their parent: short messages, bulk through shared memory, a deadline on every wait."""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import Generic

from rlcore.environment.shared_arrays import SharedFolder, read_shared, remove_abandoned, write_shared
from rlcore.environment.worker_handle import CLOSE_SECONDS, WorkerDiedError, WorkerHandle, what_happened
from rlcore.environment.worker_jobs import Chunk, Result, WorkerJob
from rlcore.environment.worker_life import LOADED, Answer, Task, not_picklable
from rlcore.environment.worker_recovery import (
    DEATHS_BEFORE_RUNNING,
    DEATHS_OF_ONE_POSITION,
    DEATHS_WITHOUT_SUCCESS,
    Assignment,
    OnWorkerDeath,
    after_death,
)
from rlcore.foundation.errors import EvaluationError


class WorkerProcesses:
    """Spawned processes that run chunks of jobs. Any error, and Ctrl-C, ends all of them; the next job starts new ones."""

    def __init__(
        self, num_workers: int, setup: Callable[[], None] | None, chunk_deadline_seconds: float, on_worker_death: OnWorkerDeath
    ) -> None:
        self.num_workers = num_workers
        self.chunk_deadline_seconds = chunk_deadline_seconds
        self.on_worker_death = on_worker_death
        self.workers: list[WorkerHandle] = []
        self._setup = setup

    def run(self, job: WorkerJob[Result], chunks: Sequence[Chunk]) -> list[Result]:
        """Run the chunks and return their results in order (a gapless beginning, where one of them is the last that is wanted).

        Raises:
            EvaluationError: a worker died or missed its deadline, and that is not made good (see ``OnWorkerDeath``).
            ConfigError: something in the job cannot be pickled.
        """
        try:
            if not self.workers:
                remove_abandoned()
            with SharedFolder() as folder:
                return _Handout(self, job, chunks, folder).run()
        except BaseException:
            self._kill()
            raise

    def start_one(self) -> None:
        self.workers.append(WorkerHandle(self._setup))

    def bury(self, worker: WorkerHandle) -> None:
        """End a worker that has died, or is not worth waiting for."""
        self.workers.remove(worker)
        worker.kill()
        worker.process.join(CLOSE_SECONDS)

    def close(self) -> None:
        """Ask the workers to leave, then make them."""
        for worker in self.workers:
            worker.ask_to_leave()
        deadline = time.monotonic() + CLOSE_SECONDS
        for worker in self.workers:
            worker.process.join(max(deadline - time.monotonic(), 0.0))
        self._kill()

    def _kill(self) -> None:
        workers, self.workers = self.workers, []
        for worker in workers:
            worker.kill()
        for worker in workers:
            worker.process.join(CLOSE_SECONDS)


class _Handout(Generic[Result]):
    """One job's chunks, on their way to the workers and back."""

    def __init__(self, pool: WorkerProcesses, job: WorkerJob[Result], chunks: Sequence[Chunk], folder: SharedFolder) -> None:
        self._pool, self._job, self._folder = pool, job, folder
        self._waiting = deque(Assignment(chunk) for chunk in chunks)
        self._results: dict[int, Result] = {}  # by start; a chunk's result is here as a whole or not at all
        self._num_handed_out = 0
        self._num_deaths = {"before": 0, "running": 0}  # since a worker had loaded the job, since one had finished a chunk
        self._shared_path = self._pickled("job", job.shared)

    def run(self) -> list[Result]:
        while self._waiting or self._busy():
            self._hand_out()
            self._wait()
            for worker in list(self._pool.workers):
                if worker.stage != "idle":
                    self._hear(worker)
        ordered = [self._results[start] for start in sorted(self._results)]
        last = next((at for at, result in enumerate(ordered) if self._job.is_last(result)), len(ordered) - 1)
        return ordered[: last + 1]

    def _busy(self) -> list[WorkerHandle]:
        return [worker for worker in self._pool.workers if worker.assignment is not None]

    def _hand_out(self) -> None:
        pool = self._pool
        while len(pool.workers) < min(pool.num_workers, len(self._waiting) + len(self._busy())):
            pool.start_one()
        for worker in pool.workers:
            if worker.stage == "idle" and self._waiting:
                assignment = self._waiting.popleft()
                self._num_handed_out += 1
                own_path = self._pickled(f"own-{self._num_handed_out}", self._job.own(assignment.chunk))
                places = self._folder.places_for(f"result-{self._num_handed_out}")
                worker.send(Task(self._job.perform, self._shared_path, own_path, places), assignment, pool.chunk_deadline_seconds)

    def _wait(self) -> None:
        expected = [worker for worker in self._pool.workers if worker.stage != "idle"]
        patience = min(worker.deadline for worker in expected) - time.monotonic()
        wait([end for worker in expected for end in (worker.connection, worker.process.sentinel)], max(patience, 0.0))

    def _hear(self, worker: WorkerHandle) -> None:
        try:
            answer = worker.news()
        except WorkerDiedError as death:
            self._mourn(worker, death)
            return
        if answer == LOADED:
            self._num_deaths["before"] = 0
        if not isinstance(answer, Answer):
            return
        assert worker.assignment is not None and worker.own_path is not None
        worker.own_path.unlink()
        start, worker.assignment = worker.assignment.start, None
        content = read_shared(answer.path)
        answer.path.unlink()
        if answer.is_error:
            raise content
        self._num_deaths["running"] = 0
        self._commit(start, content)

    def _commit(self, start: int, result: Result) -> None:
        self._results[start] = result
        if self._job.is_last(result):
            self._waiting = deque(assignment for assignment in self._waiting if assignment.start < start)

    def _mourn(self, worker: WorkerHandle, death: WorkerDiedError) -> None:
        """Make a death good by choice: what the worker was at is done by another."""
        self._pool.bury(worker)
        assignment, is_running = worker.assignment, worker.stage == "running"
        when, num_bearable = ("running", DEATHS_WITHOUT_SUCCESS) if is_running else ("before", DEATHS_BEFORE_RUNNING)
        self._num_deaths[when] += 1
        message, remedy = what_happened(worker, death, self._job.describe(assignment.chunk) if assignment else "")
        if self._pool.on_worker_death == "fail" or self._num_deaths[when] >= num_bearable:
            raise EvaluationError(f"{message}: {remedy}")
        warnings.warn(f"{message}: a new worker takes over", RuntimeWarning, stacklevel=2)
        if assignment is None:
            return
        if not is_running:  # no episode is to blame
            self._waiting.appendleft(assignment)
            return
        again = after_death(assignment)
        if again[0].is_guilty:
            how = f"{DEATHS_OF_ONE_POSITION} have not: the last {death.how}"
            self._commit(assignment.start, self._job.give_up(assignment.start, how))
        else:
            self._waiting.extendleft(reversed(again))

    def _pickled(self, name: str, value: object) -> Path:
        try:
            return write_shared(self._folder.places_for(name), value)
        except OSError:
            raise
        except Exception as error:  # pickling runs users' code
            raise not_picklable("parts, policy, seeds and episodes in progress", error) from error
