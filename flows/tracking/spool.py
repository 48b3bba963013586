"""Operations that wait for the server, one file of JSON lines per flow run (the parent run and its children, in order)."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from pydantic import TypeAdapter, ValidationError

from flows.tracking.operations import Operation

_ADAPTER: TypeAdapter[Operation] = TypeAdapter(Operation)
_log = logging.getLogger(__name__)


class Spool:
    """The waiting operations of one flow run. One process at a time writes it: the owner of the flow run."""

    def __init__(self, path: Path, experiment: str) -> None:
        self.path = path
        self.experiment = experiment

    @classmethod
    def open_existing(cls, path: Path) -> Spool | None:
        """Return the spool in a file, or None where the file says nothing."""
        with path.open("rb") as stream:
            first = stream.readline()
        try:
            return cls(path, json.loads(first)["experiment"])
        except (ValueError, KeyError):
            return None

    def append(self, operations: Sequence[Operation]) -> None:
        """Add operations; they are in the file when this returns."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lines = [operation.model_dump_json() for operation in operations]
        with self.path.open("ab+") as stream:
            stream.seek(0)
            if not stream.readline().endswith(b"\n"):  # new, or killed in its first line
                stream.truncate(0)
                lines.insert(0, json.dumps({"experiment": self.experiment}))
            elif _last_byte(stream) != b"\n":
                lines.insert(0, "")  # ends the line that a kill tore
            stream.write("".join(f"{line}\n" for line in lines).encode())

    def read(self) -> list[Operation]:
        """Return what waits. A line torn by a kill is left out."""
        if not self.path.exists():
            return []
        operations = []
        for line in self.path.read_bytes().split(b"\n")[1:]:
            try:
                operations += [_ADAPTER.validate_json(line)] if line else []
            except ValidationError:
                _log.warning("one line of %s cannot be read and is left out: %r", self.path, line[:80])
        return operations

    def clear(self) -> None:
        """Forget what waits: it has arrived."""
        self.path.unlink(missing_ok=True)


def _last_byte(stream: BinaryIO) -> bytes:
    stream.seek(-1, os.SEEK_END)
    return stream.read()
