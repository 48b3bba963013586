"""Episodes as parquet files: typed columns, for those who go on with pandas."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlcore.environment.episode_table import EpisodeTable
from rlcore.training.episode_files import PHASES, EpisodeFiles, Phase
from rlcore.training.log_levels import LogLevel
from rlcore.training.loggers import Logger
from rlcore.training.parquet_table import ParquetTable


class ParquetLogger(Logger):
    """Writes every episode, with its iteration, as a row of ``train_episodes.parquet``, ``validation_episodes.parquet`` or
    ``test_…``. While a training runs, its rows lie in a folder beside each file (``pandas.read_parquet`` reads that as well).

    Args:
        phases: whose episodes are written.
    """

    def __init__(
        self,
        folder: Path,
        phases: Sequence[Phase] = PHASES,
        *,
        level: LogLevel = LogLevel.PERIODIC,
        name: str = "",
    ) -> None:
        super().__init__(name, level)
        self._files = EpisodeFiles(folder, phases, "parquet", ParquetTable)

    def log_episodes(self, phase: str, iteration: int, table: EpisodeTable) -> None:
        self._files.append(phase, iteration, table)

    def claims(self, phases: Sequence[str]) -> Sequence[Path]:
        return self._files.claims(phases)

    def reset(self) -> None:
        self._files.reset()

    def close(self) -> None:
        self._files.close()

    def state_dict(self) -> dict[str, Any]:
        return self._files.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._files.load_state_dict(state)
