"""The soft actor-critic agents: what a trainer drives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import gymnasium
from gymnasium import spaces
from torch import nn

from rlcore.agents.agent import Agent
from rlcore.agents.discrete_sac import ReplayDiscreteSAC
from rlcore.agents.fresh_network import build_model
from rlcore.agents.held_network import HeldNetwork
from rlcore.agents.models import ActionValues
from rlcore.agents.networks import Network
from rlcore.agents.off_policy_specs import DiscreteSACSpec, SACSpec
from rlcore.agents.plain_state import load_module_state, module_state, optimizer_state, require_kind
from rlcore.agents.replay_cadence import ReplayCadence
from rlcore.agents.sac import ReplaySAC
from rlcore.agents.soft_actor import SoftActor, SoftActorPolicy, SquashedGaussianHead
from rlcore.agents.soft_critics import ActionCritic
from rlcore.agents.temperature import Temperature
from rlcore.agents.uniform_actions import UniformActions
from rlcore.contracts.interpreters import LaneStateInterpreter
from rlcore.contracts.policy import Policy
from rlcore.environment.rollout import Rollout
from rlcore.foundation.errors import ConfigError

Critic = TypeVar("Critic", bound=nn.Module)


class SACAgent(Agent):
    """See ``SACSpec`` and ``DiscreteSACSpec``. One ``learn`` remembers a rollout, then takes the gradient steps that are due."""

    def __init__(
        self,
        spec: SACSpec | DiscreteSACSpec,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        state_interpreter: LaneStateInterpreter[Any],
        *,
        root_seed: int,
        device: str,
    ) -> None:
        self._spec = spec
        self._action_space = action_space
        _require_space(spec, action_space)
        self._held = HeldNetwork(
            SoftActor, spec, observation_space, action_space, state_interpreter, root_seed=root_seed, device=device
        )
        self.model = self._held.model

        def twins(make: Callable[[Network, gymnasium.Space[Any]], Critic]) -> tuple[Critic, Critic]:
            # Each from random numbers of its own: twins that start alike would stay alike, and their minimum be either of them.
            first, second = (
                build_model(
                    make, spec.network, observation_space, action_space, root_seed=root_seed, device=device, purpose=purpose
                )
                for purpose in ("first critic", "second critic")
            )
            return first, second

        held = self._held
        self.algorithm: ReplaySAC | ReplayDiscreteSAC
        if isinstance(spec, SACSpec):
            boxed = twins(partial(ActionCritic, sizes=spec.critic_sizes))
            assert isinstance(self.model.head, SquashedGaussianHead)  # of a Box
            self.algorithm = ReplaySAC(held.policy, self.model.head, held.reader, boxed, spec)
            networks = tuple(critic.network for critic in boxed)
        else:
            chosen = twins(ActionValues)
            self.algorithm = ReplayDiscreteSAC(held.policy, held.reader, chosen, spec)
            networks = tuple(critic.network for critic in chosen)
        self.algorithm.eval()
        self.cadence = ReplayCadence(spec, 1, held, networks)

    @property
    def spaces(self) -> tuple[gymnasium.Space[Any], gymnasium.Space[Any]]:
        return self._held.spaces

    def training_policy(self) -> Policy:
        if self._spec.warm_up_actions == "uniform" and self.cadence.num_transitions < self._spec.learn_after:
            return UniformActions(self._action_space)
        return SoftActorPolicy(self.model, self._held.reader, "drawn")

    def evaluation_policy(self) -> Policy:
        return SoftActorPolicy(self.model, self._held.reader, "likeliest")

    def learn(self, rollout: Rollout) -> dict[str, float]:
        temperature = self.algorithm.alpha
        further = (temperature.optimizer,) if isinstance(temperature, Temperature) else ()
        return self.cadence.learn(rollout, self.algorithm, (*self.algorithm.optimizers.values(), *further))

    def config(self) -> dict[str, Any]:
        return super().config() | self._held.config()

    def state_dict(self) -> dict[str, Any]:
        temperature = self.algorithm.alpha
        return {
            "kind": self._spec.kind,
            "actor": self._held.state_dict(),
            "critics": [module_state(critic) for critic in self.algorithm.critics],
            "lagged": [module_state(critic) for critic in self.algorithm.lagged],
            "optimizers": {name: optimizer_state(one.state_dict()) for name, one in self.algorithm.optimizers.items()},
            "temperature": temperature.plain_state() if isinstance(temperature, Temperature) else None,
            **self.cadence.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        require_kind(state, self._spec.kind)
        self._held.load_state_dict(state["actor"])
        for modules, states in ((self.algorithm.critics, state["critics"]), (self.algorithm.lagged, state["lagged"])):
            for module, own in zip(modules, states, strict=True):
                load_module_state(module, own, "state of the agent")
        for name, optimizer in self.algorithm.optimizers.items():
            optimizer.load_state_dict(state["optimizers"][name])
        if isinstance(self.algorithm.alpha, Temperature):
            self.algorithm.alpha.load_plain_state(state["temperature"])
        self.cadence.load_state_dict(state)

    def save_policy(self, path: Path) -> None:
        self._held.save_policy(path)


def _require_space(spec: SACSpec | DiscreteSACSpec, action_space: gymnasium.Space[Any]) -> None:
    others = "PPO or A2C for other spaces"
    if isinstance(spec, SACSpec) and not isinstance(action_space, spaces.Box):
        raise ConfigError(
            f"action space of a SAC must be a Box with bounds, was {action_space}: take discrete_sac for choices, {others}"
        )
    if isinstance(spec, DiscreteSACSpec) and not isinstance(action_space, spaces.Discrete):
        raise ConfigError(f"action space of a discrete SAC must be Discrete, was {action_space}: take sac for a Box, {others}")
