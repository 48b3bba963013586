"""Whole rollouts: an MLP of 64 x 64 samples its actions, transitions are kept, at 1, 64 and 4,096 lanes."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from flows.bench.environment import ORDERS_AT_LANES
from flows.bench.measure import Measurement, measure
from flows.bench.parts import categorical_parts
from flows.bench.scenario import Scenario
from rlcore.agents.build_agent import build_agent
from rlcore.agents.specs import MLPSpec, PPOSpec
from rlcore.environment.backends import InlineBackend
from rlcore.training.vessel import TrainingVessel


def measure_rollout(scenario: Scenario) -> list[Measurement]:
    """Count steps of living lanes."""
    parts = categorical_parts(scenario)
    spec = PPOSpec(network=MLPSpec(sizes=(64, 64)), learning_rate=1e-4, discount=1.0, batch_size=256, num_repeats=1)
    spaces = parts.state_interpreter.observation_space, parts.action_interpreter.action_space
    agent = build_agent(spec, *spaces, parts.state_interpreter, root_seed=0, device="cpu")
    figures = []
    for lanes, count in ORDERS_AT_LANES.items():
        orders = scenario.orders_for(count)
        vessel = TrainingVessel(parts, agent, orders, episodes_per_iteration=count, num_lanes=lanes, root_seed=0)

        def work(vessel: TrainingVessel = vessel) -> int:  # bound now, called later
            collected: Any = vessel.collect(InlineBackend())
            return int(collected.rollout.num_steps)

        def forward(lanes: int = lanes, steps: int = work()) -> None:
            _forward(lanes, steps)

        figures.append(
            measure(f"rollout, {lanes} lanes", "steps", work, floor="the network's forward passes alone", floor_work=forward)
        )
    return figures


def _forward(lanes: int, steps: int) -> None:
    """Pass as many rows through a bare network of the same size."""
    network = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 5 + 1))
    rows = torch.zeros(lanes, 3)
    with torch.inference_mode():
        for _ in range(-(-steps // lanes)):
            network(rows)
