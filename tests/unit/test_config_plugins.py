"""Parts of one's own: registered at every load, found again by worker processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from flows.cli.experiments import shipped_experiments
from rlcore.config.loading import load_experiment, make_registry
from rlcore.config.plugins import plugin_fingerprint
from rlcore.foundation.errors import ConfigError

PLUGIN = """\
from typing import Literal
from rlcore.config.specs import RewardSpec
from rlcore.contracts.reward import LaneReward

class Nothing(LaneReward):
    def reward(self, outcome, status):
        return 0.0 * outcome.remaining

class NothingSpec(RewardSpec):
    '''Nothing.'''
    kind: Literal["nothing"]
    def build(self, shape):
        return Nothing()

def register(registry):
    registry.register("reward", "nothing", NothingSpec)
"""
OVERRIDE = "reward.nothing={kind: nothing, weight: 1}"


def write(folder: Path, name: str = "zero_part", text: str = PLUGIN) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(text)
    return folder / f"{name}.py"


def load(plugin: str, *overrides: str):  # type: ignore[no-untyped-def]  # of a class made at load time
    return load_experiment(shipped_experiments()["demo"], [f"plugins=[{plugin}]", *overrides])


def test_a_plugin_file_adds_a_kind(tmp_path: Path) -> None:
    experiment = load(str(write(tmp_path)), OVERRIDE)
    assert experiment.reward["nothing"].kind == "nothing"
    assert experiment.plugins == (str(tmp_path / "zero_part.py"),)


def test_a_plugin_beside_the_experiment_is_found(tmp_path: Path) -> None:
    write(tmp_path, "beside_part")
    text = shipped_experiments()["demo"].read_text() + "\nplugins: [beside_part.py]\n"
    (tmp_path / "own.yaml").write_text(text)
    assert "nothing" in load_experiment(tmp_path / "own.yaml", [OVERRIDE]).reward


def test_without_the_plugin_its_kind_is_unknown() -> None:
    with pytest.raises(ConfigError, match="kind must be one of"):
        load_experiment(shipped_experiments()["demo"], [OVERRIDE])


def test_two_plugins_of_one_name_in_two_folders_do_not_mix(tmp_path: Path) -> None:
    first = write(tmp_path / "a", "twin_part")
    second = write(tmp_path / "b", "twin_part", PLUGIN.replace('"nothing"', '"nought"'))
    assert "nothing" in make_registry([str(first)]).kinds("reward")
    assert "nought" in make_registry([str(second)]).kinds("reward")
    assert "nothing" in make_registry([str(first)]).kinds("reward")


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("no_register", "x = 1", "must offer a function register"),
        ("raises_at_import", "raise RuntimeError('sun')", "must be importable, raised RuntimeError"),
        ("json", PLUGIN, "must have a name that no installed module has"),
        ("taken_kind", PLUGIN.replace('"nothing"', '"shortfall"'), "kind must be unused in category 'reward', was 'shortfall'"),
        (
            "wrong_kind",
            PLUGIN.replace('Literal["nothing"]', 'Literal["other"]'),
            'must have the field kind: Literal\\["nothing"\\]',
        ),
        ("wrong_base", PLUGIN.replace('"reward", "nothing"', '"action", "nothing"'), "must be a class derived from ActionSpec"),
    ],
)
def test_a_plugin_that_cannot_work_is_refused(tmp_path: Path, name: str, text: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        load(str(write(tmp_path, name, text)))


def test_a_plugin_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must be a file, is not there"):
        load(str(tmp_path / "absent.py"))
    with pytest.raises(ConfigError, match="was not found"):
        load("absent_module_of_nobody")


def test_the_fingerprint_of_plugins_is_that_of_their_source(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a", "print_part"), write(tmp_path / "b", "print_part")
    assert plugin_fingerprint([str(first)]) == plugin_fingerprint([str(second)])
    second.write_text(PLUGIN + "\n# changed\n")
    assert plugin_fingerprint([str(first)]) != plugin_fingerprint([str(second)])


def test_worker_processes_find_the_parts_of_a_plugin(tmp_path: Path) -> None:
    """A spawned process is handed ``sys.path`` and unpickles by module name; nothing else tells it of the plugin."""
    plugin = write(tmp_path, "worker_part")
    script = tmp_path / "script.py"
    script.write_text(
        "import multiprocessing\n"
        "from rlcore.config.loading import make_registry\n"
        "def name_of(part): return type(part).__name__\n"
        "if __name__ == '__main__':\n"
        f"    registry = make_registry([{str(plugin)!r}])\n"
        "    part = registry['reward', 'nothing'](kind='nothing', weight=1).build(None)\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        print(pool.apply(name_of, (part,)))\n"
    )
    # From a folder of its own: the script's own folder is on sys.path anyway.
    own = tmp_path / "own"
    own.mkdir()
    script.rename(own / "script.py")
    ended = subprocess.run([sys.executable, str(own / "script.py")], capture_output=True, text=True, check=False)
    assert ended.stdout.strip() == "Nothing", ended.stderr
