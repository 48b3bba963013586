"""Retention: what the latest runs stand on stays, the rest of the caches may go. MLflow's and Prefect's stores are left alone."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from flows.home import Home
from flows.locks import try_to_claim
from flows.run_records import RunRecord, read_records
from rlcore.training.checkpoint import checkpoints_in


@dataclass(frozen=True, slots=True)
class Garbage:
    """What may go."""

    paths: tuple[Path, ...]
    num_bytes: int


def find_garbage(home: Home, keep_runs: int) -> Garbage:
    """Return what no run that is kept stands on.

    Kept are the newest ``keep_runs`` runs, all that are running, were killed or interrupted (they can go on), and what those
    use. Of a finished training that is kept, the policy, the best and the newest checkpoint stay.
    """
    records = read_records(home)
    kept = [record for place, record in enumerate(records) if place < keep_runs or record.status == "running" or record.can_go_on]
    in_use = {path.resolve() for record in kept for path in record.uses}
    paths = [home.runs / record.run for record in records if record not in kept]
    for parent in (home.stores, home.seed_sets, home.trainings):
        for folder in _folders(parent):
            if folder.resolve() not in in_use:
                paths.append(folder)
            elif parent == home.trainings:
                paths += _spare_checkpoints(folder, kept)
    return Garbage(tuple(paths), sum(_size(path) for path in paths))


def collect(garbage: Garbage) -> Garbage:
    """Delete it; what another process holds at this moment is left. Returns what went."""
    gone = []
    num_bytes = 0
    for path in garbage.paths:
        size = _size(path)
        if path.is_file():
            path.unlink(missing_ok=True)
        elif not _delete_unless_held(path):
            continue
        gone.append(path)
        num_bytes += size
    return Garbage(tuple(gone), num_bytes)


def _folders(parent: Path) -> list[Path]:
    return sorted(path for path in parent.iterdir() if path.is_dir()) if parent.is_dir() else []


def _spare_checkpoints(training: Path, kept: list[RunRecord]) -> list[Path]:
    if any(record.status != "finished" for record in kept if training in record.uses):
        return []
    checkpoints = checkpoints_in(training / "checkpoints")
    pointed_at = {(training / "checkpoints" / pointer).resolve() for pointer in ("latest.ckpt", "best.ckpt")}
    return [path for path in checkpoints[1:] if path.resolve() not in pointed_at]


def _delete_unless_held(folder: Path) -> bool:
    # What a kill left of writing ``name`` lies beside it as ``.name.random``, and is held by whoever holds ``name``.
    owner = folder.name[1:].rsplit(".", 1)[0] if folder.name.startswith(".") else folder.name
    with try_to_claim(folder.parent / owner) as is_ours:
        if is_ours:
            shutil.rmtree(folder, ignore_errors=True)
        return is_ours


def _size(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
