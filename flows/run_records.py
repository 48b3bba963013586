"""The runs of a home as small files: who runs, what ran, how it ended. A run belongs to one living process at a time."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from flows.home import Home
from flows.locks import claimed, try_to_claim
from rlcore.foundation.atomic_files import write_atomically

# killed: its process was gone at once; interrupted: it was asked to stop (Ctrl-C, SIGTERM) and has closed everything.
RunStatus = Literal["running", "finished", "failed", "killed", "interrupted"]
_RECORD = "run.json"


class RunRecord(BaseModel):
    """One run of the flow."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str
    """The run's name: time, experiment and a random end."""
    experiment: str
    identity: str
    """Fingerprint of all that decides the result; a killed run goes on under its own name when the identity is the same."""
    as_of: date | None
    status: RunStatus
    started_at: datetime
    ended_at: datetime | None = None
    num_starts: int = 1
    trial: int | None = None
    """Seeds of each set in a quick trial (``training.fast_dev_run``), whose figures are no result; None: a whole run."""
    prefect_flow_run: str | None = None
    mlflow_run: str | None = None
    report: Path | None = None
    figures: dict[str, float] = {}
    uses: tuple[Path, ...] = ()
    """Stores, seed sets and trainings that the run stands on."""
    trainings: tuple[Path, ...] = ()
    """Folders of the trainings, seed by seed."""
    message: str = ""
    """Why it ended as it did, in one sentence."""

    @property
    def can_go_on(self) -> bool:
        """Whether the same experiment takes this run up again where it ended."""
        return self.status in ("killed", "interrupted")


class OwnedRun:
    """A run that this process owns."""

    def __init__(self, home: Home, record: RunRecord) -> None:
        self._home = home
        self.record = record

    @property
    def folder(self) -> Path:
        return self._home.runs / self.record.run

    @property
    def is_resumed(self) -> bool:
        return self.record.num_starts > 1

    def update(self, **changes: object) -> None:
        """Write the record with these fields changed."""
        self.record = self.record.model_copy(update=changes)
        write_atomically(self.folder / _RECORD, self.record.model_dump_json(indent=1).encode())

    def end(self, status: RunStatus) -> None:
        self.update(status=status, ended_at=datetime.now(UTC))


@contextmanager
def own_run(home: Home, experiment: str, identity: str, as_of: date | None) -> Iterator[OwnedRun]:
    """Own a run for the length of the block: a killed or interrupted one of the same identity, else a new one.

    The claim is a lock of the operating system: it vanishes with its process, however that ends.
    """
    for record in _unfinished(home, identity):
        with try_to_claim(home.runs / record.run) as is_ours:
            if is_ours:
                run = OwnedRun(home, record)
                run.update(status="running", ended_at=None, num_starts=record.num_starts + 1)
                yield run
                return
    started = datetime.now(UTC)
    name = f"{started:%Y%m%d-%H%M%S}-{experiment}-{secrets.token_hex(2)}"
    folder = home.runs / name
    with claimed(folder):
        folder.mkdir(parents=True)
        run = OwnedRun(
            home,
            RunRecord(run=name, experiment=experiment, identity=identity, as_of=as_of, status="running", started_at=started),
        )
        run.update()
        yield run


def read_records(home: Home) -> list[RunRecord]:
    """Return all runs, newest first; a run that says it is running and has no living owner is given as killed."""
    records = []
    for path in home.runs.glob(f"*/{_RECORD}"):
        try:
            record = RunRecord.model_validate_json(path.read_bytes())
        except ValidationError:
            continue  # written by another version
        if record.status == "running" and not is_owned(home, record.run):
            record = record.model_copy(update={"status": "killed"})
        records.append(record)
    return sorted(records, key=lambda record: record.started_at, reverse=True)


def newer_run(home: Home, experiment: str, as_of: date) -> RunRecord | None:
    """Return a finished run that has seen more: after an outage, late runs come oldest first, when their day is over."""
    for record in read_records(home):
        if record.experiment == experiment and record.status == "finished" and record.as_of is not None and record.as_of > as_of:
            return record
    return None


def mark_killed(home: Home, record: RunRecord) -> bool:
    """Write down that a run was killed; returns whether that was news."""
    path = home.runs / record.run / _RECORD
    with try_to_claim(home.runs / record.run) as is_ours:
        if not is_ours or RunRecord.model_validate_json(path.read_bytes()).status != "running":
            return False
        OwnedRun(home, record).update(status="killed")
        return True


def is_owned(home: Home, run: str) -> bool:
    """Return whether a living process owns the run."""
    folder = home.runs / run
    if not folder.exists():
        return False
    with try_to_claim(folder) as is_ours:
        return not is_ours


def _unfinished(home: Home, identity: str) -> list[RunRecord]:
    return [r for r in read_records(home) if r.identity == identity and r.can_go_on]
