"""What one iteration collects: so many whole episodes, or so many steps of lanes that go on from iteration to iteration."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rlcore.contracts.policy import Policy
from rlcore.contracts.seeds import SeedSet
from rlcore.environment.backends import EpisodeBackend, collect_episodes
from rlcore.environment.episode_jobs import JobResult
from rlcore.environment.episode_table import EpisodeTable, build_episode_table
from rlcore.environment.parts import EnvironmentParts
from rlcore.environment.rollout import Episodes, Passage, Rollout
from rlcore.environment.seed_sampling import training_draw
from rlcore.environment.step_jobs import StepJob, collect_steps, freeze_groups, show_the_same, start_groups, thaw_groups
from rlcore.environment.steps import RunningLanes
from rlcore.foundation.errors import ConfigError
from rlcore.foundation.whole_numbers import require_whole_number


@dataclass(frozen=True, slots=True)
class Collected:
    """What an iteration learns from, and the episodes that ended in it, for looking at."""

    rollout: Rollout
    table: EpisodeTable  # without rows where no episode ended
    figures: dict[str, float] = field(default_factory=dict)  # finite, besides what the table says
    is_replay_exact: bool = True  # False where episodes that were replayed after a checkpoint show other last digits


class Collection(ABC):
    """How much an iteration collects, and where in the seeds it stands: its state travels in the checkpoint."""

    @abstractmethod
    def collect(
        self, backend: EpisodeBackend, parts: EnvironmentParts, policy: Policy, seeds: SeedSet[Any], passage: Passage
    ) -> Collected:
        """Go on from where the last iteration ended."""

    @abstractmethod
    def shortened(self, count: int) -> Collection:
        """Return a collection that begins anew and takes little: so many episodes, or steps in every lane."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Return the training fields that a checkpoint must share."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]: ...

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


class EpisodeCollection(Collection):
    """Whole episodes; each that begins is finished and learnt from."""

    def __init__(self, episodes_per_iteration: int) -> None:
        self._num_episodes = require_whole_number("episodes_per_iteration", episodes_per_iteration)
        self._position = 0  # in the endless sequence of training seeds

    def collect(
        self, backend: EpisodeBackend, parts: EnvironmentParts, policy: Policy, seeds: SeedSet[Any], passage: Passage
    ) -> Collected:
        seed_id, visit = training_draw(passage.streams.root, len(seeds), self._position, self._num_episodes)
        episodes = collect_episodes(backend, parts, policy, seeds, seed_id, visit, passage)
        assert episodes.rollout is not None  # collect_episodes keeps transitions
        self._position += self._num_episodes
        return Collected(episodes.rollout, build_episode_table(JobResult(episodes, {}), parts.reward, seeds, seed_id))

    def shortened(self, count: int) -> EpisodeCollection:
        return EpisodeCollection(count)

    def config(self) -> dict[str, Any]:
        return {"episodes_per_iteration": self._num_episodes}

    def state_dict(self) -> dict[str, Any]:
        return {"position": self._position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._position = state["position"]


class StepCollection(Collection):
    """So many steps of lanes that go on: an episode may lie in several iterations, and a task need not end at all.

    Args:
        steps_per_iteration: in all lanes together.
        num_groups: independent groups of ``num_lanes`` lanes each, which worker processes share out among themselves. Results
            depend on it, and not on the number of workers.
    """

    def __init__(self, steps_per_iteration: int, num_lanes: int, num_groups: int) -> None:
        num_groups = require_whole_number("num_groups", num_groups)
        at_once = num_lanes * num_groups
        steps_per_iteration = require_whole_number("steps_per_iteration", steps_per_iteration, first=None)
        if steps_per_iteration < 1 or steps_per_iteration % at_once:
            lower = max(steps_per_iteration // at_once, 0) * at_once
            near = f"{lower} or {lower + at_once}" if lower else f"{at_once}"
            raise ConfigError(
                f"steps_per_iteration must be a positive multiple of num_lanes × num_groups = {num_lanes} × {num_groups} = "
                f"{at_once}, was {steps_per_iteration}: take {near}"
            )
        self._steps_per_lane = steps_per_iteration // at_once
        self._num_lanes, self._num_groups = num_lanes, num_groups
        self._groups: tuple[RunningLanes, ...] | None = None
        self._is_replay_exact = True  # since a checkpoint was loaded
        self._frozen: Any = None  # what to go on from where there are no groups in memory; None: nothing was ever started

    def collect(
        self, backend: EpisodeBackend, parts: EnvironmentParts, policy: Policy, seeds: SeedSet[Any], passage: Passage
    ) -> Collected:
        groups = self._groups
        if groups is None and self._frozen is None:
            groups = start_groups(parts, policy, seeds, passage, self._num_groups)
        elif groups is None:
            groups = thaw_groups(parts, seeds, self._frozen)
            self._is_replay_exact &= show_the_same(groups, self._frozen)
        try:
            fragment = collect_steps(backend, StepJob(parts, policy, seeds, groups, self._steps_per_lane, passage))
        except BaseException:
            # One-episode simulators move in place, and some may have moved: the next collection replays them.
            self._frozen, self._groups = freeze_groups(groups), None
            raise
        self._frozen, self._groups = None, fragment.running
        finished = fragment.finished or Episodes(None, np.zeros(0, np.int64), np.zeros(0), {}, np.zeros(0, bool))
        table = build_episode_table(JobResult(finished, {}), parts.reward, seeds, fragment.finished_seed_id)
        figures = {"reward_per_step": float(fragment.rollout.reward.mean())}
        return Collected(fragment.rollout, table, figures, self._is_replay_exact)

    def shortened(self, count: int) -> StepCollection:
        return StepCollection(count * self._num_lanes * self._num_groups, self._num_lanes, self._num_groups)

    def config(self) -> dict[str, Any]:
        steps = self._steps_per_lane * self._num_lanes * self._num_groups
        return {"steps_per_iteration": steps, "num_groups": self._num_groups}

    def state_dict(self) -> dict[str, Any]:
        return {"lanes": self._frozen if self._groups is None else freeze_groups(self._groups)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._groups, self._frozen, self._is_replay_exact = None, state["lanes"], True
