"""What can be won at all on a run's test orders, where the market's law is known: the frame for what the agent wins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flows.fold_contents import open_orders
from flows.references import ExecutionFold
from rlcore.config.build import build_parts
from rlcore.config.execution_experiment import ExecutionExperiment
from rlcore.environment.parts import EnvironmentParts
from rlcore.execution.actions import CategoricalFractions
from rlcore.execution.baselines import Baseline
from rlcore.execution.dynamic_program import NoExactValueError, OrdersValue, value_orders
from rlcore.execution.orders import OrderSet
from rlcore.execution.signal_optimum import build_optimum
from rlcore.execution.simulator import FastSimulator
from rlcore.market.store import MarketStore


def possible_gain(experiment: ExecutionExperiment, folds: Sequence[ExecutionFold]) -> list[OrdersValue]:
    """Return V* and TWAP's value per side by backward induction, or nothing where there is no such answer."""
    store = MarketStore.open(folds[0].market.path)
    if store.signal is None:
        return []
    parts = build_parts(experiment, store)
    simulator, actions = parts.simulator, parts.action_interpreter
    if not (isinstance(simulator, FastSimulator) and isinstance(actions, CategoricalFractions)):
        return []
    try:
        orders = _together([open_orders(experiment, fold).test for fold in folds])
        return value_orders(simulator, orders, actions.fractions)
    except NoExactValueError:  # a cap that could bind, fills at another price than the close: no closed answer
        return []


def known_bounds(parts: EnvironmentParts, orders: OrderSet) -> dict[str, Baseline]:
    """Return the best policy of the market's law as a bound to run beside the agent, or nothing where there is none."""
    if orders.store.signal is None or not isinstance(parts.action_interpreter, CategoricalFractions):
        return {}
    try:
        return {"optimum": build_optimum(parts, orders)}
    except NoExactValueError:  # as above
        return {}


def _together(sets: Sequence[OrderSet]) -> OrderSet:
    names = ("row", "side", "quantity", "start_tick", "end_tick")
    return OrderSet(sets[0].store, **{name: np.concatenate([getattr(one, name) for one in sets]) for name in names})
