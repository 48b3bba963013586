"""The agent of every on-policy algorithm: what a trainer drives."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import gymnasium
import numpy as np

from rlcore.agents.agent import Agent
from rlcore.agents.finite_checks import require_finite_column, require_finite_references
from rlcore.agents.held_network import HeldNetwork
from rlcore.agents.models import ActorCritic
from rlcore.agents.on_policy import OnPolicyStats, RolloutActorCritic, RolloutRows
from rlcore.agents.plain_state import optimizer_state, require_kind
from rlcore.agents.policies import ActorPolicy
from rlcore.agents.transitions import alive_steps, cut_references
from rlcore.contracts.policy import Policy
from rlcore.environment.rollout import Rollout
from rlcore.foundation.errors import ContractError


class OnPolicyAgent(Agent):
    """One ``learn`` is one update of tianshou's algorithm over a whole rollout: of whole episodes, or of fragments of them.

    Args:
        kind: of the spec; a state of another kind is refused.
        held: the model.
        algorithm: what learns.
        batch_size: transitions in one gradient step.
        num_repeats: passes over each rollout.
    """

    def __init__(
        self, kind: str, held: HeldNetwork[ActorCritic], algorithm: RolloutActorCritic, batch_size: int, num_repeats: int
    ) -> None:
        self._kind = kind
        self._held = held
        self.model, self._reader = held.model, held.reader
        self.algorithm = algorithm
        self.algorithm.eval()
        self._batch_size, self._num_repeats = batch_size, num_repeats
        self._num_updates = 0

    @property
    def spaces(self) -> tuple[gymnasium.Space[Any], gymnasium.Space[Any]]:
        return self._held.spaces

    def training_policy(self) -> Policy:
        return ActorPolicy(self.model, self._reader, "drawn", self.algorithm.value_scale)

    def evaluation_policy(self) -> Policy:
        return ActorPolicy(self.model, self._reader, "likeliest", self.algorithm.value_scale)

    def learn(self, rollout: Rollout) -> dict[str, float]:
        rows = _checked_rows(rollout)
        optimizer = self.algorithm.optim
        optimizer.learning_rate = self._held.learning_rate(self._num_updates)
        with self._held.updating(self._num_updates):
            stats = self.algorithm.update(
                rows,  # type: ignore[arg-type]  # a RowSource stands for a buffer
                batch_size=self._batch_size,
                repeat=self._num_repeats,
            )
        self._num_updates += 1
        self._held.absorb(rows.reference)
        # What _update_with_batch returned, under its base's type.
        return {**cast(OnPolicyStats, stats).figures, **_fit_of_critic(rows), "learning_rate": optimizer.learning_rate}

    def config(self) -> dict[str, Any]:
        return super().config() | self._held.config()

    def state_dict(self) -> dict[str, Any]:
        statistics = self.algorithm.ret_rms
        return {
            "kind": self._kind,
            "model": self._held.state_dict(),
            "optimizer": optimizer_state(self.algorithm.optim.state_dict()),
            "num_updates": self._num_updates,
            "return_statistics": {name: float(getattr(statistics, name)) for name in ("mean", "var", "count")},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        require_kind(state, self._kind)
        self._held.load_state_dict(state["model"])
        self.algorithm.optim.load_state_dict(state["optimizer"])
        self._num_updates = int(state["num_updates"])
        for name, value in state["return_statistics"].items():
            setattr(self.algorithm.ret_rms, name, float(value))

    def save_policy(self, path: Path) -> None:
        self._held.save_policy(path)


def _checked_rows(rollout: Rollout) -> RolloutRows:
    """Refuse what cannot be learned from, before anything is touched."""
    if rollout.log_prob is None or rollout.value is None:
        raise ContractError(
            "rollout for an on-policy agent must hold log_prob and value, lacked them: collect with its training_policy()"
        )
    if not rollout.is_alive.any():
        raise ContractError("rollout must hold at least one step, held none")
    alive = alive_steps(rollout)
    rows = RolloutRows(rollout, alive)
    seed_id, episode_step = alive.rows(rollout.seed_id), alive.rows(rollout.step)
    require_finite_references(rows.reference, seed_id, episode_step)
    step, lane, reference = cut_references(rollout, alive)
    require_finite_references(reference, rollout.seed_id[step, lane], rollout.step[step, lane] + 1)
    require_finite_column("reward", alive.rows(rollout.reward), seed_id, episode_step)
    require_finite_column("stored value", rows.value, seed_id, episode_step)
    require_finite_column("stored log_prob", rows.log_prob, seed_id, episode_step)
    return rows


def _fit_of_critic(rows: RolloutRows) -> dict[str, float]:
    """Return the share of the returns' variance that the stored values explain (1: all; below 0: worse than their mean)."""
    variance = float(np.var(rows.target, dtype=np.float64))
    left = float(np.var(rows.target.astype(np.float64) - rows.value))
    return {"explained_variance": 1.0 - left / variance if variance > 0 else 0.0}
