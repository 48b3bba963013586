"""Gymnasium's classic control tasks as one-episode simulators, for figures that others have published too.

Nothing here is made for them: the simulators go through ``looped_parts``, the vessel and the trainer, as a user's would.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import gymnasium
import numpy as np
import torch

from rlcore.agents.build_agent import build_agent
from rlcore.agents.specs import AgentSpec
from rlcore.contracts.interpreters import ActionInterpreter, StateInterpreter
from rlcore.contracts.reward import Reward
from rlcore.contracts.seeds import SequenceSeedSet
from rlcore.contracts.simulator import Simulator
from rlcore.contracts.status import EpisodeStatus
from rlcore.environment.looped import looped_parts
from rlcore.environment.parts import EnvironmentParts
from rlcore.training.callbacks import Callback
from rlcore.training.trainer import Trainer
from rlcore.training.vessel import TrainingVessel

TaskName = Literal["CartPole-v1", "Acrobot-v1", "Pendulum-v1"]
NUM_TRAINING_SEEDS, FIRST_TEST_SEED, NUM_TEST_SEEDS = 20_000, 1_000_000, 100


class GymnasiumEpisode(Simulator[int, np.ndarray, Any]):
    """One episode of an environment of gymnasium, truncated at its own time limit. The initial state is the seed of its reset."""

    def __init__(self, name: str, initial: int) -> None:
        self._env = gymnasium.make(name, disable_env_checker=True)
        self._observation, _ = self._env.reset(seed=int(initial))
        self._reward, self._is_terminated, self._is_truncated = 0.0, False, False

    def step(self, action: Any) -> None:
        self._observation, reward, self._is_terminated, self._is_truncated, _ = self._env.step(action)
        self._reward = float(reward)

    def get_state(self) -> np.ndarray:
        return self._observation  # type: ignore[no-any-return]  # gymnasium's observations are Any

    def done(self) -> bool:
        return bool(self._is_terminated)

    def truncated(self) -> bool:
        return bool(self._is_truncated and not self._is_terminated)

    def outcome(self) -> float:
        return self._reward


class GymnasiumObservation(StateInterpreter[np.ndarray]):
    def __init__(self, space: gymnasium.Space[Any]) -> None:
        self._space = space

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        return self._space

    def interpret(self, state: np.ndarray, status: EpisodeStatus) -> np.ndarray:
        return state


class GymnasiumAction(ActionInterpreter[np.ndarray, Any]):
    def __init__(self, space: gymnasium.Space[Any]) -> None:
        self._space = space

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        return self._space

    def interpret(self, state: np.ndarray, action: Any, status: EpisodeStatus) -> Any:
        return action


class GymnasiumReward(Reward[float]):
    def reward(self, outcome: float, status: EpisodeStatus) -> float:
        return outcome


def time_limit(name: TaskName) -> int:
    """Return after how many steps an episode is truncated."""
    limit = gymnasium.spec(name).max_episode_steps
    assert limit is not None  # all three have one
    return limit


def reference_parts(name: TaskName) -> EnvironmentParts:
    """Return the task, made of one-episode parts."""
    assert name in get_args(TaskName)
    env = gymnasium.make(name)
    return looped_parts(
        partial(GymnasiumEpisode, name),
        GymnasiumObservation(env.observation_space),
        GymnasiumAction(env.action_space),
        GymnasiumReward(),
        max_steps=time_limit(name),
    )


def reference_seeds(first: int, count: int) -> SequenceSeedSet:
    """Return the seeds first, first + 1, … of the environment's reset."""
    return SequenceSeedSet(range(first, first + count))


@dataclass(frozen=True, slots=True)
class ReferenceResult:
    """What one training reached: returns of the deterministic policy of its end, over test seeds that no training has seen."""

    task: str
    agent: str
    root_seed: int
    num_steps: int  # of training, all of them
    mean_return: float
    std_return: float
    cpu_seconds: float  # of the training, without the test

    def __str__(self) -> str:
        return (
            f"{self.task:12s} {self.agent:4s} seed {self.root_seed}: {self.mean_return:8.2f} ± {self.std_return:6.2f} "
            f"after {self.num_steps:7,d} steps, {self.cpu_seconds:5.0f} CPU s"
        )


class StepBudget(Callback):
    """Ends the training before an iteration that could take it over so many steps."""

    def __init__(self, max_steps: int, longest_iteration: int) -> None:
        super().__init__()
        self._last_start = max_steps - longest_iteration

    def on_iteration_end(self, trainer: Trainer, vessel: TrainingVessel) -> None:
        if trainer.metrics["train/total_steps"] > self._last_start:
            trainer.stop("completed", "the steps are used up")


def train_and_test(
    name: TaskName,
    spec: AgentSpec,
    root_seed: int,
    *,
    max_steps: int,
    num_lanes: int,
    steps_per_iteration: int | None = None,
    episodes_per_iteration: int | None = None,
) -> ReferenceResult:
    """Train within ``max_steps`` steps, then test the last policy: none is picked by its results.

    Args:
        num_lanes: episodes at once.
        steps_per_iteration: in all lanes together, between two updates; or else
        episodes_per_iteration: whole ones.
    """
    torch.set_num_threads(1)
    parts = reference_parts(name)
    spaces = parts.state_interpreter.observation_space, parts.action_interpreter.action_space
    agent = build_agent(spec, *spaces, parts.state_interpreter, root_seed=root_seed, device="cpu")
    vessel = TrainingVessel(
        parts,
        agent,
        # Of its own for every root: another seed of the training is another sample of initial states, too.
        reference_seeds(root_seed * NUM_TRAINING_SEEDS, NUM_TRAINING_SEEDS),
        test_seeds=reference_seeds(FIRST_TEST_SEED, NUM_TEST_SEEDS),
        steps_per_iteration=steps_per_iteration,
        episodes_per_iteration=episodes_per_iteration,
        num_lanes=num_lanes,
        root_seed=root_seed,
    )
    longest_iteration = steps_per_iteration or (episodes_per_iteration or 0) * time_limit(name)
    trainer = Trainer(callbacks=[StepBudget(max_steps, longest_iteration)])
    started = time.process_time()
    fitted = trainer.fit(vessel)
    assert fitted.status == "completed", fitted.reason
    cpu_seconds = time.process_time() - started
    returns = trainer.test(vessel).table["return"]
    assert len(returns) == NUM_TEST_SEEDS and fitted.num_steps <= max_steps
    kind = str(spec.kind)  # type: ignore[attr-defined]  # every kind of agent has one
    return ReferenceResult(name, kind, root_seed, fitted.num_steps, float(returns.mean()), float(returns.std()), cpu_seconds)


@dataclass(frozen=True, slots=True)
class Curve:
    """One agent on one task."""

    task: TaskName
    spec: AgentSpec
    bar: float  # the mean return of 100 test episodes that counts as reached
    max_steps: int
    num_lanes: int
    steps_per_iteration: int

    def num_reached(self, root_seeds: Sequence[int], show: Callable[[str], None]) -> int:
        """Train once for each root and return how many reach the bar; ``show`` is told of each."""
        budget = {"max_steps": self.max_steps, "num_lanes": self.num_lanes, "steps_per_iteration": self.steps_per_iteration}
        reached = []
        for root_seed in root_seeds:
            result = train_and_test(self.task, self.spec, root_seed, **budget)
            reached.append(result.mean_return >= self.bar)
            show(f"{result}{'' if reached[-1] else f', below {self.bar:g}'}")
        return sum(reached)
