"""One iteration of ``Trainer.fit``: full history, the recurrent network, 1,000 episodes, batches of 256, one pass.

What it costs follows the steps that are taken, which the names of the figures say: a fresh policy that trades quarters of the order
is done after two or three of eight steps, and a history is encoded no further than it is read. So there are two figures: ``fit`` is the
rival's task; in ``fit_whole_orders`` actions are so small that every order lasts all eight steps. The network reads today's
history, as the rival's does; one that reads yesterday too costs several times more.
"""

from __future__ import annotations

from dataclasses import replace

from flows.bench.measure import Measurement, measure
from flows.bench.parts import full_history_parts
from flows.bench.scenario import Scenario
from rlcore.agents.build_agent import build_agent
from rlcore.agents.specs import PPOSpec
from rlcore.environment.parts import EnvironmentParts
from rlcore.execution.actions import CategoricalFractions
from rlcore.execution.learning.specs import RecurrentSpec
from rlcore.training.trainer import Trainer
from rlcore.training.vessel import TrainingVessel

NUM_EPISODES = 1_000
_SMALL_FRACTIONS = (0.0, 0.001, 0.002, 0.003, 0.004)


def measure_fit(scenario: Scenario) -> list[Measurement]:
    """Count episodes; everything is built anew for each repetition, as the rival's is."""
    parts = full_history_parts(scenario)
    whole_orders = replace(parts, action_interpreter=CategoricalFractions(_SMALL_FRACTIONS))
    return [_measure("fit", parts, scenario), _measure("fit_whole_orders", whole_orders, scenario)]


def _measure(name: str, parts: EnvironmentParts, scenario: Scenario) -> Measurement:
    network = RecurrentSpec(days="today")
    spec = PPOSpec(network=network, learning_rate=1e-4, discount=1.0, batch_size=256, num_repeats=1)
    spaces = parts.state_interpreter.observation_space, parts.action_interpreter.action_space
    seconds: dict[str, float] = {}
    num_steps = 0

    def work() -> int:
        nonlocal num_steps
        agent = build_agent(spec, *spaces, parts.state_interpreter, root_seed=0, device="cpu")
        vessel = TrainingVessel(
            parts, agent, scenario.orders, episodes_per_iteration=NUM_EPISODES, num_lanes=NUM_EPISODES, root_seed=0
        )
        result = Trainer(max_iters=1).fit(vessel)
        seconds.clear()
        seconds.update(result.seconds)
        num_steps = result.num_steps
        return result.num_episodes

    measured = measure(name, "episodes", work, seconds)
    return replace(measured, name=f"{name}, {num_steps:,} steps")
