"""One message for one fault, whoever made it."""

from __future__ import annotations

import errno
import json
import traceback
from pathlib import Path

import numpy as np
import pytest
import typer

from flows.cli.exit_codes import exit_code_of
from flows.cli.experiments import shipped_experiments
from rlcore.config.loading import load_experiment
from rlcore.environment.backends import InlineBackend, collect_episodes
from rlcore.environment.random_actions import RandomActions
from rlcore.environment.rollout import Passage
from rlcore.foundation.errors import ConfigError
from rlcore.foundation.random_streams import RandomStreams
from tests.environment_toys import Spend, SpendAction, spend_parts, spend_seeds


def refusal(*overrides: str) -> str:
    with pytest.raises(ConfigError) as error:
        load_experiment(shipped_experiments()["demo"], overrides)
    return str(error.value)


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("seeds=[-1]", "seeds.0 must be at least 0, was -1"),
        ("seeds=[a]", "seeds.0 must be a whole number, was 'a'"),
        ("action.fractions=[2]", "action.fractions.0 must be at most 1.0, was 2"),
        ("seeds=[]", "seeds must hold at least 1, was []"),
    ],
)
def test_a_wrong_entry_is_not_called_a_missing_one(override: str, says: str) -> None:
    assert refusal(override) == f"--set {override}: {says}"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "def register(registry):\n    raise RuntimeError('no luck')\n",
            "must register its parts, raised RuntimeError('no luck')",
        ),
        ("def register():\n    pass\n", "must register its parts, raised TypeError"),
        ("def register(registry):\n    raise SystemExit(0)\n", "must register its parts, raised SystemExit"),
        ("import sys\nsys.exit(0)\n", "must be importable, raised SystemExit"),
    ],
)
def test_a_plugin_that_fails_is_named(tmp_path: Path, text: str, says: str) -> None:
    plugin = tmp_path / "failing_parts.py"
    plugin.write_text(text)
    assert refusal(f"plugins=[{plugin}]").startswith(f"plugin {plugin} {says}")


def ending(error: BaseException, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, object], str]:
    application = typer.Typer(pretty_exceptions_enable=False)

    @application.command()
    def work(is_json: bool = typer.Option(False, "--json")) -> None:
        raise error

    code = exit_code_of(application, ["--json"])
    captured = capsys.readouterr()
    return code, json.loads(captured.out)["error"], captured.err


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (SystemExit(143), 143, "terminated"),
        (OSError(errno.ENOSPC, "No space left on device", "/some/file"), 1, "the disk must have room for /some/file, it is full"),
    ],
)
def test_every_ending_is_one_line_and_one_json_object(
    error: BaseException, code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, answer, said = ending(error, capsys)
    assert (found, answer["exit_code"]) == (code, code)
    assert str(answer["message"]).startswith(says)
    assert says in said
    assert len(said.splitlines()) == 1


POLICY = RandomActions(SpendAction.action_space)


class NeverSpends(Spend):
    def step(self, state, command):  # type: ignore[no-untyped-def]  # as in the toys
        raise ValueError("nothing works")


def test_what_every_episode_raises_is_shown_once() -> None:
    # Where a chunk raises it is halved until one seed is left: each half's error must not hang below that of the whole.
    seed_id = np.arange(8)
    with pytest.raises(ValueError, match="nothing works") as caught:
        collect_episodes(
            InlineBackend(),
            spend_parts(simulator=NeverSpends()),
            POLICY,
            spend_seeds(8),
            seed_id,
            np.zeros(8, np.int64),
            Passage(RandomStreams(0), "train", 8),
        )
    assert "".join(traceback.format_exception(caught.value)).count("ValueError: nothing works") == 1
