"""One iteration of ``Trainer.fit``: full history, the recurrent network, 1,000 episodes, batches of 256, one pass."""

from __future__ import annotations

from flows.bench.measure import Measurement, measure
from flows.bench.parts import full_history_parts
from flows.bench.scenario import Scenario
from rlcore.agents.build_agent import build_agent
from rlcore.agents.specs import PPOSpec
from rlcore.execution.learning.specs import RecurrentSpec
from rlcore.training.trainer import Trainer
from rlcore.training.vessel import TrainingVessel

NUM_EPISODES = 1_000


def measure_fit(scenario: Scenario) -> list[Measurement]:
    """Count episodes; everything is built anew for each repetition, as the rival's is."""
    parts = full_history_parts(scenario)
    spec = PPOSpec(network=RecurrentSpec(), learning_rate=1e-4, discount=1.0, batch_size=256, num_repeats=1)
    spaces = parts.state_interpreter.observation_space, parts.action_interpreter.action_space
    seconds: dict[str, float] = {}

    def work() -> int:
        agent = build_agent(spec, *spaces, parts.state_interpreter, root_seed=0, device="cpu")
        vessel = TrainingVessel(
            parts, agent, scenario.orders, episodes_per_iteration=NUM_EPISODES, num_lanes=NUM_EPISODES, root_seed=0
        )
        result = Trainer(max_iters=1).fit(vessel)
        seconds.clear()
        seconds.update(result.seconds)
        return result.num_episodes

    return [measure("fit", "episodes", work, seconds)]
