"""The wheel carries what the command reads, and nothing that would shadow another library."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names in a wheel built from a copy, so that the tree stays clean."""
    pytest.importorskip("setuptools", minversion="77", reason="building without isolation needs setuptools here")
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    for name in ("rlcore", "flows", "mlflow", "infra"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", source / "dist", source]
    built = subprocess.run(build, capture_output=True, text=True, check=False, cwd=source)
    assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-2000:]
    (wheel,) = (source / "dist").glob("*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def test_every_file_that_the_packages_read_is_in_it(names: set[str]) -> None:
    packages = [path for root in ("rlcore", "flows") for path in (ROOT / root).rglob("*") if path.is_file()]
    wanted = {path.relative_to(ROOT).as_posix() for path in packages if "__pycache__" not in path.parts}
    assert {"flows/py.typed", "rlcore/py.typed", "flows/tracking/promotion_policy.yaml"} <= wanted
    assert any(name.startswith("flows/experiments/") for name in wanted)
    assert wanted - names == set()


def test_nothing_else_is_in_it(names: set[str]) -> None:
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"rlcore", "flows"}
    assert any(name.endswith("licenses/LICENSE") for name in names)
