"""The lifecycle of a training: iterations of collect and update, validation, callbacks, checkpoints, stopping."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from rlcore.contracts.seeds import SeedSet
from rlcore.environment.backends import EpisodeBackend
from rlcore.environment.episode_table import EpisodeTable
from rlcore.environment.worker_recovery import OnWorkerDeath
from rlcore.foundation.errors import ConfigError
from rlcore.foundation.whole_numbers import require_whole_number, require_whole_number_or_none
from rlcore.training.callbacks import Callback
from rlcore.training.checkpoint import FORMAT_VERSION, read_checkpoint
from rlcore.training.claims import claimed
from rlcore.training.interruption import Interruption, IterationAbandoned
from rlcore.training.loggers import Logger, close_all, send_episodes, send_metrics
from rlcore.training.metrics import episode_metrics, train_metrics
from rlcore.training.results import FitResult, Progress, Status, TestResult
from rlcore.training.resume import library_versions, refuse_equal_names, refuse_other_config, restore_by_name, warn_if_inexact
from rlcore.training.vessel import TrainingVessel
from rlcore.training.worker_backend import FiniteEnvType, backend_like_here

Hook = Literal[
    "on_fit_start", "on_stop", "on_fit_end", "on_iteration_start", "on_iteration_end", "on_train_start", "on_train_end",
    "on_validate_start", "on_validate_end", "on_test_start", "on_test_end",
]  # fmt: skip

logger = logging.getLogger(__name__)

Part = TypeVar("Part", Callback, Logger)


class Trainer:
    """Runs a vessel.

    Args:
        max_iters: the training ends after so many iterations, those before a continuation included; None: something else ends it.
        val_every_n_iters: validate after iterations n, 2n, …; None: never.
        concurrency: worker processes; results do not depend on it.
        finite_env_type: "subproc" (or "shmem"): episodes run in worker processes; "inline" (or "dummy"): in this one.
        fast_dev_run: so many seeds of each set, and episodes (or steps of every lane) an iteration, to see if everything runs.
        worker_setup: called once in every worker process, for what is not inherited (plugins, say); importable.
        on_worker_death: "fail": a worker process that dies ends the training with an error. "restart": a new one takes over what
            the dead one was at, with the same results.
        chunk_deadline_seconds: a worker that needs longer for one piece of work is ended and counts as dead.
        wall_clock_budget_seconds: of one call of ``fit``; the iteration in progress when it is used up is the last.
    """

    status: Status  # "running" until something has ended the training
    stop_reason: str
    resumed_from: Path | None
    seconds: dict[str, float]  # wall clock by phase, of this call
    _progress: Progress
    _config: dict[str, Any]  # of the vessel in training; its fingerprints can be costly

    def __init__(
        self,
        *,
        max_iters: int | None = None,
        val_every_n_iters: int | None = None,
        concurrency: int = 1,
        finite_env_type: FiniteEnvType = "inline",
        fast_dev_run: int | None = None,
        callbacks: Iterable[Callback] = (),
        loggers: Iterable[Logger] = (),
        worker_setup: Callable[[], None] | None = None,
        on_worker_death: OnWorkerDeath = "fail",
        chunk_deadline_seconds: float = 600.0,
        wall_clock_budget_seconds: float | None = None,
    ) -> None:
        self.max_iters = require_whole_number_or_none("max_iters of the trainer", max_iters)
        self.val_every_n_iters = require_whole_number_or_none("val_every_n_iters of the trainer", val_every_n_iters)
        self.fast_dev_run = require_whole_number_or_none("fast_dev_run of the trainer", fast_dev_run)
        self._build_backend = partial(
            backend_like_here,
            finite_env_type,
            require_whole_number("concurrency of the trainer", concurrency),
            worker_setup,
            on_worker_death=on_worker_death,
            chunk_deadline_seconds=chunk_deadline_seconds,
        )
        if concurrency > 1 and finite_env_type in ("inline", "dummy"):
            logger.warning("concurrency %s is not used: finite_env_type %r runs in this process", concurrency, finite_env_type)
        self._build_backend()  # refuses here, rather than after an hour of loading, what cannot be
        if wall_clock_budget_seconds is not None and not 0 < wall_clock_budget_seconds < math.inf:
            raise ConfigError(
                f"wall_clock_budget_seconds of the trainer must be positive and finite, was {wall_clock_budget_seconds}: "
                "None sets no limit"
            )
        self.wall_clock_budget_seconds = wall_clock_budget_seconds
        self.callbacks: Sequence[Callback] = sorted(_of_kind(callbacks, Callback), key=lambda callback: callback.order)
        self.loggers: Sequence[Logger] = _of_kind(loggers, Logger)
        refuse_equal_names([callback.name for callback in self.callbacks], "callbacks")
        refuse_equal_names([sink.name for sink in self.loggers], "loggers")
        if max_iters is None and wall_clock_budget_seconds is None and not self.callbacks:
            raise ConfigError("something must end the training: give max_iters, wall_clock_budget_seconds or a callback")
        self._interruption = Interruption()
        self._begin_anew()

    def fit(self, vessel: TrainingVessel, ckpt_path: Path | None = None) -> FitResult:
        """Train: begin anew, or continue from a checkpoint as if nothing had happened since.

        A continuation ends with the same bits as a training that was never interrupted: ``fit(6) == fit(3) + resume(3)``.

        Raises:
            CheckpointError: for a damaged checkpoint, or one of another config (the differing keys are named).
        """
        vessel = self._shortened(vessel)
        if self.val_every_n_iters is not None:
            _require_seeds(vessel.validation_sets)
        self._config = vessel.config()
        resume_from = None if ckpt_path is None else Path(ckpt_path)
        with claimed((*self.callbacks, *self.loggers), self._phases(vessel)):
            for callback in self.callbacks:
                callback.check_start(resume_from)
            if resume_from is None:
                self._begin_anew()
            else:
                self._continue_from(resume_from, vessel)
            with self._interruption, self._build_backend() as backend:
                self._call("on_fit_start", vessel)
                self._iterate(vessel, backend)
                try:
                    close_all(self.loggers)
                finally:  # what a callback gives back at the end (the best weights) is not lost for a file
                    self._call("on_fit_end", vessel)
        return self._result()

    def _iterate(self, vessel: TrainingVessel, backend: EpisodeBackend) -> None:
        self._stop_at_limits()
        finished = self._progress
        try:
            while self.status == "running":
                self._call("on_iteration_start", vessel)
                self._train(vessel, backend)
                if self.val_every_n_iters is not None and self.iteration % self.val_every_n_iters == 0:
                    self._validate(vessel, backend)
                self._stop_at_limits()
                send_metrics(self.loggers, self.iteration, self.metrics)
                self._call("on_iteration_end", vessel)
                finished = self._progress
            self._call("on_stop", vessel)
        except IterationAbandoned:
            self._progress = finished
            reason = f"asked to stop: iteration {self.iteration + 1} was abandoned, the last checkpoint stands"
            self.status, self.stop_reason = "terminated", reason

    def _phases(self, vessel: TrainingVessel) -> list[str]:
        return ["train", *(vessel.validation_sets if self.val_every_n_iters is not None else ())]

    def test(self, vessel: TrainingVessel, ckpt_path: Path | None = None) -> TestResult:
        """Run every test seed once with the deterministic policy.

        Args:
            ckpt_path: the checkpoint whose agent is tested (``CheckpointWriter.best_path``, say); it stays in the vessel. None:
                the vessel's agent as it is, which after a training is the last one, not the best.
        """
        vessel = self._shortened(vessel)
        if not vessel.test_seeds:
            raise ConfigError("test_seeds of the vessel must hold at least one seed to test, held none")
        if ckpt_path is not None:
            self._load_agent(Path(ckpt_path), vessel)
        with claimed((*self.callbacks, *self.loggers), ["test"]), self._build_backend() as backend:
            self._call("on_test_start", vessel)
            with self._timed("test"):
                table = vessel.evaluate(vessel.test_seeds, "test", backend)
            metrics = episode_metrics("test", table)
            self._publish(metrics)
            self._log_episodes("test", table)
            send_metrics(self.loggers, self.iteration, metrics)
            close_all(self.loggers)
            self._call("on_test_end", vessel)
        return TestResult(table, self.metrics)

    def _train(self, vessel: TrainingVessel, backend: EpisodeBackend) -> None:
        self._progress = replace(self._progress, metrics={})
        self._call("on_train_start", vessel)
        with self._interruption.abandonable(), self._timed("collect"):
            collected = vessel.collect(backend)
        with self._interruption.abandonable(), self._timed("update"):
            figures = vessel.update(collected)
        before = self._progress
        self._progress = replace(
            before,
            iteration=before.iteration + 1,
            num_episodes=before.num_episodes + len(collected.table),
            num_steps=before.num_steps + collected.rollout.num_steps,
            is_resume_exact=before.is_resume_exact and collected.is_replay_exact,
        )
        self._publish(train_metrics(collected, figures, self._progress))
        self._log_episodes("train", collected.table)
        self._call("on_train_end", vessel)

    def _validate(self, vessel: TrainingVessel, backend: EpisodeBackend) -> None:
        self._call("on_validate_start", vessel)
        for phase, seeds in vessel.validation_sets.items():
            with self._interruption.abandonable(), self._timed("validate"):
                table = vessel.evaluate(seeds, phase, backend)
            self._publish(episode_metrics(phase, table))
            self._log_episodes(phase, table)
        self._call("on_validate_end", vessel)

    def _log_episodes(self, phase: str, table: EpisodeTable) -> None:
        if len(table):  # an iteration of steps may see no episode end: there is nothing to tell
            send_episodes(self.loggers, phase, self.iteration, table)

    @property
    def iteration(self) -> int:
        """Finished iterations; from ``on_train_end`` on, the one in progress counts."""
        return self._progress.iteration

    @property
    def metrics(self) -> dict[str, float]:
        """What this iteration has shown so far."""
        return dict(self._progress.metrics)

    def stop(self, status: Status, reason: str) -> None:
        """End the training after the iteration in progress; the first reason stands."""
        if self.status == "running":
            self.status, self.stop_reason = status, reason

    def interrupt(self) -> None:
        """Ask for what SIGTERM does, from any thread: abandon the iteration in progress at the next edge of its phases.

        Asked for before ``fit`` (which may still be loading), it ends that one in its first iteration, and no other.
        """
        self._interruption.request()

    def checkpoint(self, vessel: TrainingVessel) -> dict[str, Any]:
        """Return the content of a checkpoint of this moment in a training."""
        vessel_state = vessel.state_dict()
        return {
            "format_version": FORMAT_VERSION,
            "config": self._config,
            "iteration": self.iteration,
            "vessel": vessel_state,
            "trainer": asdict(self._progress),
            "callbacks": {callback.name: state for callback in self.callbacks if (state := callback.state_dict())},
            "loggers": {sink.name: state for sink in self.loggers if (state := sink.state_dict())},
            "library_versions": library_versions(vessel_state),
        }

    def _begin_anew(self) -> None:
        self.status, self.stop_reason, self.resumed_from = "running", "", None
        self.seconds = {}
        self._started_at = time.monotonic()
        self._progress = Progress()
        for callback in self.callbacks:
            callback.reset()
        for sink in self.loggers:
            sink.reset()

    def _continue_from(self, path: Path, vessel: TrainingVessel) -> None:
        content = read_checkpoint(path)
        refuse_other_config(content["config"], self._config, path)
        self._begin_anew()
        self.resumed_from = path
        vessel.load_state_dict(content["vessel"])
        is_exact = warn_if_inexact(content, self._config, library_versions(vessel.state_dict()), path)
        stored = Progress(**content["trainer"])
        self._progress = replace(stored, is_resume_exact=stored.is_resume_exact and is_exact)
        restore_by_name(self.callbacks, content["callbacks"], "callback")
        restore_by_name(self.loggers, content["loggers"], "logger")

    def _load_agent(self, path: Path, vessel: TrainingVessel) -> None:
        content = read_checkpoint(path)
        refuse_other_config(content["config"], vessel.config(), path)
        vessel.agent.load_state_dict(content["vessel"]["agent"])

    def _shortened(self, vessel: TrainingVessel) -> TrainingVessel:
        return vessel if self.fast_dev_run is None else vessel.shortened(self.fast_dev_run)

    def _stop_at_limits(self) -> None:
        if self.max_iters is not None and self.iteration >= self.max_iters:
            self.stop("completed", f"{self.iteration} iterations are done")
        budget = self.wall_clock_budget_seconds
        if budget is not None and time.monotonic() - self._started_at >= budget:
            self.stop("out_of_time", f"the budget of {budget:g} s was used up after iteration {self.iteration}")

    def _call(self, hook: Hook, vessel: TrainingVessel) -> None:
        for callback in self.callbacks:
            getattr(callback, hook)(self, vessel)

    def _publish(self, metrics: dict[str, float]) -> None:
        self._progress = replace(self._progress, metrics={**self._progress.metrics, **metrics})

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[phase] = self.seconds.get(phase, 0.0) + time.perf_counter() - started

    def _result(self) -> FitResult:
        return FitResult(self.status, self.stop_reason, **asdict(self._progress), seconds=dict(self.seconds))


def _of_kind(parts: Iterable[Part], kind: type[Part]) -> list[Part]:
    parts = list(parts)
    for part in parts:
        if not isinstance(part, kind) or not hasattr(part, "name"):
            raise ConfigError(
                f"every {kind.__name__.lower()} must be an object made of a class derived from {kind.__name__}, with "
                f"super().__init__() called, was {part!r}"
            )
    return parts


def _require_seeds(validation_sets: Mapping[str, SeedSet[Any]]) -> None:
    empty = [phase for phase, seeds in validation_sets.items() if not len(seeds)]
    if empty or not validation_sets:
        where = f" for {empty[0]}" if empty else ""
        raise ConfigError(f"validation_seeds must hold at least one seed, held none{where}: set val_every_n_iters to None")
