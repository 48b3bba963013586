"""CSV as it stands. Pandas' own reading is too obliging: it renames a second header of one name, takes the first column for an
index where rows are longer than the header, and drops what is beyond: a thousands separator then shifts or cuts values."""

from __future__ import annotations

import csv
import warnings
from pathlib import Path
from typing import Any

import pandas as pd

_ENCODING = "utf-8-sig"  # with or without the mark that spreadsheets put in front


def csv_header(path: Path) -> list[str]:
    """Return the names in the first line, as they are.

    Raises:
        ValueError: for what is no UTF-8 text, or empty.
    """
    with path.open(encoding=_ENCODING, newline="") as stream:
        try:
            header = next(csv.reader(stream), None)
        except csv.Error as error:
            raise ValueError(str(error)) from error
    if header is None:
        raise ValueError("there is nothing in it")
    return header


def csv_rows(path: Path, **options: Any) -> pd.DataFrame:
    """Return the rows below the header; the index is the line in the file, blank lines counted, as an editor shows it.

    Args:
        path: the file.
        options: of ``pandas.read_csv``.

    Raises:
        ValueError: for what is no UTF-8 text, and for a row with more cells than the header.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            frame: pd.DataFrame = pd.read_csv(
                path, encoding=_ENCODING, index_col=False, skip_blank_lines=False, low_memory=False, **options
            )
        except pd.errors.ParserWarning as error:
            raise ValueError("line 2 has more cells than the header") from error
        except ValueError as error:  # the parser's own end with a line break
            raise ValueError(str(error).strip()) from error
    frame.index = frame.index + 2
    return frame
