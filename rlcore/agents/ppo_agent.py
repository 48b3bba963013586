"""The PPO agent: what a trainer drives."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import gymnasium
import numpy as np
from tianshou.utils.torch_utils import policy_within_training_step

from rlcore.agents.agent import Agent
from rlcore.agents.finite_checks import require_finite_column, require_finite_references
from rlcore.agents.fresh_network import build_model
from rlcore.agents.isolated_randomness import isolated_randomness
from rlcore.agents.models import ActorCritic
from rlcore.agents.on_policy_specs import PPOSpec
from rlcore.agents.optimization import decayed
from rlcore.agents.plain_state import load_module_state, module_state, optimizer_state, require_kind
from rlcore.agents.policies import ActorPolicy
from rlcore.agents.ppo import PPOStats, RolloutPPO, RolloutRows
from rlcore.agents.reference_reader import reader_for
from rlcore.agents.saved_policy import save_policy
from rlcore.agents.tianshou_policy import HeldModel
from rlcore.agents.transitions import alive_steps
from rlcore.contracts.interpreters import LaneStateInterpreter
from rlcore.contracts.policy import Policy
from rlcore.environment.rollout import Rollout
from rlcore.foundation.errors import ContractError


class PPOAgent(Agent):
    """See ``PPOSpec``. One ``learn`` is one update of tianshou's algorithm over the whole rollout."""

    def __init__(
        self,
        spec: PPOSpec,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        state_interpreter: LaneStateInterpreter[Any],
        *,
        root_seed: int,
        device: str,
    ) -> None:
        self._spec = spec
        self._spaces = (observation_space, action_space)
        self._root_seed = root_seed
        self.model = build_model(ActorCritic, spec.network, *self._spaces, root_seed=root_seed, device=device)
        self._reader = reader_for(self.model.network, state_interpreter)
        self.algorithm = RolloutPPO(HeldModel(self.model, self._reader, action_space), self.model, spec)
        self.algorithm.eval()
        self._num_updates = 0

    def training_policy(self) -> Policy:
        return ActorPolicy(self.model, self._reader, "drawn", self.algorithm.value_scale)

    def evaluation_policy(self) -> Policy:
        return ActorPolicy(self.model, self._reader, "likeliest", self.algorithm.value_scale)

    def learn(self, rollout: Rollout) -> dict[str, float]:
        rows = self._checked_rows(rollout)
        self._reader.forget(self.model.network)
        optimizer = self.algorithm.optim
        optimizer.learning_rate = decayed(self._spec.learning_rate, self._spec.learning_rate_decay, self._num_updates)
        with isolated_randomness(self._root_seed, self._num_updates), policy_within_training_step(self.algorithm.policy):
            stats = self.algorithm.update(
                rows,  # type: ignore[arg-type]  # a RowSource stands for a buffer
                batch_size=self._spec.batch_size,
                repeat=self._spec.num_repeats,
            )
        self._num_updates += 1
        if self.model.network.has_statistics:
            self.model.network.absorb(self._reader.expand(rows.reference))
        # What _update_with_batch returned, under its base's type.
        return {**cast(PPOStats, stats).figures, **_fit_of_critic(rows), "learning_rate": optimizer.learning_rate}

    def state_dict(self) -> dict[str, Any]:
        statistics = self.algorithm.ret_rms
        return {
            "kind": "ppo",
            "model": module_state(self.model),
            "optimizer": optimizer_state(self.algorithm.optim.state_dict()),
            "num_updates": self._num_updates,
            "return_statistics": {name: float(getattr(statistics, name)) for name in ("mean", "var", "count")},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        require_kind(state, "ppo")
        self._reader.forget(self.model.network)
        load_module_state(self.model, state["model"], "state of the agent")
        self.algorithm.optim.load_state_dict(state["optimizer"])
        self._num_updates = int(state["num_updates"])
        for name, value in state["return_statistics"].items():
            setattr(self.algorithm.ret_rms, name, float(value))

    def save_policy(self, path: Path) -> None:
        save_policy(path, self._spec.network, *self._spaces, self.model)

    def _checked_rows(self, rollout: Rollout) -> RolloutRows:
        """Refuse what cannot be learned from, before anything is touched."""
        if rollout.log_prob is None or rollout.value is None:
            raise ContractError(
                "rollout for PPO must hold log_prob and value, lacked them: collect with the agent's training_policy()"
            )
        if not rollout.is_alive.any():
            raise ContractError("rollout must hold at least one step, held none")
        alive = alive_steps(rollout)
        rows = RolloutRows(rollout, alive)
        seed_id = alive.rows(rollout.seed_id)
        require_finite_references(rows.reference, seed_id, alive.step)
        require_finite_column("reward", alive.rows(rollout.reward), seed_id, alive.step)
        require_finite_column("stored value", rows.value, seed_id, alive.step)
        require_finite_column("stored log_prob", rows.log_prob, seed_id, alive.step)
        return rows


def _fit_of_critic(rows: RolloutRows) -> dict[str, float]:
    """Return the share of the returns' variance that the stored values explain (1: all; below 0: worse than their mean)."""
    variance = float(np.var(rows.target, dtype=np.float64))
    left = float(np.var(rows.target.astype(np.float64) - rows.value))
    return {"explained_variance": 1.0 - left / variance if variance > 0 else 0.0}
