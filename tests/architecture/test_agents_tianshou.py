"""tianshou stays where it belongs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

AGENTS = Path(__file__).resolve().parents[2] / "rlcore" / "agents"


def imports_of(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (module, name) of every import, also those inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


def test_batch_is_known_to_one_file() -> None:
    knowing = {path.name for path in AGENTS.rglob("*.py") for module, _ in imports_of(path) if module.startswith("tianshou.data")}
    assert knowing == {"tianshou_batch.py"}


def test_no_distribution_objects_in_policies() -> None:
    for path in AGENTS.rglob("*.py"):
        assert not any(module.startswith("torch.distributions") for module, _ in imports_of(path)), path.name


def test_specs_need_no_torch() -> None:
    """Reading an experiment takes no seconds: what is imported at the top of specs is light."""
    for path in (AGENTS / "specs.py", AGENTS.parent / "execution" / "learning" / "specs.py"):
        top = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.Import | ast.ImportFrom)]
        modules = {alias.name if isinstance(node, ast.Import) else str(node.module) for node in top for alias in node.names}
        assert not any(module.split(".")[0] in {"torch", "tianshou"} for module in modules)
        ours = {module for module in modules if module.startswith("rlcore")}
        assert ours <= {"rlcore.agents.specs", "rlcore.foundation.registry"}
