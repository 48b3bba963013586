"""One iteration of ``Trainer.fit``: full history, the recurrent network, 1,000 episodes, batches of 256, one pass.

What it costs follows the steps that are taken, which the names of the figures say: a fresh policy that trades quarters of the
order is done after two or three of eight steps, and a history is encoded no further than it is read. So there are two figures:
``fit`` is the rival's task; in ``fit_whole_orders`` actions are so small that every order lasts all eight steps. The network
reads today's history, as the rival's does; one that reads yesterday too costs several times more.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from flows.bench.measure import Measurement, measure
from flows.bench.parts import SMALL_FRACTIONS, full_history_parts
from flows.bench.scenario import NUM_TICKS, Scenario
from rlcore.agents.build_agent import build_agent
from rlcore.agents.on_policy_specs import PPOSpec
from rlcore.environment.parts import EnvironmentParts
from rlcore.execution.actions import CategoricalFractions
from rlcore.execution.learning.specs import RecurrentSpec
from rlcore.training.trainer import Trainer
from rlcore.training.vessel import TrainingVessel

NUM_EPISODES, BATCH_SIZE = 1_000, 256
HIDDEN, NUM_FEATURES = 64, 5
_FLOOR = "the encoder alone, forward and backward over every whole history once,"


def measure_fit(scenario: Scenario) -> list[Measurement]:
    """Count episodes; everything is built anew for each repetition, as the rival's is."""
    parts = full_history_parts(scenario)
    whole_orders = replace(parts, action_interpreter=CategoricalFractions(SMALL_FRACTIONS))
    return [_measure("fit", parts, scenario), _measure("fit_whole_orders", whole_orders, scenario)]


def _measure(name: str, parts: EnvironmentParts, scenario: Scenario) -> Measurement:
    network = RecurrentSpec(days="today")
    spec = PPOSpec(network=network, learning_rate=1e-4, discount=1.0, batch_size=BATCH_SIZE, num_repeats=1)
    spaces = parts.state_interpreter.observation_space, parts.action_interpreter.action_space
    num_steps = 0

    def work() -> int:
        nonlocal num_steps
        agent = build_agent(spec, *spaces, parts.state_interpreter, root_seed=0, device="cpu")
        vessel = TrainingVessel(
            parts, agent, scenario.orders, episodes_per_iteration=NUM_EPISODES, num_lanes=NUM_EPISODES, root_seed=0
        )
        result = Trainer(max_iters=1).fit(vessel)
        num_steps = result.num_steps
        return result.num_episodes

    measured = measure(name, "episodes", work, floor=_FLOOR, floor_work=_encode)
    return replace(measured, name=f"{name}, {num_steps:,} steps")


def _encode() -> None:
    """Run a bare encoder of the same size over 1,000 whole histories, in batches of 256, forward and backward."""
    embed, encoder = nn.Linear(NUM_FEATURES, HIDDEN), nn.GRU(HIDDEN, HIDDEN)
    for first in range(0, NUM_EPISODES, BATCH_SIZE):
        histories = torch.zeros(NUM_TICKS, min(BATCH_SIZE, NUM_EPISODES - first), NUM_FEATURES)
        states, _ = encoder(torch.relu(embed(histories)))
        states.mean().backward()
