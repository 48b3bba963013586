"""What is trained: the parts of an environment, an agent, and the seed sets of three purposes."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlcore.agents.agent import Agent
from rlcore.agents.space_agreement import require_spaces_of_agent
from rlcore.contracts.seeds import SeedSet
from rlcore.environment.backends import EpisodeBackend
from rlcore.environment.episode_table import EpisodeTable
from rlcore.environment.evaluation import evaluate
from rlcore.environment.parts import EnvironmentParts
from rlcore.environment.rollout import Passage
from rlcore.foundation.errors import ConfigError, ContractError
from rlcore.foundation.fingerprints import canonical_json, fingerprint_of
from rlcore.foundation.random_streams import RandomStreams
from rlcore.foundation.whole_numbers import require_whole_number
from rlcore.training.checkpoint import require_storable
from rlcore.training.collection import Collected, Collection, EpisodeCollection, StepCollection
from rlcore.training.resume import code_fingerprint, flattened

_SET_NAME = re.compile(r"[A-Za-z0-9_.-]+")


class TrainingVessel:
    """Says what to collect and what to evaluate; the trainer says when.

    Args:
        train_seeds: drawn in endless shuffled passes: every seed once before any seed again.
        validation_seeds: for choosing (early stopping, the best checkpoint); every seed once, in order. One set, or several by
            name: metrics are then ``validation/<name>/<figure>`` instead of ``validation/<figure>``.
        test_seeds: for ``Trainer.test`` alone; training and validation never touch them.
        episodes_per_iteration: whole episodes; each that begins is finished and learnt from. Either this or the next.
        steps_per_iteration: in all lanes together, a multiple of num_lanes × num_groups; lanes go on from iteration to iteration.
        num_lanes: episodes in progress at once (with steps: in each group).
        num_groups: with steps only: independent groups of lanes, which worker processes share out among themselves.
        root_seed: the root of all randomness outside the agent.
        config: plain data under "data" and "training": the fields that a checkpoint must share with the training that continues
            it, besides those that the vessel knows itself.
    """

    def __init__(
        self,
        parts: EnvironmentParts,
        agent: Agent,
        train_seeds: SeedSet[Any],
        validation_seeds: SeedSet[Any] | Mapping[str, SeedSet[Any]] | None = None,
        test_seeds: SeedSet[Any] | None = None,
        *,
        episodes_per_iteration: int | None = None,
        steps_per_iteration: int | None = None,
        num_lanes: int,
        num_groups: int = 1,
        root_seed: int,
        config: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        num_lanes = require_whole_number("num_lanes", num_lanes)
        if len(train_seeds) == 0:
            raise ConfigError("train_seeds must hold at least one seed, held none")
        require_spaces_of_agent(agent, parts)
        self.parts, self.agent = parts, agent
        self.train_seeds, self.validation_seeds, self.test_seeds = train_seeds, validation_seeds, test_seeds
        self.num_lanes = num_lanes
        self.streams = RandomStreams(require_whole_number("root_seed", root_seed, first=0))
        self._collection = _collection(episodes_per_iteration, steps_per_iteration, num_lanes, num_groups)
        self._own_config = {"data": {}, "training": {}, **(config or {})}
        _refuse_other_than_plain(self._own_config)
        _check_set_names(validation_seeds)

    @property
    def validation_sets(self) -> dict[str, SeedSet[Any]]:
        """The validation sets by phase: "validation" for one set, "validation/<name>" for several, nothing for none."""
        if self.validation_seeds is None:
            return {}
        if isinstance(self.validation_seeds, Mapping):
            return {f"validation/{name}": seeds for name, seeds in self.validation_seeds.items()}
        return {"validation": self.validation_seeds}

    def collect(self, backend: EpisodeBackend) -> Collected:
        """Run the next training episodes, or steps, with the exploring policy."""
        passage = Passage(self.streams, "train", self.num_lanes)
        return self._collection.collect(backend, self.parts, self.agent.training_policy(), self.train_seeds, passage)

    def update(self, collected: Collected) -> dict[str, float]:
        """Let the agent learn from what was collected; returns its figures."""
        return self.agent.learn(collected.rollout)

    def evaluate(self, seeds: SeedSet[Any], phase: str, backend: EpisodeBackend) -> EpisodeTable:
        """Run every seed once, in order, with the deterministic policy; changes nothing in training."""
        policy = self.agent.evaluation_policy()
        return evaluate(self.parts, policy, seeds, self.streams, phase, self.num_lanes, backend=backend)

    def shortened(self, count: int) -> TrainingVessel:
        """Return a vessel with the same agent for a quick trial; shortened again by as much, it stays what it is.

        Args:
            count: so many seeds of each set, and so many episodes (or steps of every lane) an iteration.
        """
        short = copy.copy(self)
        short.train_seeds = _first(self.train_seeds, count)
        sets = self.validation_seeds
        if isinstance(sets, Mapping):
            short.validation_seeds = {name: _first(seeds, count) for name, seeds in sets.items()}
        elif sets is not None:
            short.validation_seeds = _first(sets, count)
        short.test_seeds = self.test_seeds and _first(self.test_seeds, count)
        short._collection = self._collection.shortened(count)
        return short

    def config(self) -> dict[str, Any]:
        """Return what a checkpoint is held to, as plain data: "data" and "training" by key, "code" as a fingerprint."""
        sets = {"train_seeds": self.train_seeds, "validation_seeds": self.validation_seeds, "test_seeds": self.test_seeds}
        return {
            "data": {**self._own_config["data"], **{name: _fingerprints(seeds) for name, seeds in sets.items()}},
            "training": {
                **self._own_config["training"],
                "agent": self.agent.config(),
                **self._collection.config(),
                "num_lanes": self.num_lanes,
                "root_seed": self.streams.root,
                **self.parts.describe(),
            },
            "code": code_fingerprint(),
        }

    def state_dict(self) -> dict[str, Any]:
        return {"agent": self.agent.state_dict(), **self._collection.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.agent.load_state_dict(state["agent"])
        self._collection.load_state_dict(state)


def _collection(episodes: int | None, steps: int | None, num_lanes: int, num_groups: int) -> Collection:
    if steps is not None and episodes is None:
        return StepCollection(steps, num_lanes, num_groups)
    if episodes is None or steps is not None:
        raise ConfigError(
            "exactly one of episodes_per_iteration and steps_per_iteration must be given, "
            f"was {episodes} and {steps}: take episodes where they are short, steps where tasks go on and on"
        )
    if num_groups != 1:
        raise ConfigError(f"num_groups must be 1 with episodes_per_iteration, was {num_groups}: it divides lanes that go on")
    return EpisodeCollection(episodes)


def _refuse_other_than_plain(config: Mapping[str, Mapping[str, Any]]) -> None:
    for key, value in flattened(config).items():
        try:
            canonical_json(value)
        except (TypeError, ValueError) as error:  # the second: not a number, which is not even equal to itself
            raise ConfigError(
                f"config of the vessel must be plain data and finite numbers, {key} was {value!r}: checkpoints are compared by it"
            ) from error
    try:
        require_storable(config)
    except ContractError as error:
        raise ConfigError(f"config of the vessel must be plain data and finite numbers, was not: {error}") from error


def _check_set_names(validation_seeds: SeedSet[Any] | Mapping[str, SeedSet[Any]] | None) -> None:
    for name in validation_seeds if isinstance(validation_seeds, Mapping) else ():
        if not isinstance(name, str) or not _SET_NAME.fullmatch(name):
            raise ConfigError(
                f"names of validation sets must be letters, digits, '_', '-' and '.', was {name!r}: "
                "they become a part of metrics' and files' names"
            )


def _first(seeds: SeedSet[Any], count: int) -> SeedSet[Any]:
    return seeds if len(seeds) <= count else FirstSeeds(seeds, count)


def _fingerprints(seeds: SeedSet[Any] | Mapping[str, SeedSet[Any]] | None) -> Any:
    if isinstance(seeds, Mapping):
        return {name: one.fingerprint for name, one in seeds.items()}
    return None if seeds is None else seeds.fingerprint


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
