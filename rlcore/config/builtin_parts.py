"""The parts that come with Fillwright, by category and kind."""

from __future__ import annotations

from rlcore.agents import builtin_agents as agents
from rlcore.config import execution_specs as execution
from rlcore.config import logger_specs as logger
from rlcore.config import market_specs as market
from rlcore.config import task_specs as task
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
    registry.register("seeds", "values", task.ValuesSpec)
    registry.register("seeds", "integers", task.IntegersSpec)
    registry.register("seeds", "rows", task.RowsSpec)
    registry.register("task", "parts", task.PartsTaskSpec)
    agents.register(registry)
    learning.register(registry)
    registry.register("logger", "console", logger.ConsoleLoggerSpec)
    registry.register("logger", "csv", logger.CsvLoggerSpec)
    registry.register("logger", "parquet", logger.ParquetLoggerSpec)
    registry.register("logger", "tensorboard", logger.TensorBoardLoggerSpec)
