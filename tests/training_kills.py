"""Trainings in processes that are killed. ``python -m tests.training_kills`` imports everything once and then forks each.

Where they are killed is said by ``tests.kill_points``.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import psutil

import rlcore.training.vessel
from rlcore.training.callbacks import EarlyStopping, MetricsWriter
from rlcore.training.checkpoint import latest_valid_checkpoint, read_checkpoint
from rlcore.training.checkpoint_writer import CheckpointWriter
from rlcore.training.loggers import CsvLogger
from rlcore.training.parquet_logger import ParquetLogger
from rlcore.training.resume import code_fingerprint
from rlcore.training.trainer import Trainer
from rlcore.training.vessel import TrainingVessel
from tests.kill_points import END, Plug
from tests.training_agents import agent_for
from tests.training_toy import WalkSeeds, assert_same, hover_parts, hover_vessel, toy_vessel, walk_parts

MAX_ITERS = 6
KILLED_IN = 4  # the iteration that is killed, unless a point says another; a validating one


def ppo_by_episodes() -> tuple[TrainingVessel, dict[str, Any]]:
    return toy_vessel(agent_for("ppo", walk_parts())), {}


def dqn_by_steps() -> tuple[TrainingVessel, dict[str, Any]]:
    return hover_vessel(agent_for("dqn", hover_parts())), {}


def named_set_by_steps() -> tuple[TrainingVessel, dict[str, Any]]:
    counting = {"episodes_per_iteration": None, "steps_per_iteration": 24, "num_lanes": 2, "num_groups": 3}
    sets = {"far": WalkSeeds([5, -5])}
    return toy_vessel(agent_for("dqn", walk_parts()), validation_seeds=sets, **counting), {
        "monitor": "validation/far/return/mean"
    }


def ppo_in_workers() -> tuple[TrainingVessel, dict[str, Any]]:
    settings = {"finite_env_type": "subproc", "concurrency": 2, "on_worker_death": "restart"}
    return hover_vessel(agent_for("ppo", hover_parts())), settings


def episodes_in_workers() -> tuple[TrainingVessel, dict[str, Any]]:
    settings = {"finite_env_type": "subproc", "concurrency": 2, "on_worker_death": "restart"}
    return toy_vessel(agent_for("dqn", walk_parts())), settings


CONFIGURATIONS: dict[str, Callable[[], tuple[TrainingVessel, dict[str, Any]]]] = {
    made.__name__: made for made in (ppo_by_episodes, dqn_by_steps, named_set_by_steps, ppo_in_workers, episodes_in_workers)
}


def fit(folder: Path, configuration: str, plug: Plug | None = None) -> str:
    """Begin a training with everything that has state and writes files, or go on with it; returns how it ended."""
    vessel, settings = CONFIGURATIONS[configuration]()
    monitor = settings.pop("monitor", "validation/return/mean")
    trainer = Trainer(
        max_iters=MAX_ITERS,
        val_every_n_iters=2,
        callbacks=[
            *(plug.callbacks if plug is not None else ()),
            MetricsWriter(folder / "metrics"),
            EarlyStopping(monitor, patience=4, restore_best_weights=True),
            CheckpointWriter(folder / "checkpoints", keep_last=1, monitor=monitor),
        ],
        loggers=[CsvLogger(folder / "episodes"), ParquetLogger(folder / "episodes")],
        **settings,
    )
    if plug is not None:
        plug.watch(vessel)
    return trainer.fit(vessel, latest_valid_checkpoint(folder / "checkpoints")).status


def assert_same_end(one: Path, other: Path) -> None:
    """Every file is the same, to the bit, and there is no other file, hidden ones included."""
    names = _files_of(one)
    assert names == _files_of(other)
    for name in names:
        if (one / name).is_symlink():
            assert (one / name).readlink() == (other / name).readlink()
        elif name.endswith(".ckpt"):
            assert_same(read_checkpoint(one / name), read_checkpoint(other / name), name)
        else:
            assert (one / name).read_bytes() == (other / name).read_bytes(), name
    assert KillServer.end(one)["status"] == KillServer.end(other)["status"]


def _files_of(folder: Path) -> list[str]:
    parts = [folder / part for part in ("metrics", "episodes", "checkpoints")]
    return sorted(str(path.relative_to(folder)) for part in parts for path in part.rglob("*") if not path.is_dir())


# The server and its client.


def _serve() -> None:
    """Fork a process for each request on standard input; answer with its number, and with how it ended."""
    rlcore.training.vessel.code_fingerprint = lambda: sys.argv[1]  # one with the caller's, even while somebody edits the library
    for make in CONFIGURATIONS.values():
        make()  # imports what an agent needs, once
    for name in ("pandas", "pyarrow.parquet", "pyarrow.dataset"):  # likewise, for the loggers
        importlib.import_module(name)
    for line in sys.stdin:
        request = json.loads(line)
        number = os.fork()
        if number == 0:
            _live(request)
        print(number, flush=True)
        print(_waited(number, request["after_seconds"], request["victim"]), flush=True)


def _waited(number: int, after_seconds: float | None, victim: str) -> int:
    """Return the status of a process that ended, or was killed after so many seconds (or a worker of it, chosen by chance)."""
    if after_seconds is None:
        return os.waitpid(number, 0)[1]
    deadline = time.monotonic() + after_seconds
    while True:
        ended, status = os.waitpid(number, os.WNOHANG)
        if ended:
            return status
        found = [number] if victim == "training" else _workers_of(number)
        if time.monotonic() >= deadline and found:
            os.kill(random.choice(found), signal.SIGKILL)  # not waited for yet: the training's number is still its own
            return os.waitpid(number, 0)[1]
        time.sleep(0.001)


def _workers_of(number: int) -> list[int]:
    try:
        return [child.pid for child in psutil.Process(number).children() if "spawn_main" in " ".join(child.cmdline())]
    except psutil.NoSuchProcess:  # it ended while it was looked at
        return []


def _live(request: dict[str, Any]) -> None:
    os.setsid()
    folder = Path(request["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tmp").mkdir(exist_ok=True)
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder / "tmp")
    os.fsync = lambda descriptor: None  # what a killed process wrote is there without it
    log = os.open(folder / "log.txt", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    code = 1
    try:
        plug = None
        if request["point"] is not None:
            plug = Plug(folder, request["point"], request["iteration"], request["signal"])
        status = fit(folder, request["configuration"], plug)
        passed = {} if plug is None else dict(plug.passed)
        (folder / END).write_text(json.dumps({"status": status, "passed": passed}))
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)  # a forked process must not run the server's own end


class KillServer:
    """A process from which trainings are forked."""

    def __init__(self) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        root = Path(__file__).parent.parent
        command = [sys.executable, "-m", "tests.training_kills", code_fingerprint()]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root, env=environment
        )

    def run(
        self,
        folder: Path,
        configuration: str,
        point: str | None = None,
        iteration: int = KILLED_IN,
        signal_number: int = signal.SIGKILL,
        after_seconds: float | None = None,
        victim: Literal["training", "worker"] = "training",
    ) -> int:
        """Run one training to its end and return its exit code, or minus the number of the signal that ended it.

        Args:
            point: see Plug; None: none is watched.
            after_seconds: kill it then from outside, if it is still there.
            victim: it, or one of its worker processes.
        """
        request = {"folder": str(folder), "configuration": configuration, "point": point, "iteration": iteration,
                   "signal": signal_number, "after_seconds": after_seconds, "victim": victim}  # fmt: skip
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        number = int(self._process.stdout.readline())
        code = os.waitstatus_to_exitcode(int(self._process.stdout.readline()))
        _wait_for_end_of_group(number)
        return code

    @staticmethod
    def end(folder: Path) -> dict[str, Any]:
        """Return the status that a training ended with, and by iteration the points that it passed."""
        content: dict[str, Any] = json.loads((folder / END).read_text())
        return {"status": content["status"], "passed": {int(number): names for number, names in content["passed"].items()}}

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


@contextmanager
def kill_server() -> Iterator[KillServer]:
    server = KillServer()
    try:
        yield server
    finally:
        server.close()


def _wait_for_end_of_group(number: int) -> None:
    """Worker processes end by themselves when their parent was killed; one that does not is an error."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            os.killpg(number, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)
    raise AssertionError(f"a process of the killed training {number} is still alive")


if __name__ == "__main__":
    _serve()
