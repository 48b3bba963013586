"""The experiment of order execution: a market, orders, and how they are executed."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from rlcore.config.experiment import ExperimentSpec, Term
from rlcore.config.field_classes import field_class
from rlcore.config.order_specs import OrdersSpec, SplitSpec
from rlcore.config.specs import ActionSpec, MarketSpec, ObservationSpec, RewardSpec, SimulatorSpec
from rlcore.config.training_specs import EvaluationSpec


class ExecutionEvaluationSpec(EvaluationSpec):
    """How the agent is judged: every order once, beside baselines."""

    baselines: tuple[Literal["twap", "vwap", "immediate", "random", "clairvoyant"], ...] = (
        "twap",
        "vwap",
        "immediate",
        "random",
        "clairvoyant",
    )
    """Strategies that execute the same orders."""
    reference: Literal["twap", "vwap", "immediate"] = "twap"
    """The baseline that the agent is compared with, order by order."""
    confidence_level: Annotated[float, Field(gt=0.5, lt=1)] = 0.95
    """With which all confidence intervals hold at once (Bonferroni's correction)."""

    @model_validator(mode="after")
    def _reference_is_run(self) -> ExecutionEvaluationSpec:
        if self.reference not in self.baselines:
            raise ValueError(f"must have its reference among its baselines, {self.reference} is not in {list(self.baselines)}")
        return self


class ExecutionExperiment(ExperimentSpec):
    """An experiment in order execution: market data, orders, and an agent that executes them."""

    market: MarketSpec = Field(json_schema_extra=field_class("data"))
    """Bars of instruments and days."""
    orders: OrdersSpec = Field(json_schema_extra=field_class("data"))
    """What must be executed."""
    split: SplitSpec = Field(json_schema_extra=field_class("data"))
    """Which days train, validate and test."""
    execution: SimulatorSpec = Field(json_schema_extra=field_class("training"))
    """How orders are filled."""
    observation: ObservationSpec = Field(json_schema_extra=field_class("training"))
    """What the agent sees."""
    action: ActionSpec = Field(json_schema_extra=field_class("training"))
    """What the agent's actions mean."""
    reward: dict[Term, RewardSpec] = Field(min_length=1, json_schema_extra=field_class("training"))
    """Named, weighted terms; the names become the names of metrics."""
    evaluation: ExecutionEvaluationSpec = Field(ExecutionEvaluationSpec(), json_schema_extra=field_class("evaluation"))
    """Baselines and intervals of validation and backtest."""
