"""The optimal policy of the Markov-signal market, to run beside the agent on the same orders."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlcore.contracts.interpreters import LaneStateInterpreter
from rlcore.contracts.policy import Decision, Policy
from rlcore.contracts.status import LaneStatus
from rlcore.environment.parts import EnvironmentParts
from rlcore.execution.actions import CategoricalFractions
from rlcore.execution.baselines import Baseline
from rlcore.execution.dynamic_program import NoExactValueError, WindowSolution, solve_orders
from rlcore.execution.orders import OrderSet
from rlcore.execution.simulator import FastSimulator
from rlcore.execution.states import ExecutionView
from rlcore.foundation.random_streams import LaneRandomness

Floats = NDArray[np.float64]


class SignalKnowledge(LaneStateInterpreter[ExecutionView]):
    """What decides the best action: window (start, end), side, steps taken, remaining fraction, state of the signal.

    The state is the position in ``values`` of what the field ``signal`` shows at the last completed tick; ``len(values)`` where
    nothing is published yet.
    """

    def __init__(self, values: tuple[float, ...]) -> None:
        self._values = np.array(values)
        self._space = spaces.Box(-np.inf, np.inf, (6,), np.float64)

    @property
    def observation_space(self) -> spaces.Box:
        return self._space

    def interpret(self, view: ExecutionView, status: LaneStatus) -> Floats:
        shown = view.latest("signal")
        nearest = np.abs(np.nan_to_num(shown)[:, None] - self._values).argmin(axis=-1)
        state = np.where(np.isnan(shown), len(self._values), nearest)
        order = view.order
        return np.stack(
            [order.start_tick, order.end_tick, order.side, view.step, view.remaining / order.quantity, state], axis=-1
        ).astype(np.float64)


class SignalOptimum(Policy):
    """The action that backward induction found best."""

    def __init__(self, solutions: list[WindowSolution], fractions: tuple[float, ...]) -> None:
        self._solutions = solutions
        self._fractions = np.array(fractions)

    def decide(self, reference: Any, internal_state: Any, mask: NDArray[np.bool_] | None, randomness: LaneRandomness) -> Decision:
        action = np.zeros(len(reference), np.int64)
        for solved in self._solutions:
            window = solved.window
            own = np.flatnonzero((reference[:, :3] == [window.start_tick, window.end_tick, window.side]).all(axis=-1))
            step, state = reference[own, 3].astype(np.int64), reference[own, 5].astype(np.int64)
            level = np.abs(reference[own, 4, None] - solved.levels).argmin(axis=-1)
            target = solved.levels[solved.solution.best_level[step, level, state]]
            after = np.maximum(solved.levels[level, None] - self._fractions, 0.0)
            action[own] = np.abs(after - target[:, None]).argmin(axis=-1)
        return Decision(action=action)


def build_optimum(parts: EnvironmentParts, orders: OrderSet) -> Baseline:
    """Return the optimal policy for these orders on the simulator, actions and reward of ``parts``.

    Raises:
        NoExactValueError: where the optimum is not known; see ``value_orders``.
    """
    simulator, actions = parts.simulator, parts.action_interpreter
    if not isinstance(simulator, FastSimulator) or not isinstance(actions, CategoricalFractions):
        raise NoExactValueError(
            "the optimum is known for a FastSimulator with CategoricalFractions, was asked for "
            f"{type(simulator).__name__} with {type(actions).__name__}"
        )
    solutions = [solved for _, solved in solve_orders(simulator, orders, actions.fractions)]
    signal = simulator.store.signal
    assert signal is not None  # solve_orders refuses a market without one
    knowledge = SignalKnowledge(signal.values)
    return Baseline(replace(parts, state_interpreter=knowledge), SignalOptimum(solutions, actions.fractions))
