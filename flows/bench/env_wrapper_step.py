"""One ``EnvWrapper.step``, validation included: what somebody waits for who debugs."""

from __future__ import annotations

import time

import numpy as np

from flows.bench.measure import Measurement, measure
from flows.bench.parts import twap_parts
from flows.bench.scenario import Scenario
from rlcore.environment.env_wrapper import EnvWrapper

NUM_EPISODES = 500


def measure_env_wrapper_step(scenario: Scenario) -> list[Measurement]:
    """Measure whole episodes at TWAP's pace, eight steps and the reset; and single steps, of which the name gives the median."""
    environment = EnvWrapper(twap_parts(scenario), scenario.orders, root=0)
    pace = np.ones(1, np.float32)
    steps: list[int] = []

    def work() -> int:
        steps.clear()
        for _ in range(NUM_EPISODES):
            environment.reset()
            is_over = False
            while not is_over:
                before = time.thread_time_ns()
                _, _, terminated, truncated, _ = environment.step(pace)
                steps.append(time.thread_time_ns() - before)
                is_over = terminated or truncated
        return len(steps)

    episodes = measure("env_wrapper_step", "steps with their share of the reset", work)
    work()  # once more without the sampling timer
    microseconds = np.array(steps) / 1e3
    named = (
        f"env_wrapper_step, median of single steps {np.median(microseconds):.1f}, mean {np.mean(microseconds):.1f} microseconds"
    )
    return [episodes.named(named)]
