"""Operations that wait for the server, one file of JSON lines per flow run (the parent run and its children, in order)."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path

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
        with path.open() as stream:
            first = stream.readline()
        try:
            return cls(path, json.loads(first)["experiment"])
        except (ValueError, KeyError):
            return None

    def append(self, operations: Sequence[Operation]) -> None:
        """Add operations; they are in the file when this returns."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not self.path.exists()
        with self.path.open("a") as stream:
            if is_new:
                stream.write(json.dumps({"experiment": self.experiment}) + "\n")
            stream.writelines(operation.model_dump_json() + "\n" for operation in operations)

    def read(self) -> list[Operation]:
        """Return what waits. A last line torn by a kill is left out."""
        if not self.path.exists():
            return []
        operations = []
        for line in self.path.read_text().splitlines()[1:]:
            try:
                operations.append(_ADAPTER.validate_json(line))
            except ValidationError:
                _log.warning("one line of %s cannot be read and is left out: %s", self.path, line[:80])
        return operations

    def clear(self) -> None:
        """Forget what waits: it has arrived."""
        self.path.unlink(missing_ok=True)
