"""Whole rollouts: an MLP of 64 x 64 samples its actions, transitions are kept, at 1, 64 and 4,096 lanes.

Episodes are as long as the rival's in its fastest rollout, eight steps: the actions are so small that every order lasts to the
last step. ``rollout_short`` beside it trades quarters of the order; its episodes end after two or three steps, so that starting
an order and summing it up weigh three times as much in a step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from flows.bench.environment import ORDERS_AT_LANES
from flows.bench.measure import Measurement, measure
from flows.bench.parts import SMALL_FRACTIONS, categorical_parts
from flows.bench.scenario import Scenario
from rlcore.agents.build_agent import build_agent
from rlcore.agents.on_policy_specs import PPOSpec
from rlcore.agents.specs import MLPSpec
from rlcore.environment.backends import InlineBackend
from rlcore.environment.parts import EnvironmentParts
from rlcore.execution.actions import CategoricalFractions
from rlcore.training.vessel import TrainingVessel


def measure_rollout(scenario: Scenario) -> list[Measurement]:
    """Count steps of living lanes."""
    short = categorical_parts(scenario)
    whole = replace(short, action_interpreter=CategoricalFractions(SMALL_FRACTIONS))
    figures = [_measure(f"rollout, {lanes} lanes", whole, scenario, lanes) for lanes in ORDERS_AT_LANES]
    return [*figures, _measure("rollout_short, 4096 lanes", short, scenario, 4_096)]


def _measure(name: str, parts: EnvironmentParts, scenario: Scenario, lanes: int) -> Measurement:
    spec = PPOSpec(network=MLPSpec(sizes=(64, 64)), learning_rate=1e-4, discount=1.0, batch_size=256, num_repeats=1)
    spaces = parts.state_interpreter.observation_space, parts.action_interpreter.action_space
    agent = build_agent(spec, *spaces, parts.state_interpreter, root_seed=0, device="cpu")
    count = ORDERS_AT_LANES[lanes]
    orders = scenario.orders_for(count)
    vessel = TrainingVessel(parts, agent, orders, episodes_per_iteration=count, num_lanes=lanes, root_seed=0)

    def work() -> int:
        collected: Any = vessel.collect(InlineBackend())
        return int(collected.rollout.num_steps)

    num_steps = work()
    floor = "the network's forward passes alone"
    return measure(name, "steps", work, floor=floor, floor_work=lambda: _forward(lanes, num_steps))


def _forward(lanes: int, steps: int) -> None:
    """Pass as many rows through a bare network of the same size."""
    network = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 5 + 1))
    rows = torch.zeros(lanes, 3)
    with torch.inference_mode():
        for _ in range(-(-steps // lanes)):
            network(rows)
