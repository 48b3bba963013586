"""A monitor must name a metric that can exist, or a training of hours ends with nothing ever judged."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from flows.cli.experiments import load
from rlcore.config.build import build_task, build_trainer, build_vessel
from rlcore.config.estimate import estimate
from rlcore.config.loading import load_experiment
from rlcore.config.monitors import check_figures, check_monitor
from rlcore.config.task_experiment import TaskExperiment
from rlcore.foundation.errors import ConfigError
from rlcore.training.callbacks import EarlyStopping
from rlcore.training.checkpoint_writer import CheckpointWriter

SETS = "task.seeds.validation={near: {kind: values, initial_states: [1]}, far: {kind: values, initial_states: [9]}}"


@pytest.mark.parametrize(
    ("sets", "monitor", "hint"),
    [
        ([], "val/return", "(did you mean 'validation/return/mean'?)"),
        ([], "validation/return", "(did you mean 'validation/return/mean'?)"),
        ([], "validation/near/return/mean", "(did you mean 'validation/return/mean'?)"),
        ([], "train/reward/arrival", "(did you mean 'train/reward/arrival/mean'?)"),
        ([], "loss", ": such as 'validation/return/mean'"),
        ([SETS], "validation/return/mean", "(did you mean 'validation/near/return/mean'?)"),
        ([SETS], "validation/fare/return/mean", "(did you mean 'validation/far/return/mean'?)"),
        ([SETS], "validation/far/return", "(did you mean 'validation/far/return/mean'?)"),
        ([SETS], "validation/num_episodes", "(did you mean"),
    ],
)
@pytest.mark.parametrize("section", ["early_stopping", "checkpoints"])
def test_a_metric_that_cannot_exist_is_refused(file: Path, section: str, sets: list[str], monitor: str, hint: str) -> None:
    text = "{patience: 2, " if section == "early_stopping" else "{"
    expected = rf"--set training\.{section}=.*: training\.{section}\.monitor must be train/.*, was '{monitor}' ?{re.escape(hint)}"
    with pytest.raises(ConfigError, match=expected):
        load_experiment(file, [*sets, f"training.{section}={text}monitor: {monitor}}}"])


@pytest.mark.parametrize(
    ("sets", "monitor"),
    [
        ([], "validation/return/mean"),
        ([], "validation/distance_left/mean"),  # the simulator's own
        ([], "validation/reward/return/mean"),  # a term of the reward may be called so
        ([], "validation/truncated_fraction"),
        ([], "train/update/loss/actor"),
        ([], "train/reward_per_step"),
        ([], "train/return/std"),
        ([SETS], "validation/far/return/mean"),
        ([SETS], "validation/near/num_failed"),
        ([SETS], "train/return/mean"),
    ],
)
def test_a_metric_that_can_exist_is_not(file: Path, sets: list[str], monitor: str) -> None:
    experiment = load_experiment(file, [*sets, f"training.checkpoints.monitor={monitor}"])
    assert experiment.training.checkpoints.monitor == monitor


def test_order_execution_has_one_set_without_a_name() -> None:
    load("demo", ["training.checkpoints.monitor=validation/shortfall_bps/mean"])
    with pytest.raises(ConfigError, match="did you mean 'validation/return/mean'"):
        load("demo", ["training.checkpoints.monitor=validation/all/return/mean"])


def test_every_metric_of_a_training_may_be_monitored(file: Path, tmp_path: Path) -> None:
    quick = ["training.iterations=1", "training.validate_every=1", "training.episodes_per_iteration=8", "training.lanes=4"]
    experiment = load_experiment(file, [*quick, SETS])
    assert isinstance(experiment, TaskExperiment)
    task = build_task(experiment)
    vessel = build_vessel(experiment, task.parts, task.seeds, seed=0)
    build_trainer(experiment, vessel, tmp_path / "training").fit(vessel)
    names = [name for phase in ("train", "validation") for name in pd.read_csv(tmp_path / "training" / f"{phase}.csv").columns]
    metrics = [name for name in names if "/" in name]
    assert {"train/return/mean", "validation/near/return/mean", "validation/far/num_episodes"} <= set(metrics)
    assert experiment.validation_phases == ("validation/near", "validation/far")
    for name in metrics:
        check_monitor(("monitor",), name, experiment.validation_phases)


def test_a_trial_finds_a_figure_that_no_episode_has(file: Path) -> None:
    stopping = "training.early_stopping={patience: 1, monitor: train/retrun/std}"
    with pytest.raises(
        ConfigError, match=r"early_stopping.monitor must name a figure that .*'train/retrun/std' .*mean 'return'\?"
    ):
        estimate(load_experiment(file, [stopping]))
    with pytest.raises(
        ConfigError, match=r"was 'validation/far/walls/mean' with 'walls': they have .*num_steps, return, reward/"
    ):
        estimate(load_experiment(file, [SETS, "training.checkpoints.monitor=validation/far/walls/mean"]))
    with pytest.raises(
        ConfigError, match=r"checkpoints.monitor must name a figure that episodes have, was 'validation/slippage/mean'"
    ):
        estimate(load("demo", ["training.checkpoints.monitor=validation/slippage/mean"]))


@pytest.mark.parametrize(
    "name",
    [
        "validation/far/return/mean",
        "validation/far/num_failed",
        "train/return/num_missing",
        "train/update/loss",
        "train/total_steps",
    ],
)
def test_a_figure_that_episodes_have_may_be_monitored(name: str) -> None:
    check_figures([(("monitor",), name)], ("train", "validation/near", "validation/far"), ["return", "num_steps"])


def test_unless_the_file_says_more_the_first_of_several_sets_chooses_and_stops(file: Path, tmp_path: Path) -> None:
    experiment = load_experiment(file, [SETS, "training.early_stopping={patience: 2}"])
    assert isinstance(experiment, TaskExperiment)
    task = build_task(experiment)
    vessel = build_vessel(experiment, task.parts, task.seeds, seed=0)
    callbacks = build_trainer(experiment, vessel, tmp_path / "training").callbacks
    monitors = [one.monitor for one in callbacks if isinstance(one, (CheckpointWriter, EarlyStopping))]
    assert monitors == ["validation/near/return/mean"] * 2


def test_a_task_that_is_given_whole_is_checked_when_its_sets_are_known(file: Path, tmp_path: Path) -> None:
    path = ("training", "checkpoints", "monitor")
    check_monitor(path, "validation/near/return/mean", None)
    with pytest.raises(ConfigError, match=r"training\.checkpoints\.monitor must be train/.*, was 'val/return/mean'"):
        check_monitor(path, "val/return/mean", None)
    with_one, with_several = (
        load_experiment(file, [change]) for change in ("training.checkpoints.monitor=validation/return/mean", SETS)
    )
    assert isinstance(with_several, TaskExperiment)
    task = build_task(with_several)
    with pytest.raises(ConfigError, match="did you mean 'validation/near/return/mean'"):
        build_trainer(with_one, build_vessel(with_one, task.parts, task.seeds, seed=0), tmp_path / "training")
