"""What is trained: the parts of an environment, an agent, and the seed sets of three purposes."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.agents.agent import Agent
from rlcore.contracts.seeds import SeedSet
from rlcore.environment.backends import EpisodeBackend, collect_episodes
from rlcore.environment.episode_jobs import JobResult
from rlcore.environment.episode_table import EpisodeTable, build_episode_table
from rlcore.environment.evaluation import evaluate
from rlcore.environment.parts import EnvironmentParts
from rlcore.environment.rollout import Passage, Rollout
from rlcore.environment.seed_sampling import training_draw
from rlcore.foundation.errors import ConfigError
from rlcore.foundation.fingerprints import fingerprint_of
from rlcore.foundation.random_streams import RandomStreams
from rlcore.training.resume import code_fingerprint


@dataclass(frozen=True, slots=True)
class Collected:
    """Training episodes, for learning and for looking at."""

    rollout: Rollout
    table: EpisodeTable


class TrainingVessel:
    """Says what to collect and what to evaluate; the trainer says when.

    Args:
        train_seeds: drawn in endless shuffled passes: every seed once before any seed again.
        validation_seeds: for choosing (early stopping, the best checkpoint); every seed once, in order.
        test_seeds: for ``Trainer.test`` alone; training and validation never touch them.
        episodes_per_iteration: whole episodes; each that begins is finished and learnt from.
        num_lanes: episodes in progress at once.
        root_seed: the root of all randomness outside the agent.
        config: plain data under "data" and "training": the fields that a checkpoint must share with the training that continues
            it, besides those that the vessel knows itself.
    """

    def __init__(
        self,
        parts: EnvironmentParts,
        agent: Agent,
        train_seeds: SeedSet[Any],
        validation_seeds: SeedSet[Any] | None = None,
        test_seeds: SeedSet[Any] | None = None,
        *,
        episodes_per_iteration: int,
        num_lanes: int,
        root_seed: int,
        config: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        for what, value in (("episodes_per_iteration", episodes_per_iteration), ("num_lanes", num_lanes)):
            if value < 1:
                raise ConfigError(f"{what} must be 1 or more, was {value}")
        if len(train_seeds) == 0:
            raise ConfigError("train_seeds must hold at least one seed, held none")
        self.parts, self.agent = parts, agent
        self.train_seeds, self.validation_seeds, self.test_seeds = train_seeds, validation_seeds, test_seeds
        self.episodes_per_iteration, self.num_lanes = episodes_per_iteration, num_lanes
        self.streams = RandomStreams(root_seed)
        self._own_config = {"data": {}, "training": {}, **(config or {})}
        self.position = 0  # in the endless sequence of training seeds

    def collect(self, backend: EpisodeBackend) -> Collected:
        """Run the next training episodes with the exploring policy."""
        count = self.episodes_per_iteration
        seed_id, visit = training_draw(self.streams.root, len(self.train_seeds), self.position, count)
        passage = Passage(self.streams, "train", self.num_lanes)
        policy = self.agent.training_policy()
        episodes = collect_episodes(backend, self.parts, policy, self.train_seeds, seed_id, visit, passage)
        assert episodes.rollout is not None  # collect_episodes keeps transitions
        self.position += count
        table = build_episode_table(JobResult(episodes, {}), self.parts.reward, self.train_seeds, seed_id)
        return Collected(episodes.rollout, table)

    def update(self, collected: Collected) -> dict[str, float]:
        """Let the agent learn from what was collected; returns its figures."""
        return self.agent.learn(collected.rollout)

    def evaluate(self, seeds: SeedSet[Any], phase: str, backend: EpisodeBackend) -> EpisodeTable:
        """Run every seed once, in order, with the deterministic policy; changes nothing in training."""
        policy = self.agent.evaluation_policy()
        return evaluate(self.parts, policy, seeds, self.streams, phase, self.num_lanes, backend=backend)

    def shortened(self, num_seeds: int) -> TrainingVessel:
        """Return a vessel with the same agent for a quick trial: so many seeds of each set, so many episodes an iteration."""
        short = copy.copy(self)
        short.train_seeds = FirstSeeds(self.train_seeds, num_seeds)
        short.validation_seeds = self.validation_seeds and FirstSeeds(self.validation_seeds, num_seeds)
        short.test_seeds = self.test_seeds and FirstSeeds(self.test_seeds, num_seeds)
        short.episodes_per_iteration = num_seeds
        return short

    def config(self) -> dict[str, Any]:
        """Return what a checkpoint is held to, as plain data: "data" and "training" by key, "code" as a fingerprint."""
        sets = {"train_seeds": self.train_seeds, "validation_seeds": self.validation_seeds, "test_seeds": self.test_seeds}
        return {
            "data": {
                **self._own_config["data"],
                **{name: None if seeds is None else seeds.fingerprint for name, seeds in sets.items()},
            },
            "training": {
                **self._own_config["training"],
                "agent_class": type(self.agent).__qualname__,
                "episodes_per_iteration": self.episodes_per_iteration,
                "num_lanes": self.num_lanes,
                "root_seed": self.streams.root,
                "reward_weights": self.parts.reward.weights,
                "observation_space": repr(self.parts.state_interpreter.observation_space),
                "action_space": repr(self.parts.action_interpreter.action_space),
            },
            "code": code_fingerprint(),
        }

    def state_dict(self) -> dict[str, Any]:
        return {"agent": self.agent.state_dict(), "position": self.position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.agent.load_state_dict(state["agent"])
        self.position = state["position"]


class FirstSeeds(SeedSet[Any]):
    """The first so many seeds of another set (all of them where it holds fewer)."""

    def __init__(self, seeds: SeedSet[Any], count: int) -> None:
        self._seeds, self._count = seeds, min(count, len(seeds))

    def __len__(self) -> int:
        return self._count

    def take(self, seed_ids: NDArray[np.int64]) -> Any:
        return self._seeds.take(seed_ids)

    @property
    def fingerprint(self) -> str:
        return fingerprint_of([self._seeds.fingerprint, self._count])

    def describe(self, seed_ids: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        return self._seeds.describe(seed_ids)
