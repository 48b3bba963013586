"""Where the numbers of a training go besides tracking."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from rlcore.agents.specs import Spec

if TYPE_CHECKING:
    from rlcore.training.log_levels import LogLevel
    from rlcore.training.loggers import Logger

Phases = Annotated[tuple[Literal["train", "validation"], ...], Field(min_length=1)]


class LoggerSpec(Spec):
    """One place where numbers go. Kinds of one's own derive from this and are registered as ``logger``."""

    level: Literal["debug", "periodic", "info", "critical"] = "periodic"
    """It takes figures of this level and above: debug adds spreads, periodic means, info what is judged by, critical failures."""

    @abstractmethod
    def build(self, folder: Path, name: str) -> Logger:
        """Return the logger.

        Args:
            folder: of the training: its files go there.
            name: unique among the loggers of the training.
        """

    def log_level(self) -> LogLevel:
        """Return the level as the training knows it."""
        from rlcore.training.log_levels import LogLevel

        return LogLevel[self.level.upper()]


class ConsoleLoggerSpec(LoggerSpec):
    """One line on the terminal (stderr) every so many iterations."""

    kind: Literal["console"]
    shown: Annotated[tuple[str, ...], Field(min_length=1)] = ("train/return/mean", "validation/return/mean")
    """Names of metrics."""
    every_iterations: Annotated[int, Field(ge=1, strict=True)] = 1
    """Iterations for each line."""
    level: Literal["debug", "periodic", "info", "critical"] = "debug"
    """It takes figures of this level and above; which it shows is chosen by name already."""

    def build(self, folder: Path, name: str) -> Logger:
        import sys

        from rlcore.training.loggers import ConsoleLogger

        # stdout belongs to the command, which may have promised one JSON object there.
        return ConsoleLogger(
            self.shown, every_n_iters=self.every_iterations, stream=sys.stderr, level=self.log_level(), name=name
        )


class CsvLoggerSpec(LoggerSpec):
    """Every episode as a row of ``<phase>_episodes.csv``."""

    kind: Literal["csv"]
    phases: Phases = ("train", "validation")
    """Whose episodes are written."""

    def build(self, folder: Path, name: str) -> Logger:
        from rlcore.training.loggers import CsvLogger

        return CsvLogger(folder, self.phases, level=self.log_level(), name=name)


class ParquetLoggerSpec(LoggerSpec):
    """Every episode as a row of ``<phase>_episodes.parquet``."""

    kind: Literal["parquet"]
    phases: Phases = ("train", "validation")
    """Whose episodes are written."""

    def build(self, folder: Path, name: str) -> Logger:
        from rlcore.training.parquet_logger import ParquetLogger

        return ParquetLogger(folder, self.phases, level=self.log_level(), name=name)


class TensorBoardLoggerSpec(LoggerSpec):
    """Every metric as a scalar in TensorBoard's event files (package tensorboard)."""

    kind: Literal["tensorboard"]

    def build(self, folder: Path, name: str) -> Logger:
        from rlcore.training.tensorboard_logger import TensorBoardLogger

        return TensorBoardLogger(folder / "tensorboard", level=self.log_level(), name=name)
