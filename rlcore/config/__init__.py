"""The experiment file: YAML → frozen specs → parts."""

from rlcore.config.build import (
    build_agent,
    build_market,
    build_orders,
    build_parts,
    build_splits,
    build_trainer,
    build_vessel,
)
from rlcore.config.experiment import ExperimentSpec
from rlcore.config.loading import experiment_schema, load_experiment, make_registry, parse_experiment
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

__all__ = [
    "ActionSpec",
    "ExperimentSpec",
    "InputPath",
    "MarketSpec",
    "ObservationSpec",
    "RewardSpec",
    "SimulatorSpec",
    "TaskShape",
    "build_agent",
    "build_market",
    "build_orders",
    "build_parts",
    "build_splits",
    "build_trainer",
    "build_vessel",
    "experiment_schema",
    "load_experiment",
    "load_policy",
    "make_registry",
    "parse_experiment",
]
