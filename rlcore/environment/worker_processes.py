"""Worker processes that cannot hang their parent: short messages, bulk through files, a deadline on every wait."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import tempfile
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from rlcore.environment.episode_jobs import EpisodeJob, JobResult, run_chunk
from rlcore.foundation.errors import ConfigError, EvaluationError

_START_SECONDS = 120.0  # importing torch on a loaded machine takes long
_CLOSE_SECONDS = 5.0
Chunk = tuple[int, int]


@dataclass(slots=True)
class _Worker:
    process: BaseProcess
    connection: Connection


@dataclass(frozen=True, slots=True)
class _Task:
    """What a worker is sent. It fits into a pipe's buffer, so that sending never waits."""

    job_path: Path
    chunk: Chunk
    result_path: Path


class WorkerProcesses:
    """Spawned processes that run chunks of jobs. Any error, and Ctrl-C, ends all of them; the next job starts new ones."""

    def __init__(self, num_workers: int, setup: Callable[[], None] | None, chunk_deadline_seconds: float) -> None:
        self._num_workers = num_workers
        self._setup = setup
        self._deadline_seconds = chunk_deadline_seconds
        self._workers: list[_Worker] = []

    def run(self, job: EpisodeJob, chunks: Sequence[Chunk]) -> list[JobResult]:
        """Run the chunks and return their results in order (a gapless beginning, where the job stopped at a failure).

        Raises:
            EvaluationError: a worker died or missed its deadline.
            ConfigError: something in the job cannot be pickled.
        """
        try:
            with tempfile.TemporaryDirectory(prefix="fillwright-workers-") as folder:
                job_path = Path(folder) / "job"
                job_path.write_bytes(_pickled(job))
                self._start(min(self._num_workers, len(chunks)))
                return self._hand_out(job, chunks, job_path)
        except BaseException:
            self._kill()
            raise

    def close(self) -> None:
        """Ask the workers to leave, then make them."""
        for worker in self._workers:
            with suppress(OSError):  # it has left already
                worker.connection.send(None)
        deadline = time.monotonic() + _CLOSE_SECONDS
        for worker in self._workers:
            worker.process.join(max(deadline - time.monotonic(), 0.0))
        self._kill()

    def _start(self, num_workers: int) -> None:
        """Start what lacks of so many workers, all at once, and wait until they are ready."""
        # Spawn: forking a process that has threads (torch, BLAS) can deadlock the child.
        context = multiprocessing.get_context("spawn")
        fresh = []
        while len(self._workers) < num_workers:
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs, self._setup), daemon=True, name="fillwright worker")
            process.start()
            theirs.close()
            fresh.append(_Worker(process, ours))
            self._workers.append(fresh[-1])
        deadline = time.monotonic() + _START_SECONDS
        for worker in fresh:
            if not worker.connection.poll(max(deadline - time.monotonic(), 0.0)):
                raise EvaluationError(f"worker process {worker.process.pid} must start within {_START_SECONDS:g} s, has not")
            try:
                worker.connection.recv()
            except (EOFError, OSError):
                raise _death(worker, "while it started") from None

    def _hand_out(self, job: EpisodeJob, chunks: Sequence[Chunk], job_path: Path) -> list[JobResult]:
        results: dict[int, JobResult] = {}
        waiting = deque(range(len(chunks)))
        idle = list(self._workers)
        busy: dict[int, tuple[_Worker, float]] = {}  # by number of the chunk: who, until when
        while waiting or busy:
            while waiting and idle:
                number, worker = waiting.popleft(), idle.pop()
                busy[number] = worker, time.monotonic() + self._deadline_seconds
                self._send(worker, _Task(job_path, chunks[number], job_path.with_name(f"result-{number}")), job)
            patience = min(deadline for _, deadline in busy.values()) - time.monotonic()
            wait([end for worker, _ in busy.values() for end in (worker.connection, worker.process.sentinel)], max(patience, 0.0))
            for number, (worker, deadline) in list(busy.items()):
                if worker.connection.poll():
                    results[number] = self._receive(worker, chunks[number], job_path.with_name(f"result-{number}"), job)
                    idle.append(worker)
                    del busy[number]
                    if results[number].failures and job.on_failure == "stop":
                        waiting.clear()
                elif not worker.process.is_alive():
                    raise _death(worker, f"while it ran {_seeds(job, chunks[number])}")
                elif time.monotonic() > deadline:
                    raise EvaluationError(
                        f"a worker must finish a chunk within {self._deadline_seconds:g} s, has not finished "
                        f"{_seeds(job, chunks[number])}: raise chunk_deadline_seconds, or lower num_lanes to make chunks shorter"
                    )
        return [results[number] for number in sorted(results)]

    def _send(self, worker: _Worker, task: _Task, job: EpisodeJob) -> None:
        try:
            worker.connection.send(task)
        except OSError:
            raise _death(worker, f"while it ran {_seeds(job, task.chunk)}") from None

    def _receive(self, worker: _Worker, chunk: Chunk, path: Path, job: EpisodeJob) -> JobResult:
        try:
            worker.connection.recv()
        except (EOFError, OSError):
            raise _death(worker, f"while it ran {_seeds(job, chunk)}") from None
        content = pickle.loads(path.read_bytes())
        path.unlink()
        if isinstance(content, BaseException):
            raise content
        assert isinstance(content, JobResult)
        return content

    def _kill(self) -> None:
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.process.kill()
            worker.connection.close()
        for worker in workers:
            worker.process.join(_CLOSE_SECONDS)


def _work(connection: Connection, setup: Callable[[], None] | None) -> None:
    """The life of a worker: it ends when it is told to, or when its parent is no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    if setup is not None:
        setup()
    connection.send("ready")
    job: EpisodeJob | None = None
    job_path: Path | None = None
    while True:
        try:
            task: _Task | None = connection.recv()
        except (EOFError, OSError):
            return
        if task is None:
            return
        try:
            if job is None or job_path != task.job_path:
                job, job_path = pickle.loads(task.job_path.read_bytes()), task.job_path
            content = _portable_result(run_chunk(job, *task.chunk))
        except Exception as error:
            content = pickle.dumps(_portable(error))
        task.result_path.write_bytes(content)
        try:
            connection.send("done")
        except OSError:
            return


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _portable_result(result: JobResult) -> bytes:
    failures = {at: replace(failure, exception=_portable(failure.exception)) for at, failure in result.failures.items()}
    return pickle.dumps(JobResult(result.episodes, failures), pickle.HIGHEST_PROTOCOL)


def _portable(error: Exception) -> Exception:
    """Return the exception with its traceback as a note, or a plain one with the same text where it cannot be pickled."""
    note = "in a worker process:\n" + "".join(traceback.format_exception(error))
    try:
        copy = pickle.loads(pickle.dumps(error))
        portable = copy if isinstance(copy, Exception) else EvaluationError(str(error))
    except Exception:  # a user's exception may fail to pickle in any way
        portable = EvaluationError(f"{type(error).__name__}: {error}")
    portable.add_note(note)
    return portable


def _pickled(job: EpisodeJob) -> bytes:
    try:
        return pickle.dumps(job, pickle.HIGHEST_PROTOCOL)
    except Exception as error:  # pickling runs users' code
        raise ConfigError(
            f"parts, policy and seeds must be picklable for worker processes, were not ({type(error).__name__}: {error}): "
            "define classes and functions in a module, or use InlineBackend"
        ) from error


def _death(worker: _Worker, when: str) -> EvaluationError:
    worker.process.join(_CLOSE_SECONDS)
    code = worker.process.exitcode
    how = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
    return EvaluationError(
        f"worker process {worker.process.pid} must stay alive, ended with {how} {when}: "
        "look at its output above; SIGKILL is often the memory limit; a script that uses worker processes must guard its start "
        "with if __name__ == '__main__'"
    )


def _seeds(job: EpisodeJob, chunk: Chunk) -> str:
    ids = job.seed_id[slice(*chunk)].tolist()
    shown = ", ".join(map(str, ids[:10])) + (f", … {ids[-1]}" if len(ids) > 10 else "")
    return f"the {len(ids)} seeds {shown}"
