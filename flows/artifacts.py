"""What a run shows in Prefect: a bar for every training, tables and a report at the end. Showing never stops a run."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from prefect.artifacts import (
    create_link_artifact,
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.logging.handlers import APILogHandler, PrefectConsoleHandler

_SECONDS_BETWEEN_UPDATES = 2.0

_log = logging.getLogger(__name__)


class ProgressBar:
    """One bar, from 0 to 100 percent, updated at a bounded rate."""

    def __init__(self, key: str, description: str) -> None:
        self._next_update = 0.0
        self._artifact: UUID | None = _shown(
            lambda: create_progress_artifact(progress=0.0, key=artifact_key(key), description=description)
        )

    def update(self, done: int, total: int) -> None:
        """Show how many of how many are done; the end is always shown."""
        is_due = time.monotonic() >= self._next_update or done >= total
        artifact = self._artifact
        if artifact is not None and is_due:
            self._next_update = time.monotonic() + _SECONDS_BETWEEN_UPDATES
            _shown(lambda: update_progress_artifact(artifact_id=artifact, progress=min(100.0, 100.0 * done / total)))


def show_markdown(key: str, text: str, description: str) -> None:
    _shown(lambda: create_markdown_artifact(markdown=text, key=artifact_key(key), description=description))


def show_table(key: str, rows: Sequence[Mapping[str, Any]], description: str) -> None:
    _shown(lambda: create_table_artifact(table=[dict(row) for row in rows], key=artifact_key(key), description=description))


def show_link(key: str, link: str, text: str, description: str) -> None:
    _shown(lambda: create_link_artifact(link=link, link_text=text, key=artifact_key(key), description=description))


@contextmanager
def quiet_console() -> Iterator[None]:
    """Keep Prefect's log off the terminal inside the block.

    A progress bar may stand there, and what goes wrong is said once, by the command. The server gets all of it, and so does the
    terminal of somebody who asked for it (``--verbose``).
    """
    logger = logging.getLogger("prefect")
    console = [handler for handler in logger.handlers if isinstance(handler, PrefectConsoleHandler)]
    before = logger.propagate
    logger.propagate = logging.getLogger().isEnabledFor(logging.INFO)
    for handler in console:
        logger.removeHandler(handler)
    try:
        yield
    finally:
        APILogHandler().flush()  # the server may be ours and end soon
        logger.propagate = before
        for handler in console:
            logger.addHandler(handler)


def artifact_key(text: str) -> str:
    """Return the text with what Prefect's keys do not hold made into dashes."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def _shown(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:  # whatever the API raises: what is shown is not what is done
        _log.warning("an artifact could not be shown in Prefect: %s", error)
        return None
