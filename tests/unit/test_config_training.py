"""The training section: everything that the trainer can do, from a file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from flows.cli.init import TASK_PLUGIN
from rlcore.config.build import build_task, build_trainer, build_vessel
from rlcore.config.loading import load_experiment, make_registry
from rlcore.foundation.errors import ConfigError
from rlcore.training.results import FitResult

QUICK = ["training.iterations=3", "training.episodes_per_iteration=8", "training.lanes=4", "training.validate_every=1"]
BY_STEPS = ["training.episodes_per_iteration=null", "training.steps_per_iteration=16", "training.lanes=4", "training.groups=2"]
REPLAY = {"memory_size": 500, "learn_after": 8, "gradient_steps_per_transition": 0.1}
CONTINUOUS = """\
from typing import Literal
import numpy as np
from gymnasium import spaces
from rlcore.config import EpisodeActionSpec
from rlcore.contracts import ActionInterpreter

class Signed(ActionInterpreter):
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    def interpret(self, state, action, status):
        return 1 if action[0] > 0 else -1

class SignedSpec(EpisodeActionSpec):
    '''The sign of a number.'''
    kind: Literal["signed"]
    def build(self, shape):
        return Signed()

def register(registry):
    registry.register("action", "signed", SignedSpec)
"""
OWN_LOGGER = """\
from typing import Literal
from rlcore.config import LoggerSpec
from rlcore.training.loggers import Logger

class Count(Logger):
    def __init__(self, path, name):
        super().__init__(name)
        self.path = path
    def log_metrics(self, iteration, metrics):
        self.path.write_text(str(iteration))

class CountSpec(LoggerSpec):
    '''Says how far it is.'''
    kind: Literal["count"]
    def build(self, folder, name):
        return Count(folder / "count.txt", name)

def register(registry):
    registry.register("logger", "count", CountSpec)
"""


def fit(file: Path, *overrides: str) -> tuple[FitResult, Path]:
    experiment = load_experiment(file, [*QUICK, *overrides])
    task = build_task(experiment)  # type: ignore[arg-type]  # a task experiment
    vessel = build_vessel(experiment, task.parts, task.seeds, seed=0)
    folder = file.parent / "training"
    return build_trainer(experiment, vessel, folder).fit(vessel), folder


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["training.steps_per_iteration=64"], "one of episodes_per_iteration and steps_per_iteration, had both"),
        (["training.episodes_per_iteration=null"], "one of episodes_per_iteration and steps_per_iteration, had neither"),
        (["training.groups=2"], "groups 1 where whole episodes are collected, was 2: give steps_per_iteration"),
        ([*BY_STEPS, "training.steps_per_iteration=20"], "steps_per_iteration a multiple of lanes x groups = 8, was 20"),
        (["training.checkpoints.file_name=best"], "training.checkpoints.file_name must be 'iteration_{iteration:06d}'"),
        (["training.early_stopping={patience: 0}"], "training.early_stopping.patience must be at least 1, was 0"),
        (["training.loggers=[{kind: paper}]"], "training.loggers.0.kind must be one of console, csv, parquet, tensorboard"),
        (
            ["training.loggers=[{kind: csv, level: all}]"],
            "training.loggers.0.level must be 'debug', 'periodic', 'info' or 'critical'",
        ),
        (["training.wall_clock_budget_seconds=0"], "training.wall_clock_budget_seconds must be greater than 0"),
        (["runtime.on_worker_death=wait"], "runtime.on_worker_death must be 'fail' or 'restart', was 'wait'"),
        (["training.early_stopping_patience=3"], "is none (did you mean 'early_stopping'?)"),
        (["training.checkpoint_every=3"], "is none (did you mean 'checkpoints'?)"),
    ],
)
def test_what_cannot_be_is_refused(file: Path, overrides: list[str], expected: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(expected)):
        load_experiment(file, overrides)


def test_lanes_go_on_from_iteration_to_iteration(file: Path) -> None:
    result, _ = fit(file, *BY_STEPS)
    assert (result.iteration, result.num_steps) == (3, 48)


def test_early_stopping_by_a_metric_of_training(file: Path) -> None:
    # Nobody improves on what is better by less than 10: the first judgement stands, the second and third are in vain.
    stopping = "{monitor: train/return/mean, patience: 2, min_delta: 10}"
    result, _ = fit(file, "training.iterations=9", f"training.early_stopping={stopping}")
    assert (result.status, result.iteration) == ("early_stopped", 3)


def test_early_stopping_by_the_first_of_several_validation_sets(file: Path) -> None:
    sets = "{home: {kind: values, initial_states: [1]}, far: {kind: values, initial_states: [9]}}"
    # "min" of a return that can only rise to 0.95, against a baseline that nothing beats.
    stopping = "{patience: 1, mode: min, baseline: -99}"
    result, _ = fit(file, "training.iterations=9", f"task.seeds.validation={sets}", f"training.early_stopping={stopping}")
    assert (result.status, result.iteration) == ("early_stopped", 2)
    assert result.reason.startswith("validation/home/return/mean did not improve in 2 validations")


def test_the_budget_of_time_ends_after_the_iteration_in_progress(file: Path) -> None:
    result, _ = fit(file, "training.wall_clock_budget_seconds=1e-6")
    assert (result.status, result.iteration) == ("out_of_time", 0)


def test_checkpoints_are_named_kept_and_chosen_as_the_file_says(file: Path) -> None:
    kept = "{every_iterations: 1, keep_last: 1, file_name: 'iteration_{iteration:06d}-{train/num_episodes:.0f}', "
    # Fewest steps so far: an iteration's own number, so that the first is the best and the last the newest.
    _, folder = fit(file, f"training.checkpoints={kept}monitor: train/total_steps, mode: min}}")
    names = sorted(path.name for path in (folder / "checkpoints").glob("*.ckpt"))
    assert names == ["best.ckpt", "iteration_000001-8.ckpt", "iteration_000003-8.ckpt", "latest.ckpt"]
    assert (folder / "checkpoints" / "best.ckpt").resolve().name == "iteration_000001-8.ckpt"


def test_loggers_write_where_the_training_lies(file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own_logger.py").write_text(OWN_LOGGER)
    loggers = (
        "{kind: console, every_iterations: 3}, {kind: csv, phases: [train]}, {kind: parquet}, {kind: tensorboard}, {kind: count}"
    )
    plugins = f"{tmp_path / TASK_PLUGIN}, {tmp_path / 'own_logger.py'}"
    _, folder = fit(file, f"plugins=[{plugins}]", f"training.loggers=[{loggers}]")
    assert len(pd.read_csv(folder / "train_episodes.csv")) == 3 * 8
    assert not (folder / "validation_episodes.csv").exists()
    assert len(pd.read_parquet(folder / "validation_episodes.parquet")) == 3 * 2
    assert list((folder / "tensorboard").iterdir())
    assert (folder / "count.txt").read_text() == "3"
    said = capfd.readouterr()
    assert said.out == ""  # the command may have promised JSON there
    assert said.err.startswith("[iteration 3]")


def test_a_quick_trial_takes_the_first_seeds_and_few_episodes(file: Path) -> None:
    result, _ = fit(file, "training.fast_dev_run=2")
    assert (result.num_episodes, result.metrics["validation/num_episodes"]) == (3 * 2, 2.0)


def test_worker_processes_find_the_task_and_change_nothing(file: Path) -> None:
    inline, folder = fit(file)
    folder.rename(folder.with_name("inline"))
    apart, _ = fit(file, "runtime.worker_backend=shmem", "runtime.on_worker_death=restart")
    assert apart.metrics == inline.metrics


def test_checks_of_first_episodes_only_are_said_loudly(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    experiment = load_experiment(file, ["runtime.space_checks=first_episodes"])
    assert build_task(experiment).parts.space_checks == "first_episodes"  # type: ignore[arg-type]  # a task experiment
    assert "first episode only" in caplog.text


def _agent(kind: str) -> dict[str, Any]:
    shared: dict[str, Any] = {
        "kind": kind, "network": {"kind": "mlp", "sizes": [8]}, "learning_rate": 1e-3, "discount": 0.9, "batch_size": 8
    }  # fmt: skip
    further: dict[str, dict[str, Any]] = {
        "ppo": {"num_repeats": 1},
        "a2c": {},
        "dqn": {**REPLAY, "target_update_every": 5, "exploration": {"initial": 1, "final": 0.1, "num_transitions": 50}},
        "sac": {**REPLAY, "critic_sizes": [8]},
        "discrete_sac": REPLAY,
    }
    return {**shared, **further[kind]}


@pytest.mark.parametrize("kind", sorted(make_registry().kinds("agent")))
def test_every_agent_learns_from_a_file(file: Path, tmp_path: Path, kind: str) -> None:
    agent = str(_agent(kind)).replace("'", "")
    overrides = [f"agent={agent}"]
    if kind == "sac":
        (tmp_path / "signed_action.py").write_text(CONTINUOUS)
        overrides += [f"plugins=[{tmp_path / TASK_PLUGIN}, {tmp_path / 'signed_action.py'}]", "task.action={kind: signed}"]
    result, folder = fit(file, *overrides, *(BY_STEPS if kind not in ("ppo", "a2c") else []))
    assert result.iteration == 3
    assert any(name.startswith("train/update/") for name in result.metrics)
    assert (folder / "checkpoints" / "best.ckpt").exists()
