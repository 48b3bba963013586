"""What the trainer knows of an agent: policy + learning rule."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import gymnasium

from rlcore.contracts.policy import Policy
from rlcore.environment.rollout import Rollout


class Agent(ABC):
    """A policy and the rule by which it learns.

    The only caller of tianshou's ``Algorithm.update`` is ``learn``. Everything that a continued training needs is in
    ``state_dict``: parameters, optimisers, schedules, lagged networks, statistics, replay memories, counters.
    """

    @abstractmethod
    def training_policy(self) -> Policy:
        """Return the policy that explores, with today's parameters."""

    @abstractmethod
    def evaluation_policy(self) -> Policy:
        """Return the deterministic policy, with today's parameters. Using it changes nothing in training."""

    @abstractmethod
    def learn(self, rollout: Rollout) -> dict[str, float]:
        """Learn from one rollout; returns finite figures (losses, entropy, …) by name."""

    @property
    def spaces(self) -> tuple[gymnasium.Space[Any], gymnasium.Space[Any]] | None:
        """Observation space and action space that it was made for: no task with others takes it. None: it does not know."""
        return None

    def config(self) -> dict[str, Any]:
        """Return plain data that says how it learns: a checkpoint of another config does not continue it."""
        return {"class": type(self).__qualname__}

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return plain data and tensors only (what ``torch.load(weights_only=True)`` accepts)."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore; the caller's dict stays as it was."""

    @abstractmethod
    def save_policy(self, path: Path) -> None:
        """Write what ``load_policy(path)`` needs to act without store, vessel or trainer."""
