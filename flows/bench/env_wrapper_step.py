"""One ``EnvWrapper.step``, validation included: what somebody waits for who debugs."""

from __future__ import annotations

from flows.bench.measure import Measurement, measure
from flows.bench.parts import categorical_parts
from flows.bench.scenario import Scenario
from rlcore.environment.env_wrapper import EnvWrapper

NUM_STEPS = 4_000
_ACTION = 1  # a quarter of the order: episodes take four steps or more


def measure_env_wrapper_step(scenario: Scenario) -> list[Measurement]:
    """Count steps; the resets between episodes are in the time."""
    environment = EnvWrapper(categorical_parts(scenario), scenario.orders, root=0)

    def work() -> int:
        is_over = True
        for _ in range(NUM_STEPS):
            if is_over:
                environment.reset()
            _, _, terminated, truncated, _ = environment.step(_ACTION)
            is_over = terminated or truncated
        return NUM_STEPS

    return [measure("env_wrapper_step", "steps", work)]
