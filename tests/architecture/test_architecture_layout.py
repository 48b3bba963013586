"""The rules of the layout that import-linter does not know."""

import subprocess
import sys
from pathlib import Path

import mlflow
import pytest

ROOT = Path(__file__).resolve().parents[2]
FORBIDDEN_NAMES = {"utils", "helpers", "common", "base", "misc", "manager"}


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / line for line in listed.splitlines()]


def test_the_folder_mlflow_does_not_shadow_the_library() -> None:
    assert mlflow.__file__ is not None
    assert ROOT / "mlflow" not in Path(mlflow.__file__).resolve().parents
    assert not list((ROOT / "mlflow").rglob("*.py"))
    assert not (ROOT / "mlflow.py").exists()
    assert not (ROOT / "flows" / "mlflow.py").exists()


def test_the_library_is_found_from_the_root_of_the_project() -> None:
    # Bare pytest hides a shadowing package; a plain interpreter started in the root does not.
    command = [sys.executable, "-c", "import mlflow; print(mlflow.__version__)"]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip() == mlflow.__version__


@pytest.mark.parametrize("package", ["rlcore", "flows"])
def test_no_file_is_a_drawer(package: str) -> None:
    drawers = [str(p) for p in (ROOT / package).rglob("*.py") if p.stem in FORBIDDEN_NAMES]
    assert not drawers


def test_the_library_does_not_print_or_touch_global_settings() -> None:
    forbidden = ("print(", "np.random.seed", "torch.manual_seed(", "set_num_threads(", "random.seed(")
    allowed = {("rlcore/agents/isolated_randomness.py", "torch.manual_seed("), ("rlcore/agents/isolated_randomness.py", "np.random.seed")}
    found = [
        (str(path.relative_to(ROOT)), word)
        for path in (ROOT / "rlcore").rglob("*.py")
        for word in forbidden
        if word in path.read_text()
    ]
    assert set(found) <= allowed


def test_top_level_folders_are_those_of_the_design() -> None:
    folders = {p.relative_to(ROOT).parts[0] for p in tracked() if len(p.relative_to(ROOT).parts) > 1}
    assert folders <= {"rlcore", "flows", "tests", "infra", "mlflow", ".ci", ".github"}


def test_imports_go_downwards() -> None:
    lint = subprocess.run(
        [Path(sys.executable).with_name("lint-imports")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert lint.returncode == 0, lint.stdout
