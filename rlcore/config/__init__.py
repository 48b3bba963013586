"""The experiment file: YAML → frozen specs → parts."""

from rlcore.config.build import (
    build_agent,
    build_market,
    build_orders,
    build_parts,
    build_splits,
    build_task,
    build_trainer,
    build_vessel,
)
from rlcore.config.execution_experiment import ExecutionExperiment
from rlcore.config.experiment import ExperimentSpec
from rlcore.config.field_classes import field_class
from rlcore.config.loading import experiment_schema, load_experiment, make_registry, parse_experiment
from rlcore.config.logger_specs import LoggerSpec
from rlcore.config.policies import load_policy
from rlcore.config.specs import (
    ActionSpec,
    InputPath,
    MarketSpec,
    ObservationSpec,
    RewardSpec,
    SimulatorSpec,
    TaskShape,
)
from rlcore.config.task_experiment import TaskExperiment
from rlcore.config.task_specs import (
    EpisodeActionSpec,
    EpisodeAuxiliarySpec,
    EpisodeObservationSpec,
    EpisodeRewardSpec,
    EpisodeShape,
    EpisodeSimulatorSpec,
    SeedsSpec,
    Task,
    TaskSeeds,
    TaskSpec,
)

__all__ = [
    "ActionSpec",
    "EpisodeActionSpec",
    "EpisodeAuxiliarySpec",
    "EpisodeObservationSpec",
    "EpisodeRewardSpec",
    "EpisodeShape",
    "EpisodeSimulatorSpec",
    "ExecutionExperiment",
    "ExperimentSpec",
    "InputPath",
    "LoggerSpec",
    "MarketSpec",
    "ObservationSpec",
    "RewardSpec",
    "SeedsSpec",
    "SimulatorSpec",
    "Task",
    "TaskExperiment",
    "TaskSeeds",
    "TaskShape",
    "TaskSpec",
    "build_agent",
    "build_market",
    "build_orders",
    "build_parts",
    "build_splits",
    "build_task",
    "build_trainer",
    "build_vessel",
    "experiment_schema",
    "field_class",
    "load_experiment",
    "load_policy",
    "make_registry",
    "parse_experiment",
]
