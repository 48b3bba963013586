"""Do the two do the same work? The same orders and scripted actions in both simulators, before any time is compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flows.bench.figures import BenchError
from flows.bench.parts import scripted_parts
from flows.bench.scenario import NUM_TICKS, TICKS_PER_STEP, Scenario, open_scenario
from rlcore.contracts.interpreters import Reference
from rlcore.contracts.policy import Decision, Policy
from rlcore.environment.engine import Lanes, Transition
from rlcore.environment.evaluation import evaluate
from rlcore.foundation.random_streams import LaneRandomness, RandomStreams

NUM_ORDERS = 200
TOLERANCE = 1e-9  # relative to the order's quantity; price advantage: basis points, absolute
ACTIONS_FILE, RIVAL_FILE = "actions.npy", "rival_fills.npz"


class Scripted(Policy):
    """Plays a table of actions (orders, steps); the observation tells it where it is."""

    def __init__(self, actions: NDArray[np.int64]) -> None:
        self._actions = actions

    def decide(
        self, reference: Reference, internal_state: Any, mask: NDArray[np.bool_] | None, randomness: LaneRandomness
    ) -> Decision:
        return Decision(self._actions[reference["order"], reference["step"]])


class FillsByTick:
    """A StepRecorder that keeps what was filled in every bar of the day, (orders, ticks)."""

    def __init__(self, num_orders: int) -> None:
        self.fills = np.zeros((num_orders, NUM_TICKS))

    def record(self, lanes: Lanes, transition: Transition) -> None:
        outcome = transition.outcome
        ticks = outcome.first_tick[:, None] + np.arange(outcome.filled.shape[1])
        self.fills[lanes.status.seed_id[:, None], ticks] = outcome.filled


def write_actions(folder: Path) -> None:
    """Write scripted actions, quarters of the order, for both sides to play."""
    actions = np.random.default_rng(1).integers(0, 5, (NUM_ORDERS, NUM_TICKS // TICKS_PER_STEP))
    np.save(folder / ACTIONS_FILE, actions)


def check_agreement(folder: Path) -> dict[str, float]:
    """Hold our fills and price advantage to the rival's; every order is filled whole and no cap binds, where QlibRL is right.

    Returns:
        The largest differences, and how many orders were compared.

    Raises:
        BenchError: where they differ by more than ``TOLERANCE``.
    """
    scenario = open_scenario(folder)
    fills, advantage = _ours(scenario, np.load(folder / ACTIONS_FILE))
    rival = np.load(folder / RIVAL_FILE)
    largest = {
        "fills": float(np.abs(fills - rival["fills"]).max() / scenario.orders.quantity.max()),
        "price_advantage_bps": float(np.abs(advantage - rival["advantage"]).max()),
    }
    for name, difference in largest.items():
        if not difference <= TOLERANCE:
            raise BenchError(
                f"{name} must agree with QlibRL's to {TOLERANCE}, differed by {difference}: the times are not of the same work"
            )
    return {**largest, "num_orders": len(fills), "num_fills": int((fills > 0).sum())}


def _ours(scenario: Scenario, actions: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    orders = scenario.orders_for(len(actions))
    recorder = FillsByTick(len(actions))
    table = evaluate(
        scripted_parts(scenario), Scripted(actions), orders, RandomStreams(0), "bench", len(actions), recorders=(recorder,)
    )
    return recorder.fills, np.asarray(table["price_advantage_bps"])
