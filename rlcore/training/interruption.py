"""SIGTERM as a clean stop: it cuts through the work of an iteration, and never through a callback or a file being written."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any


class IterationAbandoned(BaseException):
    """The iteration in progress is given up. Not an ``Exception``, so that no user's ``except Exception`` swallows it."""


class Interruption:
    """A request to stop, from SIGTERM (while entered, in the main thread) or from ``request`` (any thread).

    Inside ``abandonable`` SIGTERM raises at once; everywhere else, and for requests from other threads, it takes effect at the
    next edge of an abandonable section; a request before anything runs ends what runs next. The handler that was there before
    stands again afterwards; a SIGTERM that came when nothing was left to abandon is handed to it.
    """

    def __init__(self) -> None:
        self.is_requested = False
        self._is_inside = False
        self._is_signal_open = False  # SIGTERM came, and nothing was abandoned for it
        self._previous: Any = None  # signal.signal's own type: a handler, a number or None
        self._is_installed = False

    def request(self) -> None:
        self.is_requested = True

    def __enter__(self) -> Interruption:
        # Python allows handlers in the main thread only; an orchestrator may well call us from another.
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGTERM, self._on_signal)
            self._is_installed = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._is_installed:
            signal.signal(signal.SIGTERM, signal.SIG_DFL if self._previous is None else self._previous)
            self._is_installed = False
        is_signal_open = self._is_signal_open
        self.is_requested = self._is_signal_open = False  # used up: the next training may run
        if is_signal_open:
            signal.raise_signal(signal.SIGTERM)

    @contextmanager
    def abandonable(self) -> Iterator[None]:
        """Mark work that may be given up half-way.

        Raises:
            IterationAbandoned: at entry, anywhere inside, or at the exit, once a stop is requested.
        """
        self._raise_if_requested()
        self._is_inside = True
        try:
            yield
        except Exception as error:
            if self.is_requested:  # a SIGTERM to the whole process group also ends worker processes, which is then no failure
                self._is_signal_open = False
                raise IterationAbandoned from error
            raise
        finally:
            self._is_inside = False
        self._raise_if_requested()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._is_signal_open |= not self.is_requested  # the clean-up of the first answers a second one too
        self.is_requested = True
        if self._is_inside:
            self._is_inside = False  # once: a second SIGTERM must not cut through the clean-up of the first
            self._is_signal_open = False
            raise IterationAbandoned

    def _raise_if_requested(self) -> None:
        if self.is_requested:
            self._is_signal_open = False
            raise IterationAbandoned
