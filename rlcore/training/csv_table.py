"""A CSV file that grows by rows, gains columns as they appear, and can be cut back to an iteration."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from rlcore.foundation.atomic_files import write_atomically

Cell = str | int | float
_KEY = "iteration"


class CsvTable:
    """Rows by iteration, in order. Floats are written so that they read back to the same bits; absent cells are empty.

    Args:
        path: of the file; its first column is ``iteration``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._columns: list[str] | None = None  # None: the file has not been looked at yet

    def append(self, iteration: int, rows: Sequence[Mapping[str, Cell]]) -> None:
        """Add rows of one iteration. What is handed over survives a kill of the process at once."""
        columns = self._known_columns()
        fresh = list(dict.fromkeys(name for row in rows for name in row if name not in columns))
        if fresh or not self.path.exists():
            kept = self._rows()
            self._columns = columns = (columns or [_KEY]) + fresh
            write_atomically(self.path, _encoded(columns, kept, with_header=True))
        lines = [{_KEY: iteration, **row} for row in rows]
        with self.path.open("ab") as stream:
            stream.write(_encoded(columns, lines, with_header=False))

    @property
    def num_columns(self) -> int:
        """How many columns there are; together with an iteration it says what the file was then."""
        return len(self._known_columns())

    def cut_after(self, iteration: int, num_columns: int) -> None:
        """Keep the rows up to an iteration, and so many columns; a half-written last line goes too."""
        kept = [row for row in self._rows() if row[_KEY].isdigit() and int(row[_KEY]) <= iteration]
        self._columns = self._known_columns()[:num_columns]
        if kept:
            write_atomically(self.path, _encoded(self._columns, kept, with_header=True))
        else:
            self.clear()

    def clear(self) -> None:
        """Begin anew: the file vanishes until the next row."""
        self.path.unlink(missing_ok=True)
        self._columns = []

    def _known_columns(self) -> list[str]:
        if self._columns is None:
            self._columns = next(csv.reader(io.StringIO(self._text())), [])
        return self._columns

    def _rows(self) -> list[dict[str, str]]:
        text = self._text()
        whole = text[: text.rfind("\n") + 1]
        return list(csv.DictReader(io.StringIO(whole), restval=""))

    def _text(self) -> str:
        return self.path.read_text(encoding="utf-8") if self.path.exists() else ""


def _encoded(columns: Sequence[str], rows: Sequence[Mapping[str, Cell]], *, with_header: bool) -> bytes:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, restval="", extrasaction="ignore", lineterminator="\n")
    if with_header:
        writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue().encode()
