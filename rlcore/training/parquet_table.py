"""A parquet file that grows by rows, gains columns as they appear, and can be cut back to an iteration."""

from __future__ import annotations

import io
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlcore.foundation.atomic_files import remove_half_written, write_atomically
from rlcore.training.table_file import KEY, Row, TableFile

if TYPE_CHECKING:
    import pyarrow as pa


class ParquetTable(TableFile):
    """A parquet file is finished for good when it is written. While a training runs, each iteration's rows are therefore a small
    file of their own in the folder ``<file>.parts`` beside it; ``close`` joins them into one. Whichever way the rows came (at
    once, or in several continued trainings), the file has the same bytes.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._parts_folder = path.with_name(f"{path.name}.parts")
        self._columns: list[str] | None = None  # None: the files have not been looked at yet

    def append(self, iteration: int, rows: Sequence[Row]) -> None:
        import pyarrow as pa

        named = _with_all_names([{KEY: iteration, **row} for row in rows])
        part = pa.table({name: _column([row[name] for row in named]) for name in named[0]})
        known = self._known_columns()
        self._columns = known + [name for name in part.column_names if name not in known]
        self._write(self._part_path(iteration), part)

    @property
    def num_columns(self) -> int:
        return len(self._known_columns())

    def cut_after(self, iteration: int, num_columns: int) -> None:
        remove_half_written(self.path)
        table = self._table()
        self._columns = self._known_columns()[:num_columns]
        kept = None if table is None else _rows_until(table, iteration).select(self._columns)
        if kept is None or not kept.num_rows:
            self.clear()
        else:
            self._replace(kept)

    def clear(self) -> None:
        remove_half_written(self.path)
        self.path.unlink(missing_ok=True)
        shutil.rmtree(self._parts_folder, ignore_errors=True)
        self._columns = []

    def close(self) -> None:
        if self._parts():
            self._replace(self._table())

    def _replace(self, table: pa.Table | None) -> None:
        self._write(self.path, table)
        # Parts that a kill leaves here are in the file already, or are cut off again by the next continuation.
        shutil.rmtree(self._parts_folder, ignore_errors=True)

    def _table(self) -> pa.Table | None:
        """Return all rows, from the file and from the parts that are not in it yet."""
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        tables = [pq.read_table(self.path)] if self.path.exists() else []
        last = pc.max(tables[0][KEY]).as_py() if tables else -1  # a backtest stands at iteration 0
        tables += [pq.read_table(path) for number, path in self._parts() if number > last]
        return _joined(tables) if tables else None

    def _known_columns(self) -> list[str]:
        if self._columns is None:
            table = self._table()
            self._columns = [] if table is None else table.column_names
        return self._columns

    def _parts(self) -> list[tuple[int, Path]]:
        """Return the iterations of the parts, and where they are, in order."""
        return sorted((int(path.stem), path) for path in self._parts_folder.glob("[0-9]*.parquet"))

    def _part_path(self, iteration: int) -> Path:
        return self._parts_folder / f"{iteration:09d}.parquet"

    def _write(self, path: Path, table: pa.Table) -> None:
        import pyarrow.parquet as pq

        stream = io.BytesIO()
        pq.write_table(table, stream)
        write_atomically(path, stream.getvalue())


def _with_all_names(rows: Sequence[Row]) -> list[Row]:
    """Return rows that all have the names of all, in the order of their appearance."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [{name: row.get(name) for name in names} for row in rows]


def _column(cells: Sequence[Any]) -> pa.Array:
    """Return a typed column; of text where no type fits all cells."""
    import pyarrow as pa

    try:
        return pa.array(cells)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        return pa.array([None if cell is None else str(cell) for cell in cells], pa.string())


def _joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the tables one below the other; a column whose types do not go together (numbers, then text) becomes text."""
    import pyarrow as pa

    options = {"promote_options": "permissive"}
    for name in dict.fromkeys(name for table in tables for name in table.column_names):
        kinds = {table.schema.field(name).type for table in tables if name in table.column_names}
        try:
            pa.unify_schemas([pa.schema([(name, kind)]) for kind in kinds], **options)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            tables = [_as_text(table, name) if name in table.column_names else table for table in tables]
    return pa.concat_tables(tables, **options).combine_chunks()


def _as_text(table: pa.Table, name: str) -> pa.Table:
    import pyarrow as pa

    cells = [None if cell is None else str(cell) for cell in table[name].to_pylist()]
    return table.set_column(table.column_names.index(name), name, pa.array(cells, pa.string()))


def _rows_until(table: pa.Table, iteration: int) -> pa.Table:
    import pyarrow.compute as pc

    return table.filter(pc.less_equal(table[KEY], iteration))
