"""The rules of the layout that import-linter does not know."""

import ast
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


def calls_in(path: Path) -> set[str]:
    """Return the dotted names of all calls in a file."""
    return {ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)}


def imports_in(path: Path) -> set[str]:
    """Return the top-level packages that a file imports, wherever in the file."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return names


def test_the_library_does_not_print_or_touch_global_settings() -> None:
    forbidden = {"print", "np.random.seed", "torch.manual_seed", "torch.set_num_threads", "random.seed"}
    # Seeds and restores the global generators around tianshou, and sets threads in worker processes of our own.
    allowed = {
        "rlcore/agents/isolated_randomness.py": {"np.random.seed", "torch.manual_seed"},
        "rlcore/training/worker_backend.py": {"torch.set_num_threads"},
    }
    for path in (ROOT / "rlcore").rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        assert calls_in(path) & forbidden <= allowed.get(name, set()), name


@pytest.mark.parametrize(("package", "home"), [("mlflow", "flows/tracking"), ("tianshou", "rlcore/agents")])
def test_a_library_has_one_importer(package: str, home: str) -> None:
    sources = [path for root in ("rlcore", "flows") for path in (ROOT / root).rglob("*.py")]
    importers = {path.relative_to(ROOT).as_posix() for path in sources if package in imports_in(path)} - {
        "flows/bench/qlib_rival.py"
    }
    assert importers and all(name.startswith(home + "/") for name in importers), importers


def test_top_level_folders_are_those_of_the_design() -> None:
    folders = {p.relative_to(ROOT).parts[0] for p in tracked() if len(p.relative_to(ROOT).parts) > 1}
    assert folders <= {"rlcore", "flows", "tests", "infra", "mlflow", ".ci", ".github"}


def test_imports_go_downwards() -> None:
    lint = subprocess.run([Path(sys.executable).with_name("lint-imports")], cwd=ROOT, capture_output=True, text=True, check=False)
    assert lint.returncode == 0, lint.stdout
