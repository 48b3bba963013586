"""The command: help in no time, one clear message for bad input, exit codes, JSON."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flows.cli.application import application
from flows.cli.exit_codes import BAD_INPUT, DONE, exit_code_of
from flows.home import Home
from flows.run_records import own_run


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = exit_code_of(application, list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys; from flows.cli.application import application; from flows.cli.exit_codes import exit_code_of\n"
        "code = exit_code_of(application, ['--help'])\n"
        "heavy = {'torch', 'tianshou', 'prefect', 'mlflow', 'pandas', 'numpy', 'gymnasium', 'pydantic'} & set(sys.modules)\n"
        "print(code, sorted(heavy))"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "0 []"


def test_config_check_says_what_it_costs(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "config", "check", "demo", "--json", "--set", "training.iterations=7")
    result = json.loads(out)
    assert code == DONE
    assert result["experiment"]["training"]["iterations"] == 7
    assert result["estimate"]["num_trainings"] == len(result["experiment"]["seeds"])
    assert set(result["digests"]) == {"data", "training", "budget", "evaluation"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["config", "check", "nope"], "experiment must be a YAML file or one of demo"),
        (["config", "check", "demo", "--set", "agent.lerning_rate=1"], "(did you mean 'learning_rate'?)"),
        (["config", "check", "demo", "--set", "x"], "--set must be given KEY=VALUE"),
        (["config", "check", "minute_bars_ppo"], "market.source must be given"),
        (["data", "check", "absent.csv", "--calendar", "XNYS"], "source must be an existing file"),
        (["run", "demo", "--as-of", "yesterday"], "--as-of must be a day such as 2021-06-09, was 'yesterday'"),
        (
            ["bench", "fitt"],
            "benchmark must be one of environment, rollout, fit, env_wrapper_step, was 'fitt' (did you mean 'fit'?)",
        ),
        (["schema"], "No such command 'schema'"),
        (["list", "--plugin", "absent.py"], "must be a file, is not there"),
    ],
)
def test_bad_input_ends_with_one_message_and_code_2(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str], expected: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (BAD_INPUT, "")
    assert expected in err and "Traceback" not in err
    assert list(tmp_path.iterdir()) == []  # nothing half-written


def test_an_error_is_json_too_when_json_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "config", "check", "nope", "--json")
    error = json.loads(out)["error"]
    assert (code, error["exit_code"], error["type"]) == (BAD_INPUT, BAD_INPUT, "ConfigError")
    assert error["message"] in err


def test_a_home_that_cannot_be_written_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, _, err = run(capsys, "run", "demo", "--home", str(tmp_path / "file" / "home"))
    assert code == BAD_INPUT
    assert "the home folder must be a folder that can be written" in err and "FILLWRIGHT_HOME" in err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_schema_is_a_json_schema_of_all_kinds(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = run(capsys, "config", "schema", "--output", str(tmp_path / "schema.json"), "--json")
    schema = json.loads((tmp_path / "schema.json").read_text())
    assert (code, json.loads(out)) == (DONE, {"schema": str(tmp_path / "schema.json")})
    assert {"PPOSpec", "DQNSpec", "BarsSpec", "SyntheticSpec"} <= set(schema["$defs"])
    assert {"market", "agent", "reward"} <= set(schema["$defs"]["ExecutionExperiment"]["required"])


def test_list_names_experiments_and_parts(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "list", "--json")
    listed = json.loads(out)
    assert code == DONE
    assert set(listed["experiments"]) == {"demo", "minute_bars_ppo", "synthetic_signal"}
    assert {"ppo", "dqn"} <= set(listed["parts"]["agent"])
    assert all(text for kinds in listed["parts"].values() for text in kinds.values())


def test_init_writes_what_is_valid_and_never_writes_over_anything(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(capsys, "init", str(tmp_path / "mine"))[0] == DONE
    assert run(capsys, "config", "check", str(tmp_path / "mine" / "experiment.yaml"))[0] == DONE
    (tmp_path / "mine" / "own_parts.py").unlink()
    code, _, err = run(capsys, "init", str(tmp_path / "mine"))
    assert code == BAD_INPUT and "experiment.yaml" in err
    assert not (tmp_path / "mine" / "own_parts.py").exists()


def test_data_is_checked_and_built(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    bars = tmp_path / "bars.csv"
    minutes = [f"2021-04-01T{14 + minute // 60:02}:{minute % 60:02}:00Z" for minute in range(30, 40)]
    bars.write_text("datetime,instrument,open,high,low,close,volume\n" + "".join(f"{at},X.A,1,1,1,1,5\n" for at in minutes))
    calendar = ["--calendar", "10:30-10:40 America/New_York"]
    code, out, _ = run(capsys, "data", "check", str(bars), *calendar, "--json")
    assert code == DONE and json.loads(out)["quality"]["num_bars"] == 10
    code, out, _ = run(capsys, "data", "build", str(bars), *calendar, "--output", str(tmp_path / "store"), "--json")
    assert code == DONE and json.loads(out)["num_instrument_days"] == 1
    bars.write_text(bars.read_text().replace(",1,5\n", ",-1,5\n", 1))
    code, _, err = run(capsys, "data", "build", str(bars), *calendar, "--output", str(tmp_path / "bad"))
    assert code == BAD_INPUT and "line 2" in err and not (tmp_path / "bad").exists()


def test_a_further_key_of_bars_can_be_set_and_an_unknown_one_not(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "bars.csv").touch()
    code, _, err = run(capsys, "data", "check", str(tmp_path / "bars.csv"), "--calendar", "XNYS", "--set", "tick_minute=5")
    assert code == BAD_INPUT and "did you mean 'tick_minutes'?" in err


def test_threads_are_those_of_the_experiment() -> None:
    script = (
        "from flows.cli.experiments import load; import os\n"
        "load('demo', ['runtime.threads=2'])\n"
        "import torch; print(torch.get_num_threads(), os.environ['OMP_NUM_THREADS'])"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert ended.stdout.split() == ["2", "2"]


def test_doctor_finds_this_installation_fit(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = run(capsys, "doctor", "--home", str(tmp_path / "home"), "--json")
    findings = json.loads(out)["findings"]
    assert code == DONE
    assert {"python", "torch", "home", "disk", "mlflow"} <= {finding["check"] for finding in findings}
    assert not [finding for finding in findings if finding["status"] == "failed"]


def test_runs_of_a_new_home_are_none(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = run(capsys, "runs", "--home", str(tmp_path / "home"), "--json")
    assert (code, json.loads(out)) == (DONE, {"runs": []})
    assert not (tmp_path / "home").exists()  # looking makes nothing


def test_runs_tells_trials_and_interrupted_runs_from_others(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    home = Home.open(tmp_path / "home")
    for identity, trial, status in (("a", None, "finished"), ("b", 2, "interrupted")):
        with own_run(home, identity, identity, None) as record:
            record.update(trial=trial)
            record.end(status)  # type: ignore[arg-type]  # one of RunStatus
    lines = run(capsys, "runs", "--home", str(home.root))[1].splitlines()
    assert {tuple(line.split()[1:3]) for line in lines} == {("status", "kind"), ("finished", "whole"), ("interrupted", "trial")}


def test_verbose_does_not_tell_of_every_request(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(capsys, "--verbose", "runs", "--home", str(tmp_path))[0] == DONE
    for name in ("httpx", "httpcore"):
        assert not logging.getLogger(f"{name}._client").isEnabledFor(logging.INFO)
        assert logging.getLogger(name).isEnabledFor(logging.WARNING)
