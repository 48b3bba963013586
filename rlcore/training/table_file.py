"""A file of rows by iteration that a training grows and a continued training cuts back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

KEY = "iteration"

# Names → cells: numbers, texts, truth values, dates.
Row = Mapping[str, Any]


class TableFile(ABC):
    """Rows in the order of iterations; the first column is ``iteration``, others are added at the right as they appear."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @abstractmethod
    def append(self, iteration: int, rows: Sequence[Row]) -> None:
        """Add rows of one iteration. What is handed over survives a kill of the process at once."""

    @property
    @abstractmethod
    def num_columns(self) -> int:
        """How many columns there are; together with an iteration it says what the file was then."""

    @abstractmethod
    def cut_after(self, iteration: int, num_columns: int) -> None:
        """Keep the rows up to an iteration, and so many columns; what a kill left half-written goes too."""

    @abstractmethod
    def clear(self) -> None:
        """Begin anew: the file vanishes until the next row."""

    @abstractmethod
    def close(self) -> None:
        """Give the file its final form; it may grow again afterwards."""
