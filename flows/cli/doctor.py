"""``fillwright doctor``: is this installation fit for work?"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import typer

from flows.cli.exit_codes import FAILED
from flows.cli.options import HomeFolder, Json

_LIBRARIES = ("numpy", "pandas", "pyarrow", "torch", "tianshou", "gymnasium", "prefect", "mlflow", "exchange_calendars")
_LOW_DISK_GIB = 2.0
_GIB = 2.0**30


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found."""

    check: str
    status: Literal["ok", "warning", "failed"]
    text: str


def doctor(home: HomeFolder = None, is_json: Json = False) -> None:
    """Check Python, libraries, device, home and disk; exit code 1 when something must be mended."""
    from flows.cli.output import aligned, print_result

    findings = [finding for check in _CHECKS for finding in check(home)]
    rows = [(finding.status, finding.check, finding.text) for finding in findings]
    print_result({"findings": [asdict(finding) for finding in findings]}, aligned(rows), is_json)
    if any(finding.status == "failed" for finding in findings):
        raise typer.Exit(FAILED)


def _python(_: Path | None) -> Iterator[Finding]:
    wanted = importlib.metadata.metadata("fillwright")["Requires-Python"]
    is_right = (3, 11) <= sys.version_info[:2] < (3, 14)
    yield Finding("python", "ok" if is_right else "failed", f"{platform.python_version()}, wanted {wanted}")


def _libraries(_: Path | None) -> Iterator[Finding]:
    from packaging.requirements import Requirement

    for text in importlib.metadata.requires("fillwright") or ():
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            found = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            yield Finding(requirement.name, "failed", f"not installed, wanted {requirement.specifier}: pip install '{text}'")
            continue
        if not requirement.specifier.contains(found, prereleases=True):
            yield Finding(requirement.name, "failed", f"{found}, wanted {requirement.specifier}: pip install '{text}'")
    for name in _LIBRARIES:
        try:
            module = importlib.import_module(name)
        except Exception as error:  # a broken installation can raise anything
            yield Finding(name, "failed", f"import raised {error!r}")
            continue
        yield Finding(name, "ok", str(getattr(module, "__version__", importlib.metadata.version(name))))


def _mlflow_folder(_: Path | None) -> Iterator[Finding]:
    # A folder mlflow/ where a command is given shadows the library as soon as it holds Python files.
    spec = importlib.util.find_spec("mlflow")
    origin = spec.origin if spec is not None else None
    if origin is None or Path(origin).parent.parent == Path.cwd():
        yield Finding("mlflow", "failed", f"must be the installed library, is {origin or 'a bare folder'}: move that folder away")


def _device(_: Path | None) -> Iterator[Finding]:
    import torch

    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    yield Finding("device", "ok", f"runtime.device auto means {name}; {os.cpu_count()} cores")


def _home(home: Path | None) -> Iterator[Finding]:
    from flows.home import Home
    from rlcore.foundation.errors import InputError

    try:
        root = Home.open(home).root
    except InputError as error:
        yield Finding("home", "failed", str(error))
        return
    yield Finding("home", "ok", str(root))
    free = shutil.disk_usage(root).free / _GIB
    yield Finding("disk", "ok" if free >= _LOW_DISK_GIB else "warning", f"{free:.1f} GiB free: `fillwright gc` frees more")


def _memory(_: Path | None) -> Iterator[Finding]:
    import psutil

    memory = psutil.virtual_memory()
    yield Finding("memory", "ok", f"{memory.available / _GIB:.1f} of {memory.total / _GIB:.1f} GiB available")


_CHECKS: tuple[Callable[[Path | None], Iterator[Finding]], ...] = (
    _python,
    _libraries,
    _mlflow_folder,
    _device,
    _home,
    _memory,
)
