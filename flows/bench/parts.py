"""The environment of the benchmark: the rival's simulator, observations, actions and reward, as ours."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from flows.bench.scenario import TICKS_PER_STEP, Scenario
from rlcore.contracts.interpreters import LaneActionInterpreter, LaneStateInterpreter
from rlcore.contracts.reward import WeightedReward
from rlcore.contracts.status import LaneStatus
from rlcore.environment.parts import EnvironmentParts
from rlcore.execution.actions import CategoricalFractions, Floats, TwapRelative, even_fractions
from rlcore.execution.observations import CurrentStepObservation, FullHistoryObservation
from rlcore.execution.rewards import ConcentrationPenalty, PriceAdvantageReward
from rlcore.execution.simulator import FastSimulator
from rlcore.execution.states import ExecutionView
from rlcore.market.features import history_features

# QlibRL's PAPenaltyReward(penalty=4, scale=0.01), the penalty in basis points: reference experiments of the OPD paper.
_REWARD_SCALE, _PENALTY_BPS = 0.01, 100.0
# Of an order, so small that it lasts to the last step, whatever is drawn.
SMALL_FRACTIONS = (0.0, 0.001, 0.002, 0.003, 0.004)


def twap_parts(scenario: Scenario) -> EnvironmentParts:
    """TWAP's pace as the action 1, the current step as the observation."""
    return _parts(scenario, CurrentStepObservation(), TwapRelative(1.0))


def categorical_parts(scenario: Scenario) -> EnvironmentParts:
    """Quarters of the order as actions, the current step as the observation."""
    return _parts(scenario, CurrentStepObservation(), CategoricalFractions(even_fractions(4)))


def full_history_parts(scenario: Scenario) -> EnvironmentParts:
    """Quarters of the order as actions, today's and yesterday's bars as the observation, as the rival shows them."""
    store = scenario.store
    observation = FullHistoryObservation(store, history_features(store), TICKS_PER_STEP, "today_and_previous")
    return _parts(scenario, observation, CategoricalFractions(even_fractions(4)))


class OrderAndStep(LaneStateInterpreter[ExecutionView]):
    """Which order a lane executes and how many steps it has taken: what a scripted policy looks its action up by."""

    observation_space = spaces.Dict({name: spaces.Box(0, np.iinfo(np.int64).max, (), np.int64) for name in ("order", "step")})

    def interpret(self, view: ExecutionView, status: LaneStatus) -> dict[str, NDArray[np.int64]]:
        return {"order": status.seed_id, "step": status.step}


def scripted_parts(scenario: Scenario) -> EnvironmentParts:
    """Quarters of the order as actions, for a policy that plays a table."""
    return _parts(scenario, OrderAndStep(), CategoricalFractions(even_fractions(4)))


def _parts(
    scenario: Scenario, observation: LaneStateInterpreter[ExecutionView], action: LaneActionInterpreter[ExecutionView, Floats]
) -> EnvironmentParts:
    reward = WeightedReward(
        {
            "price_advantage": (PriceAdvantageReward(), _REWARD_SCALE),
            "concentration": (ConcentrationPenalty(), _REWARD_SCALE * _PENALTY_BPS),
        }
    )
    return EnvironmentParts(FastSimulator(scenario.store, TICKS_PER_STEP, None, "close"), observation, action, reward)
