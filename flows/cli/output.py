"""What a command prints: for people, or one JSON object; a progress bar on a terminal only."""

from __future__ import annotations

import json
import math
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from flows.progress import Progress, no_progress

if TYPE_CHECKING:
    from rich.progress import TaskID


def print_result(result: Mapping[str, Any], lines: Sequence[str], is_json: bool) -> None:
    """Print the result as JSON, or its lines for people."""
    if is_json:
        print(json.dumps(_plain(result), ensure_ascii=False), flush=True)
    else:
        print("\n".join(lines), flush=True)


@contextmanager
def progress_shown(is_json: bool) -> Iterator[Progress]:
    """Yield what a run tells its progress; it shows a bar if stderr is a terminal and nobody asked for JSON."""
    if is_json or not sys.stderr.isatty():
        yield no_progress
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[text]}"),
    )
    with Bars(*columns, console=Console(stderr=True)) as bars:
        stages: dict[str, TaskID] = {}
        lock = threading.Lock()

        def show(stage: str, done: int, total: int, text: str = "") -> None:
            with lock:
                if stage not in stages:
                    stages[stage] = bars.add_task(stage, text="")
                bars.update(stages[stage], completed=done, total=total, text=text)

        yield show


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of text as lines with their columns below each other."""
    if not rows:
        return []
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _plain(value: Any) -> Any:
    """Return what JSON can hold: paths as text, figures that are not finite as null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, (str, int, float, bool)) or value is None:
        return value
    return str(value) if not hasattr(value, "item") else _plain(value.item())
