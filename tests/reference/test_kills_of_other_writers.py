"""A kill -9 at every operation on a file of the writers that ``test_training_kills`` goes without: TensorBoard's events, pointers
that are copies, checkpoints that are named by a metric. The end is that of a training that nobody killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rlcore.training.checkpoint import latest_valid_checkpoint, read_checkpoint
from rlcore.training.checkpoint_writer import CheckpointWriter
from rlcore.training.resume import code_fingerprint
from rlcore.training.tensorboard_logger import TensorBoardLogger
from rlcore.training.trainer import Trainer
from tests.training_kills import CONFIGURATIONS, KILLED_IN, MAX_ITERS, KillServer, assert_same_end

CONFIGURATION = "ppo_by_episodes"
SERVE = "import tests.training_kills as server; from tests.reference.test_kills_of_other_writers import fit; server.fit = fit; "


def fit(folder, configuration, plug=None):
    """What the server's trainings do, with other writers; returns how it ended."""
    vessel, settings = CONFIGURATIONS[configuration]()
    writer = CheckpointWriter(
        folder / "checkpoints", keep_last=1, pointers="copy", file_name="iteration_{iteration:06d}-{train/return/mean:.2f}"
    )
    before, after = plug.callbacks if plug is not None else ((), ())
    trainer = Trainer(
        max_iters=MAX_ITERS,
        val_every_n_iters=2,
        callbacks=[writer] if plug is None else [before, writer, after],
        loggers=[TensorBoardLogger(folder / "events")],
        **settings,
    )
    if plug is not None:
        plug.watch(vessel)
    return trainer.fit(vessel, latest_valid_checkpoint(folder / "checkpoints")).status


class OtherServer(KillServer):
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVE + "server._serve()", code_fingerprint()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )


@pytest.fixture(scope="module")
def server():
    running = OtherServer()
    yield running
    running.close()


def killed_at(server, folder, point, iteration):
    assert server.run(folder, CONFIGURATION, point, iteration) == -signal.SIGKILL, (folder / "log.txt").read_text()
    return folder


def operations(server, begun, folder, iteration):
    """Go on with a copy of what was begun; return every operation on a file that it passed in an iteration."""
    shutil.copytree(begun, folder, symlinks=True)
    assert server.run(folder, CONFIGURATION, "") == 0, (folder / "log.txt").read_text()
    passed = KillServer.end(folder)["passed"][iteration]
    return [name for name in passed if name.split()[0] in ("append", "half", "create", "rename", "flush", "remove", "link")]


def scalars(folder):
    reader = EventAccumulator(str(folder / "events"), size_guidance={"scalars": 0})
    reader.Reload()
    return {tag: [(event.step, event.value) for event in reader.Scalars(tag)] for tag in reader.Tags()["scalars"]}


@pytest.fixture(scope="module")
def whole(server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    assert server.run(folder, CONFIGURATION, "") == 0, (folder / "log.txt").read_text()
    assert [step for step, _ in scalars(folder)["train/return/mean"]] == list(range(1, MAX_ITERS + 1))
    return folder


def kill_at_each(server, begun, whole, points, iteration, root):
    for number, point in enumerate(points):
        folder = root / f"{number}"
        shutil.copytree(begun, folder, symlinks=True)
        killed_at(server, folder, point, iteration)
        for pointer in ("latest.ckpt", "best.ckpt"):
            read_checkpoint(folder / "checkpoints" / pointer)  # the one before or the new one, never half
        assert server.run(folder, CONFIGURATION) == 0, (folder / "log.txt").read_text()
        assert_same_end(whole, folder)
        assert scalars(folder) == scalars(whole), point


def test_a_kill_at_any_operation_of_an_iteration(server, whole, tmp_path):
    begun = killed_at(server, tmp_path / "begun", "checkpoint is written", KILLED_IN - 1)
    points = operations(server, begun, tmp_path / "going on", KILLED_IN)
    for wanted in (
        "append to events",
        "half events",
        "create checkpoints/.latest",
        "half checkpoints/.best",
        "remove checkpoints/i",
    ):
        assert any(point.startswith(wanted) for point in points), (wanted, points)
    kill_at_each(server, begun, whole, points, KILLED_IN, tmp_path)


def test_a_kill_at_any_operation_while_a_killed_training_is_taken_up(server, whole, tmp_path):
    begun = killed_at(server, tmp_path / "begun", "half checkpoints/.latest.ckpt.new", KILLED_IN)
    points = operations(server, begun, tmp_path / "going on", 0)
    assert any(point.startswith("half events") for point in points), points
    kill_at_each(server, begun, whole, points, 0, tmp_path)
