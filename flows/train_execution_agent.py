"""The flow ``train-execution-agent``: market data, seed sets, one training per seed and fold, validation, backtest, report."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger
from prefect.runtime import deployment, flow_run

from flows.cli.experiments import open_experiment
from flows.execution_stages import backtest, prepare
from flows.home import Home
from flows.possible_gain import possible_gain
from flows.progress import tell
from flows.publishing import publish
from flows.results import gather
from flows.run_lifecycle import RunResult, carry_through, flow_run_name, result_of
from flows.run_records import newer_run
from flows.stages import Stage, Stages
from rlcore.config.execution_experiment import ExecutionExperiment
from rlcore.foundation.errors import ConfigError

FLOW_NAME = "train-execution-agent"


@flow(name=FLOW_NAME, flow_run_name=flow_run_name, persist_result=False)
def train_execution_agent(
    experiment: str | dict[str, Any],
    overrides: list[str] | None = None,
    as_of: date | None = None,
    home: str | None = None,
    until: Stage = "backtest",
) -> RunResult:
    """Train, validate and backtest an agent.

    Args:
        experiment: an experiment file, the name of a shipped one, or an experiment as plain data.
        overrides: ``KEY=VALUE`` texts for an experiment file.
        as_of: the last day that the run may see. None: for a run of a deployment the day before it was scheduled, else all days.
        home: the state folder; None: ``FILLWRIGHT_HOME``.
        until: the last stage.
    """
    opened = Home.open(Path(home) if home is not None else None)
    spec = open_experiment(experiment, overrides)
    if not isinstance(spec, ExecutionExperiment):
        raise ConfigError(
            f"experiment of {FLOW_NAME} must be one in order execution, was a task of one's own: run train-task-agent"
        )
    if as_of is None and deployment.id is not None:
        # Not the scheduled day itself: at night here it may be noon at an exchange, and half a day is no day.
        as_of = flow_run.scheduled_start_time.date() - timedelta(days=1)
        newer = newer_run(opened, spec.name, as_of)
        if newer is not None:
            return result_of(opened, newer, "execution", message=f"nothing to do for {as_of}: {newer.run} has seen more")
    return carry_through(opened, spec, as_of, until, lambda stages: _carry_out(stages, spec, until))


def _carry_out(stages: Stages, experiment: ExecutionExperiment, until: Stage) -> None:
    folds = prepare(stages)
    trainings = stages.train(folds)
    validations = stages.validate(folds, trainings) if until != "training" else []
    backtests = backtest(stages, folds, trainings) if until == "backtest" else []
    tell("report", 0, 1)
    possible = possible_gain(experiment, folds) if backtests else []
    publish(stages, experiment, gather(trainings, validations, backtests), possible)
    get_run_logger().info("%s", stages.run.record.message or f"finished the stage {until}")
    tell("report", 1, 1)
