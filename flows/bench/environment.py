"""The environment alone: TWAP, current step, reward, validation and episode table, at 1, 64 and 4,096 lanes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flows.bench.measure import Measurement, measure
from flows.bench.parts import twap_parts
from flows.bench.scenario import NUM_TICKS, TICKS_PER_STEP, Scenario
from rlcore.contracts.interpreters import Reference
from rlcore.contracts.policy import Decision, Policy
from rlcore.environment.evaluation import evaluate
from rlcore.execution.orders import OrderSet
from rlcore.foundation.lanes import num_lanes
from rlcore.foundation.random_streams import LaneRandomness, RandomStreams

# Lanes → orders: enough for a second or so, and whole batches of lanes.
ORDERS_AT_LANES = {1: 200, 64: 12_800, 4_096: 40_960}


class EvenPace(Policy):
    """The even pace, always."""

    def decide(
        self, reference: Reference, internal_state: Any, mask: NDArray[np.bool_] | None, randomness: LaneRandomness
    ) -> Decision:
        return Decision(np.ones((num_lanes(reference), 1), np.float32))


def measure_environment(scenario: Scenario) -> list[Measurement]:
    """Count steps of living lanes."""
    parts, policy = twap_parts(scenario), EvenPace()
    figures = []
    for lanes, count in ORDERS_AT_LANES.items():
        orders = scenario.orders_for(count)

        def work(lanes: int = lanes, orders: Any = orders) -> int:  # an OrderSet; bound now, called later
            table = evaluate(parts, policy, orders, RandomStreams(0), "bench", lanes)
            return int(table["num_steps"].sum())

        def read_bars(lanes: int = lanes, orders: Any = orders) -> None:
            _read_bars(scenario, orders, lanes)

        figures.append(
            measure(
                f"environment, {lanes} lanes",
                "steps",
                work,
                floor="reading price and volume of every bar once",
                floor_work=read_bars,
            )
        )
    return figures


def _read_bars(scenario: Scenario, orders: OrderSet, lanes: int) -> None:
    """Read what the fills need, as the simulator reads it, and do nothing with it."""
    for first in range(0, len(orders), lanes):
        row = orders.row[first : first + lanes]
        for start in range(0, NUM_TICKS, TICKS_PER_STEP):
            at = np.full(len(row), start)
            scenario.store.window("close", row, at, TICKS_PER_STEP)
            scenario.store.window("tradable_volume", row, at, TICKS_PER_STEP)
