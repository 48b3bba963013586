"""The DQN agent: what a trainer drives."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import gymnasium

from rlcore.agents.agent import Agent
from rlcore.agents.dqn import ReplayDQN
from rlcore.agents.held_network import HeldNetwork
from rlcore.agents.models import ActionValues
from rlcore.agents.off_policy_specs import DQNSpec
from rlcore.agents.plain_state import load_module_state, module_state, optimizer_state, require_kind
from rlcore.agents.policies import ValuePolicy
from rlcore.agents.replay_cadence import ReplayCadence
from rlcore.contracts.interpreters import LaneStateInterpreter
from rlcore.contracts.policy import Policy
from rlcore.environment.rollout import Rollout


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
        self._held = HeldNetwork(
            partial(ActionValues, head=spec.value_head),
            spec,
            observation_space,
            action_space,
            state_interpreter,
            root_seed=root_seed,
            device=device,
        )
        self.model, self._reader = self._held.model, self._held.reader
        self.algorithm = ReplayDQN(self._held.policy, self.model, spec)
        self.algorithm.eval()
        self.cadence = ReplayCadence(spec, spec.num_return_steps, self._held)

    @property
    def epsilon(self) -> float:
        """The probability of a random action while collecting now."""
        exploration = self._spec.exploration
        passed = min(self.cadence.num_transitions / exploration.num_transitions, 1.0)
        return exploration.initial + (exploration.final - exploration.initial) * passed

    @property
    def spaces(self) -> tuple[gymnasium.Space[Any], gymnasium.Space[Any]]:
        return self._held.spaces

    def training_policy(self) -> Policy:
        return ValuePolicy(self.model, self._reader, self.epsilon)

    def evaluation_policy(self) -> Policy:
        return ValuePolicy(self.model, self._reader, 0.0)

    def learn(self, rollout: Rollout) -> dict[str, float]:
        return {**self.cadence.learn(rollout, self.algorithm, (self.algorithm.optim,)), "epsilon": self.epsilon}

    def config(self) -> dict[str, Any]:
        return super().config() | self._held.config()

    def state_dict(self) -> dict[str, Any]:
        return {
            "kind": "dqn",
            "model": self._held.state_dict(),
            "lagged": module_state(self.algorithm.lagged),
            "optimizer": optimizer_state(self.algorithm.optim.state_dict()),
            **self.cadence.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        require_kind(state, "dqn")
        self._held.load_state_dict(state["model"])
        load_module_state(self.algorithm.lagged, state["lagged"], "state of the agent")
        self.algorithm.optim.load_state_dict(state["optimizer"])
        self.cadence.load_state_dict(state)
        self.algorithm.set_num_gradient_steps(self.cadence.num_gradient_steps)

    def save_policy(self, path: Path) -> None:
        self._held.save_policy(path, self._spec.exploration.final)
