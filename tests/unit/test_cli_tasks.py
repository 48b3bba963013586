"""The command and tasks of one's own: what ``init --task`` writes, what ``list`` shows, what the schema allows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from flows.cli.application import application
from flows.cli.exit_codes import BAD_INPUT, DONE, exit_code_of
from flows.cli.experiments import shipped_experiments


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = exit_code_of(application, list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.fixture
def written(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Path:
    assert run(capsys, "init", "--task", str(tmp_path / "mine"))[0] == DONE
    return tmp_path / "mine"


def test_init_writes_a_task_that_is_valid_and_never_writes_over_anything(
    capsys: pytest.CaptureFixture[str], written: Path
) -> None:
    code, out, _ = run(capsys, "config", "check", str(written / "experiment.yaml"), "--json")
    result = json.loads(out)
    assert code == DONE
    assert result["experiment"]["task"]["simulator"] == {"kind": "walk", "wall": 10}
    assert result["estimate"]["num_trainings"] == 3
    (written / "own_task.py").unlink()
    code, _, err = run(capsys, "init", "--task", str(written))
    assert code == BAD_INPUT and "experiment.yaml" in err
    assert not (written / "own_task.py").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["config", "check", "experiment.yaml", "--set", "market.kind=bars"], "market must not stand beside task"),
        (["run", "experiment.yaml", "--as-of", "2024-01-02"], "--as-of must be left out for a task of one's own, was 2024-01-02"),
        (["run", "experiment.yaml", "--fast-dev-run", "0"], "Invalid value for '--fast-dev-run'"),
        (["list", "rwards"], "was 'rwards' (did you mean 'rewards'?)"),
    ],
)
def test_bad_input_ends_with_one_message_and_code_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, written: Path, arguments: list[str], expected: str
) -> None:
    monkeypatch.chdir(written)
    monkeypatch.setenv("FILLWRIGHT_HOME", str(written / "home"))
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (BAD_INPUT, "")
    assert expected in err and "Traceback" not in err
    assert not list((written / "home").glob("runs/*"))


def test_list_shows_one_category_of_a_plugin_with_one_line_each(capsys: pytest.CaptureFixture[str], written: Path) -> None:
    plugin = ["--plugin", str(written / "own_task.py")]
    code, out, _ = run(capsys, "list", "rewards", *plugin)
    assert code == DONE
    lines = out.splitlines()
    assert lines[lines.index("rewards of a task of one's own") + 1 :] == [
        "  arrival  1 at home.",
        "  effort   -1 for every step.",
    ]
    listed = json.loads(run(capsys, "list", "simulators", *plugin, "--json")[1])
    assert listed["experiments"] == {} and set(listed["parts"]) == {"simulator"}
    assert set(listed["parts"]["simulator"]) == {"fast", "walk"}
    assert {"ppo", "a2c", "dqn", "sac", "discrete_sac"} <= set(
        json.loads(run(capsys, "list", "agents", "--json")[1])["parts"]["agent"]
    )
    assert "demo" in run(capsys, "list", "experiments")[1]


def test_list_shows_every_kind_on_one_line(capsys: pytest.CaptureFixture[str], written: Path) -> None:
    out = run(capsys, "list", "--plugin", str(written / "own_task.py"))[1]
    parts = json.loads(run(capsys, "list", "--plugin", str(written / "own_task.py"), "--json")[1])["parts"]
    for kinds in parts.values():
        for kind, text in kinds.items():
            assert [line for line in out.splitlines() if line.split()[:1] == [kind] and text in line], kind


@pytest.fixture
def schema(capsys: pytest.CaptureFixture[str], written: Path) -> dict[str, Any]:
    code, out, _ = run(capsys, "config", "schema", "--plugin", str(written / "own_task.py"))
    assert code == DONE
    loaded: dict[str, Any] = json.loads(out)
    jsonschema.Draft202012Validator.check_schema(loaded)
    return loaded


def test_the_schema_accepts_files_of_both_forms(schema: dict[str, Any], written: Path) -> None:
    files = [path for name, path in shipped_experiments().items() if name != "minute_bars_ppo"]  # its source is still to be given
    for path in (*files, written / "experiment.yaml"):
        # YAML 1.1 reads 1e-3 as text; JSON knows no dates.
        data = json.loads(json.dumps(yaml.safe_load(path.read_text().replace("e-3", "").replace("e-4", ""))))
        jsonschema.validate(data, schema)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"market": {"kind": "synthetic"}}, "market"),
        ({"training": {"iterations": 1}}, "lanes"),
        ({"task": {"kind": "parts"}}, "simulator"),
    ],
)
def test_the_schema_refuses_what_the_command_refuses(
    schema: dict[str, Any], written: Path, change: dict[str, Any], expected: str
) -> None:
    data = yaml.safe_load((written / "experiment.yaml").read_text().replace("3e-3", "0.003"))
    with pytest.raises(jsonschema.ValidationError, match=expected):
        jsonschema.validate({**data, **change}, schema)
