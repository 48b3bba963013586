"""Prefect's and MLflow's servers on loopback, on the project's own stores."""

from __future__ import annotations

import ctypes
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from flows.home import Home
from flows.locks import claimed
from flows.tracking.stores import artifact_root, database_path, open_client
from rlcore.foundation.atomic_files import write_atomically
from rlcore.foundation.errors import FillwrightError, InputError

PREFECT_PORT = 4200
MLFLOW_PORT = 5000
_HOST = "127.0.0.1"
_START_SECONDS = 120.0
_STOP_SECONDS = 20.0
_ADDRESSES = "servers.json"

_log = logging.getLogger(__name__)


class ServerError(FillwrightError):
    """A server did not start."""


@dataclass(frozen=True, slots=True)
class Servers:
    """Where the servers of a home answer."""

    prefect_url: str  # the user interface; its API is below /api
    mlflow_url: str

    @property
    def prefect_api(self) -> str:
        return f"{self.prefect_url}/api"


def server_environment(home: Home, prefect_port: int) -> dict[str, str]:
    """Return the environment of everything that serves a home: no telemetry, no calls outside, one place for state."""
    return {
        **os.environ,
        "DO_NOT_TRACK": "true",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        # By default MLflow adds eight processes and two gigabytes that run jobs nobody here starts.
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "PREFECT_HOME": str(home.prefect),
        "PREFECT_LOCAL_STORAGE_PATH": str(home.prefect / "results"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        # Without it the pages of a server on another port than 4200 still look for their data on 4200.
        "PREFECT_SERVER_UI_API_URL": f"http://{_HOST}:{prefect_port}/api",
        "OMP_NUM_THREADS": "1",
    }


@contextmanager
def serving(home: Home, prefect_port: int = PREFECT_PORT, mlflow_port: int = MLFLOW_PORT) -> Iterator[Servers]:
    """Run both servers for the length of the block.

    Raises:
        InputError: when a port is taken.
        ServerError: when a server does not come up; says where its log is.
    """
    for name, port in (("Prefect", prefect_port), ("MLflow", mlflow_port)):
        if _is_taken(port):
            raise InputError(f"port of the {name} server must be free, was {port}: stop what listens there, or name another")
    servers = Servers(f"http://{_HOST}:{prefect_port}", f"http://{_HOST}:{mlflow_port}")
    with ExitStack() as stack:
        stack.enter_context(_prefect_server(home, prefect_port))
        stack.enter_context(_mlflow_server(home, mlflow_port))
        addresses = home.root / _ADDRESSES
        content = {"prefect_url": servers.prefect_url, "mlflow_url": servers.mlflow_url}
        write_atomically(addresses, json.dumps(content).encode())
        try:
            yield servers
        finally:
            addresses.unlink(missing_ok=True)


def serving_now(home: Home) -> Servers | None:
    """Return the servers that run on this home, or None. An address left by a kill is not believed."""
    try:
        servers = Servers(**json.loads((home.root / _ADDRESSES).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return servers if _answers(f"{servers.prefect_api}/health") else None


@contextmanager
def prefect_api(home: Home) -> Iterator[str]:
    """Yield the address of a Prefect API: the one that is set, the home's running one, or one started for this block."""
    configured = os.environ.get("PREFECT_API_URL")
    if configured:
        yield configured
        return
    servers = serving_now(home)
    if servers is not None:
        yield servers.prefect_api
        return
    port = free_port()
    with _prefect_server(home, port):
        yield f"http://{_HOST}:{port}/api"


def free_port() -> int:
    """Return a port of the loopback interface on which nobody listens."""
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])


@contextmanager
def _prefect_server(home: Home, port: int) -> Iterator[None]:
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", _HOST, "--port", str(port), "--analytics-off"]
    environment = server_environment(home, port)
    environment.pop("PREFECT_API_URL", None)
    with _process(command, environment, home.prefect / "server.log", f"http://{_HOST}:{port}/api/health"):
        yield


@contextmanager
def _mlflow_server(home: Home, port: int) -> Iterator[None]:
    open_client(home.root)  # the store is made, by one process, before the server's workers look at it
    command = [sys.executable, "-m", "mlflow", "server", "--host", _HOST, "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{database_path(home.root)}"]
    command += ["--artifacts-destination", str(artifact_root(home.root))]
    environment = server_environment(home, port)
    environment.pop("MLFLOW_TRACKING_URI", None)
    with _process(command, environment, home.mlflow / "server.log", f"http://{_HOST}:{port}/health"):
        yield


@contextmanager
def _process(command: list[str], environment: Mapping[str, str], log: Path, health: str) -> Iterator[None]:
    # Two servers that make one database at once break it: they come up one after the other.
    with claimed(log.parent):
        process = _start(command, environment, log)
        try:
            _wait_until_healthy(process, health, log)
        except BaseException:
            _stop(process)
            raise
    try:
        yield
    finally:
        _stop(process)


def _start(command: list[str], environment: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as stream:
        # A session of its own, so that Ctrl-C reaches us first and the server's children can be stopped with it.
        return subprocess.Popen(
            command,
            env=dict(environment),
            stdout=stream,
            stderr=stream,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            cwd=log.parent,
            preexec_fn=_end_with_parent,
        )


def _end_with_parent() -> None:
    """Ask Linux to end this process when the one that started it is gone, however that ended."""
    if sys.platform == "linux":
        set_death_signal = 1  # PR_SET_PDEATHSIG
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGTERM)


def _wait_until_healthy(process: subprocess.Popen[bytes], health: str, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise ServerError(f"server must come up, ended with exit code {process.returncode}: {_last_line(log)}")
        if _answers(health):
            return
        time.sleep(0.2)
    raise ServerError(f"server must answer within {_START_SECONDS:.0f} seconds at {health}, did not: see {log}")


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").split("\n")
    said = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"{said} (see {log}; is the disk full?)"


def _stop(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:  # a loopback address that we made
            return bool(response.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError:
            return True
    return False
