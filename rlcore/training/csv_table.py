"""A CSV file that grows by rows, gains columns as they appear, and can be cut back to an iteration."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from rlcore.foundation.atomic_files import remove_half_written, write_atomically
from rlcore.training.table_file import KEY, Row, TableFile

_TERMINATOR = "\r\n"  # of the writer: it quotes cells that hold a character of it. Files have "\n" alone


class CsvTable(TableFile):
    """Floats are written so that they read back to the same bits; absent cells are empty."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._columns: list[str] | None = None  # None: the file has not been looked at yet

    def append(self, iteration: int, rows: Sequence[Row]) -> None:
        columns = self._known_columns()
        fresh = list(dict.fromkeys(name for row in rows for name in row if name not in columns))
        if fresh or not self.path.exists():
            kept = self._rows()
            self._columns = columns = (columns or [KEY]) + fresh
            write_atomically(self.path, _encoded(columns, kept, with_header=True))
        lines = [{KEY: iteration, **row} for row in rows]
        with self.path.open("ab") as stream:
            stream.write(_encoded(columns, lines, with_header=False))

    @property
    def num_columns(self) -> int:
        return len(self._known_columns())

    def cut_after(self, iteration: int, num_columns: int) -> None:
        remove_half_written(self.path)
        kept = [row for row in self._rows() if row[KEY].isdigit() and int(row[KEY]) <= iteration]
        self._columns = self._known_columns()[:num_columns]
        if kept:
            write_atomically(self.path, _encoded(self._columns, kept, with_header=True))
        else:
            self.clear()

    def clear(self) -> None:
        remove_half_written(self.path)
        self.path.unlink(missing_ok=True)
        self._columns = []

    def close(self) -> None:
        """It has its final form at all times."""

    def _known_columns(self) -> list[str]:
        if self._columns is None:
            self._columns = next(csv.reader(io.StringIO(self._text())), [])
        return self._columns

    def _rows(self) -> list[dict[str, str]]:
        text = self._text()
        whole = text[: text.rfind("\n") + 1]
        return list(csv.DictReader(io.StringIO(whole), restval=""))

    def _text(self) -> str:
        # Not as text, which takes every kind of line break for a line feed, those within cells too.
        return self.path.read_bytes().decode() if self.path.exists() else ""


class _Lines(list[str]):
    """What a csv writer writes to: whole lines, one at a time."""

    def write(self, line: str) -> None:
        self.append(line.removesuffix(_TERMINATOR) + "\n")


def _encoded(columns: Sequence[str], rows: Sequence[Row], *, with_header: bool) -> bytes:
    lines = _Lines()
    writer = csv.DictWriter(lines, columns, restval="", extrasaction="ignore", lineterminator=_TERMINATOR)
    if with_header:
        writer.writeheader()
    writer.writerows(rows)
    return "".join(lines).encode()
