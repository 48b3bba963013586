"""The parts that come with Fillwright, by category and kind."""

from __future__ import annotations

from rlcore.agents import builtin_agents as agents
from rlcore.config import execution_specs as execution
from rlcore.config import market_specs as market
from rlcore.execution.learning import specs as learning
from rlcore.foundation.registry import Registry


def register_builtin_parts(registry: Registry) -> None:
    """Register them. Names of kinds are never reused for something else."""
    registry.register("market", "bars", market.BarsSpec)
    registry.register("market", "synthetic", market.SyntheticSpec)
    registry.register("simulator", "fast", execution.FastSimulatorSpec)
    registry.register("observation", "current_step", execution.CurrentStepSpec)
    registry.register("observation", "full_history", execution.FullHistorySpec)
    registry.register("action", "categorical", execution.CategoricalFractionsSpec)
    registry.register("action", "twap_relative", execution.TwapRelativeSpec)
    registry.register("reward", "price_advantage", execution.PriceAdvantageSpec)
    registry.register("reward", "concentration_penalty", execution.ConcentrationPenaltySpec)
    registry.register("reward", "thresholded_terminal", execution.ThresholdedTerminalSpec)
    registry.register("reward", "shortfall", execution.ShortfallSpec)
    agents.register(registry)
    learning.register(registry)
