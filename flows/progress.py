"""How far a run is: told to whoever listens (a bar on a terminal), who need not be known to the flow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


class Progress(Protocol):
    """Is told news of a run, now and then and at the end of every stage."""

    def __call__(self, stage: str, done: int, total: int, text: str = "") -> None:
        """Take note that ``done`` of ``total`` of a stage are done.

        Args:
            stage: for example ``fit-agent seed 0 fold 1``.
            text: a word on the latest, for people.
        """


def no_progress(stage: str, done: int, total: int, text: str = "") -> None:
    """Take no note."""


_listener: ContextVar[Progress] = ContextVar("fillwright_progress", default=no_progress)


@contextmanager
def listening(progress: Progress) -> Iterator[None]:
    """Send the news of runs inside the block to ``progress``. No flow parameter: those must be plain data."""
    token = _listener.set(progress)
    try:
        yield
    finally:
        _listener.reset(token)


def tell(stage: str, done: int, total: int, text: str = "") -> None:
    """Pass news on to whoever listens."""
    _listener.get()(stage, done, total, text)
