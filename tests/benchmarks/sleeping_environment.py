"""How much worker processes gain where an environment waits: it sleeps 5 ms a step, as one that asks a server does.

    python -m tests.benchmarks.sleeping_environment

One worker and eight are measured side by side, in turns, three times, with warm workers; every passage must give the same bits.
"""

from __future__ import annotations

import time

import numpy as np
from gymnasium import spaces

from rlcore.contracts import ActionInterpreter, Reward, SequenceSeedSet, Simulator, StateInterpreter
from rlcore.environment.backends import EpisodeBackend, SubprocBackend
from rlcore.environment.evaluation import evaluate
from rlcore.environment.looped import looped_parts
from rlcore.environment.random_actions import RandomActions
from rlcore.environment.rollout import Passage
from rlcore.environment.step_jobs import StepJob, collect_steps, start_groups
from rlcore.foundation.random_streams import RandomStreams

SLEEP_SECONDS = 0.005
NUM_WORKERS = 8
NUM_LANES = 2
SEEDS = SequenceSeedSet([20 + 7 * number % 21 for number in range(96)])  # lengths of episodes: 20 to 40 steps
NUM_GROUPS, NUM_STEPS = 8, 120
NUM_REPEATS = 3


class SleepingWalk(Simulator):
    """A walk of ±1 steps, as many as its seed says, with a wait in each."""

    def __init__(self, initial):
        self.left, self.place = initial, 0

    def step(self, action):
        time.sleep(SLEEP_SECONDS)
        self.left, self.place = self.left - 1, self.place + action

    def get_state(self):
        return self.place

    def done(self):
        return self.left == 0


class Place(StateInterpreter):
    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)

    def interpret(self, state, status):
        return np.array([state], np.float32)


class Direction(ActionInterpreter):
    action_space = spaces.Discrete(2)

    def interpret(self, state, action, status):
        return 2 * int(action) - 1


class Distance(Reward):
    def reward(self, outcome, status):
        return abs(outcome) / status.step


POLICY = RandomActions(Direction.action_space)


def sleeping_parts():
    return looped_parts(SleepingWalk, Place(), Direction(), Distance(), max_steps=40)


def evaluate_episodes(backend: EpisodeBackend) -> tuple[int, np.ndarray]:
    """Run whole episodes. Returns the steps taken, and what must be the same."""
    table = evaluate(sleeping_parts(), POLICY, SEEDS, RandomStreams(0), "test", NUM_LANES, backend=backend)
    return int(table["num_steps"].sum()), table["return"]


def collect_groups(backend: EpisodeBackend) -> tuple[int, np.ndarray]:
    """Take steps of groups. Returns the steps taken, and what must be the same."""
    parts, passage = sleeping_parts(), Passage(RandomStreams(0), "train", NUM_LANES)
    groups = start_groups(parts, POLICY, SEEDS, passage, NUM_GROUPS)
    rollout = collect_steps(backend, StepJob(parts, POLICY, SEEDS, groups, NUM_STEPS, passage)).rollout
    return rollout.num_steps, rollout.reward


def main() -> None:
    with SubprocBackend(1) as one, SubprocBackend(NUM_WORKERS) as many:
        for work in (evaluate_episodes, collect_groups):
            _, wanted = work(one)  # starts the workers, as the next line does
            work(many)
            ratios = []
            for _ in range(NUM_REPEATS):
                rates = []
                for backend in (one, many):
                    started = time.perf_counter()
                    num_steps, found = work(backend)
                    rates.append(num_steps / (time.perf_counter() - started))
                    np.testing.assert_array_equal(found, wanted)
                ratios.append(rates[1] / rates[0])
                print(
                    f"{work.__name__}: 1 worker {rates[0]:.0f} steps/s, {NUM_WORKERS} workers {rates[1]:.0f} steps/s, "
                    f"ratio {ratios[-1]:.2f}"
                )
            spread = f"median of {NUM_REPEATS}, {min(ratios):.2f} to {max(ratios):.2f}"
            print(f"{work.__name__}: ratio {np.median(ratios):.2f} ({spread}), same bits")


if __name__ == "__main__":
    main()
