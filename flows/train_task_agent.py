"""The flow ``train-task-agent``: a task of one's own, one training per seed, validation, test. It needs no market data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger

from flows.cli.experiments import open_experiment
from flows.home import Home
from flows.run_lifecycle import RunResult, carry_through, flow_run_name
from flows.stages import Stage, Stages
from flows.task_publishing import publish_task
from flows.task_results import gather_task
from flows.task_stages import describe_task, judge
from rlcore.config.task_experiment import TaskExperiment
from rlcore.foundation.errors import ConfigError

FLOW_NAME = "train-task-agent"


@flow(name=FLOW_NAME, flow_run_name=flow_run_name, persist_result=False)
def train_task_agent(
    experiment: str | dict[str, Any],
    overrides: list[str] | None = None,
    home: str | None = None,
    until: Stage = "backtest",
) -> RunResult:
    """Train, validate and test an agent on a task of one's own.

    Args:
        experiment: an experiment file, or an experiment as plain data.
        overrides: ``KEY=VALUE`` texts for an experiment file.
        home: the state folder; None: ``FILLWRIGHT_HOME``.
        until: the last stage; ``backtest`` runs the test seeds.
    """
    opened = Home.open(Path(home) if home is not None else None)
    spec = open_experiment(experiment, overrides)
    if not isinstance(spec, TaskExperiment):
        raise ConfigError(
            f"experiment of {FLOW_NAME} must be a task of one's own, was order execution: run train-execution-agent"
        )
    return carry_through(opened, spec, None, until, lambda stages: _carry_out(stages, spec, until))


def _carry_out(stages: Stages, experiment: TaskExperiment, until: Stage) -> None:
    fold = describe_task(experiment)
    trainings = stages.train([fold])
    validations = stages.validate([fold], trainings) if until != "training" else []
    tests = judge(stages, fold, trainings) if until == "backtest" else []
    publish_task(stages, gather_task(trainings, validations, tests), tests)
    get_run_logger().info("%s", stages.run.record.message)
