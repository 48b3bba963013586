"""The DQN agent: what a trainer drives."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from tianshou.utils.torch_utils import policy_within_training_step, torch_train_mode

from rlcore.agents.agent import Agent
from rlcore.agents.dqn import ReplayDQN
from rlcore.agents.finite_checks import require_finite_column, require_finite_references
from rlcore.agents.fresh_network import build_model
from rlcore.agents.isolated_randomness import isolated_randomness
from rlcore.agents.models import ActionValues
from rlcore.agents.off_policy_specs import DQNSpec
from rlcore.agents.optimization import decayed
from rlcore.agents.plain_state import load_module_state, module_state, optimizer_state, require_kind
from rlcore.agents.policies import ValuePolicy
from rlcore.agents.reference_reader import reader_for
from rlcore.agents.replay_memory import ReplayMemory
from rlcore.agents.saved_policy import save_policy
from rlcore.agents.tianshou_policy import HeldModel
from rlcore.agents.transitions import alive_steps
from rlcore.contracts.interpreters import LaneStateInterpreter
from rlcore.contracts.policy import Policy
from rlcore.environment.rollout import Rollout
from rlcore.foundation.errors import ContractError


class DQNAgent(Agent):
    """See ``DQNSpec``. One ``learn`` remembers a rollout, then takes as many gradient steps as its transitions pay for."""

    def __init__(
        self,
        spec: DQNSpec,
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
        self.model = build_model(ActionValues, spec.network, *self._spaces, root_seed=root_seed, device=device)
        self._reader = reader_for(self.model.network, state_interpreter)
        self.algorithm = ReplayDQN(HeldModel(self.model, self._reader, action_space), self.model, spec)
        self.algorithm.eval()
        self.memory = ReplayMemory(spec.memory_size, spec.discount, spec.num_return_steps)
        self._num_learned = 0  # calls of learn
        self._num_transitions = 0
        self._num_paying = 0  # those of them that pay for gradient steps

    @property
    def epsilon(self) -> float:
        """The probability of a random action while collecting now."""
        exploration = self._spec.exploration
        passed = min(self._num_transitions / exploration.num_transitions, 1.0)
        return exploration.initial + (exploration.final - exploration.initial) * passed

    def training_policy(self) -> Policy:
        return ValuePolicy(self.model, self._reader, self.epsilon)

    def evaluation_policy(self) -> Policy:
        return ValuePolicy(self.model, self._reader, 0.0)

    def learn(self, rollout: Rollout) -> dict[str, float]:
        _require_finite(rollout)
        self.memory.add(rollout)
        self._num_transitions += rollout.num_steps
        if self.memory.num_rows >= self._spec.learn_after:
            # What was collected before learning starts pays for nothing: no burst of steps on the first few transitions.
            self._num_paying += rollout.num_steps
        due = math.floor(self._num_paying * self._spec.gradient_steps_per_transition + 1e-9)  # 0.1 · 30 is 3
        steps = due - self.algorithm.num_gradient_steps
        optimizer = self.algorithm.optim
        optimizer.learning_rate = decayed(self._spec.learning_rate, self._spec.learning_rate_decay, self._num_learned)
        figures = self._take_gradient_steps(steps)
        self._num_learned += 1
        if self.model.network.has_statistics:
            self.model.network.absorb(self._reader.expand(alive_steps(rollout).rows(rollout.reference)))
        return {
            **figures,
            "gradient_steps": float(steps),
            "learning_rate": optimizer.learning_rate,
            "epsilon": self.epsilon,
            "memory_transitions": float(self.memory.num_rows),
        }

    def _take_gradient_steps(self, count: int) -> dict[str, float]:
        self._reader.forget(self.model.network)
        losses, norms = [], []
        algorithm = self.algorithm
        with (
            isolated_randomness(self._root_seed, self._num_learned),
            policy_within_training_step(algorithm.policy),
            torch_train_mode(algorithm),
        ):
            for _ in range(count):
                stats = algorithm.update(
                    self.memory,  # type: ignore[arg-type]  # a RowSource stands for a buffer
                    sample_size=self._spec.batch_size,
                )
                losses.append(stats.get_loss_stats_dict()["loss"])
                norms.append(algorithm.optim.gradient_norm)
        return {"loss": float(np.mean(losses)), "gradient_norm": float(np.mean(norms))} if losses else {}

    def state_dict(self) -> dict[str, Any]:
        return {
            "kind": "dqn",
            "model": module_state(self.model),
            "lagged": module_state(self.algorithm.lagged),
            "optimizer": optimizer_state(self.algorithm.optim.state_dict()),
            "memory": self.memory.state_dict(),
            "num_gradient_steps": self.algorithm.num_gradient_steps,
            "num_learned": self._num_learned,
            "num_transitions": self._num_transitions,
            "num_paying": self._num_paying,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        require_kind(state, "dqn")
        self._reader.forget(self.model.network)
        load_module_state(self.model, state["model"], "state of the agent")
        load_module_state(self.algorithm.lagged, state["lagged"], "state of the agent")
        self.algorithm.optim.load_state_dict(state["optimizer"])
        self.memory.load_state_dict(state["memory"])
        self.algorithm.num_gradient_steps = int(state["num_gradient_steps"])
        self._num_learned = int(state["num_learned"])
        self._num_transitions = int(state["num_transitions"])
        self._num_paying = int(state["num_paying"])

    def save_policy(self, path: Path) -> None:
        save_policy(path, self._spec.network, *self._spaces, self.model, self._spec.exploration.final)


def _require_finite(rollout: Rollout) -> None:
    """Refuse what cannot be learned from, before anything is touched."""
    if not rollout.is_alive.any():
        raise ContractError("rollout must hold at least one step, held none")
    alive = alive_steps(rollout)
    seed_id = alive.rows(rollout.seed_id)
    require_finite_column("reward", alive.rows(rollout.reward), seed_id, alive.step)
    require_finite_references(alive.rows(rollout.reference), seed_id, alive.step)
    require_finite_references(alive.rows(rollout.next_reference), seed_id, alive.step)
