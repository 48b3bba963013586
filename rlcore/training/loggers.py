"""Where the numbers of a training go. A logger writes what it is told; it decides nothing but how much it wants to hear."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO

from rlcore.environment.episode_table import EpisodeTable
from rlcore.foundation.errors import ConfigError
from rlcore.foundation.whole_numbers import require_whole_number
from rlcore.training.csv_table import CsvTable
from rlcore.training.episode_files import PHASES, EpisodeFiles, Phase
from rlcore.training.log_levels import LogLevel, columns_from, metrics_from


class Logger:
    """Base of all loggers: override what matters. One's own is a few lines::

        class BestReturn(Logger):
            def reset(self):
                self.best = -math.inf

            def log_metrics(self, iteration, metrics):
                self.best = max(self.best, metrics.get("train/return/mean", -math.inf))

            def state_dict(self):
                return {"best": self.best}

            def load_state_dict(self, state):
                self.best = state["best"]

    Args:
        name: the key of its state in checkpoints, unique among the loggers of a trainer; "": the name of the class.
        level: it is told what has this level and above (``rlcore.training.log_levels`` says which name has which level).
    """

    def __init__(self, name: str = "", level: LogLevel = LogLevel.PERIODIC) -> None:
        self.name = name or type(self).__name__
        self.level = LogLevel(level)

    def log_metrics(self, iteration: int, metrics: dict[str, float]) -> None:
        """Take the metrics of one iteration, once per iteration, in order; or those of a test after it."""

    def log_episodes(self, phase: str, iteration: int, table: EpisodeTable) -> None:
        """Take the episodes of a phase: "train", "validation" (a further set: "validation/<name>") or "test"."""

    def claims(self, phases: Sequence[str]) -> Sequence[Path]:
        """Return the files (one of many will do) that nobody else may write to while this takes part in a training, or a test.

        Args:
            phases: of the training: "train", "validation" (or "validation/<name>" for each of several sets); or "test" alone.
        """
        return ()

    def reset(self) -> None:
        """Forget everything: called when a training begins anew, and never when it is continued."""

    def close(self) -> None:
        """Write what still waits: a training or a test has ended. There may be another."""

    def state_dict(self) -> dict[str, Any]:
        """Return plain data, tensors and arrays only."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint: what was written after it is taken back."""


def send_metrics(loggers: Sequence[Logger], iteration: int, metrics: dict[str, float]) -> None:
    """Tell every logger the metrics of its level and above."""
    for sink in loggers:
        sink.log_metrics(iteration, metrics_from(sink.level, metrics))


def send_episodes(loggers: Sequence[Logger], phase: str, iteration: int, table: EpisodeTable) -> None:
    """Hand every logger the episodes of a phase, with the columns of its level and above."""
    for sink in loggers:
        sink.log_episodes(phase, iteration, columns_from(sink.level, phase, table))


def close_all(loggers: Sequence[Logger]) -> None:
    """Tell every logger that a training or a test has ended; one that raises keeps no other from closing."""
    with ExitStack() as stack:
        for sink in reversed(loggers):
            stack.callback(sink.close)


class ConsoleLogger(Logger):
    """Writes one line every so many iterations, and one at the end.

    A line shows the newest value of each figure since the line before. Where several iterations had it, their mean stands behind
    it in brackets; a figure that none had (a training by steps in which no episode ended, say) is left out::

        [iteration 20]  train/return/mean 1.25 (1.0625)  validation/return/mean 1.5  train/total_steps 5120

    Args:
        shown: names of metrics, in order; None: what a phase earned, of training, every validation set and test.
        every_n_iters: iterations for each line.
        stream: where to; None: standard output.
        level: what is shown is chosen by name already, so that nothing is held back.
    """

    def __init__(
        self,
        shown: Sequence[str] | None = None,
        *,
        every_n_iters: int = 1,
        stream: TextIO | None = None,
        level: LogLevel = LogLevel.DEBUG,
        name: str = "",
    ) -> None:
        super().__init__(name, level)
        if isinstance(shown, str):
            raise ConfigError(f"shown of the console logger must be a sequence of names, was {shown!r}: write [{shown!r}]")
        self._every_n_iters = require_whole_number("every_n_iters of the console logger", every_n_iters)
        self._shown, self._stream = None if shown is None else tuple(shown), stream
        self.reset()

    def reset(self) -> None:
        self._iteration = 0  # the last one that was told of
        self._waiting: dict[str, list[float]] = {}  # values since the line before, by name

    def log_metrics(self, iteration: int, metrics: dict[str, float]) -> None:
        is_test = iteration == self._iteration
        self._iteration = iteration
        for name in _earned(metrics) if self._shown is None else self._shown:
            if name in metrics:
                self._waiting.setdefault(name, []).append(metrics[name])
        if is_test or iteration % self._every_n_iters == 0:
            self._write_line()

    def close(self) -> None:
        if self._waiting:
            self._write_line()

    def state_dict(self) -> dict[str, Any]:
        return {"iteration": self._iteration, "waiting": {name: list(values) for name, values in self._waiting.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._iteration = state["iteration"]
        self._waiting = {name: list(values) for name, values in state["waiting"].items()}

    def _write_line(self) -> None:
        names = [name for name in self._shown or self._waiting if name in self._waiting]
        figures = [f"{name} {_newest_and_mean(self._waiting[name])}" for name in names]
        self._waiting = {}
        stream = self._stream or sys.stdout
        stream.write("  ".join([f"[iteration {self._iteration}]", *figures]) + "\n")
        stream.flush()


class CsvLogger(Logger):
    """Writes every episode, with its iteration, as a row of ``train_episodes.csv``, ``validation_episodes.csv`` or ``test_…``.

    Args:
        phases: whose episodes are written.
    """

    def __init__(
        self, folder: Path, phases: Sequence[Phase] = PHASES, *, level: LogLevel = LogLevel.PERIODIC, name: str = ""
    ) -> None:
        super().__init__(name, level)
        self._files = EpisodeFiles(folder, phases, "csv", CsvTable)

    def log_episodes(self, phase: str, iteration: int, table: EpisodeTable) -> None:
        self._files.append(phase, iteration, table)

    def claims(self, phases: Sequence[str]) -> Sequence[Path]:
        return self._files.claims(phases)

    def reset(self) -> None:
        self._files.reset()

    def state_dict(self) -> dict[str, Any]:
        return self._files.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._files.load_state_dict(state)


def _earned(metrics: Mapping[str, float]) -> list[str]:
    return [name for name in metrics if name.endswith(("/return/mean", "/reward_per_step"))]


def _newest_and_mean(values: Sequence[float]) -> str:
    newest = f"{values[-1]:.6g}"
    return newest if len(values) == 1 else f"{newest} ({sum(values) / len(values):.6g})"
