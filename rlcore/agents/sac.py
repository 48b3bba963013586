"""Soft actor-critic for actions in a Box, on tianshou's, from a memory of references."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tianshou.algorithm.modelfree.sac import SAC
from torch import Tensor, nn

from rlcore.agents.off_policy_specs import SACSpec
from rlcore.agents.optimization import adam
from rlcore.agents.reference_reader import ReferenceReader
from rlcore.agents.replay_memory import ReplayMemory
from rlcore.agents.soft_actor import SquashedGaussianHead
from rlcore.agents.soft_critics import ActionCritic
from rlcore.agents.soft_replay import SoftReplay, frozen
from rlcore.agents.temperature import temperature_of
from rlcore.agents.tianshou_policy import HeldModel
from rlcore.contracts.interpreters import Reference


class ReplaySAC(SoftReplay, SAC[Any]):
    """Haarnoja et al. 2018 (arXiv:1812.05905): expectations over actions by one reparametrised draw each."""

    def __init__(
        self,
        policy: HeldModel,
        head: SquashedGaussianHead,
        reader: ReferenceReader,
        critics: tuple[ActionCritic, ActionCritic],
        spec: SACSpec,
    ) -> None:
        self._max_gradient_norm = spec.max_gradient_norm
        SAC.__init__(
            self,
            policy=policy,  # type: ignore[arg-type]  # tianshou asks for its actor only
            policy_optim=adam(spec),
            critic=critics[0],
            critic_optim=adam(spec),
            critic2=critics[1],
            tau=spec.target_update_rate,
            gamma=spec.discount,
            alpha=temperature_of(spec),
        )
        self._head = head
        self._reader = reader
        self._target_entropy = spec.target_entropy_per_dimension * head.num_uniforms

    def soft_value(self, reference: Reference, mask: NDArray[np.bool_] | None) -> Tensor:
        action, log_density = self._draw(reference)
        first, second = (critic(reference, self._reader, action) for critic in self.lagged)
        return torch.minimum(first, second) - self.alpha.value * log_density

    def value_taken(self, critic: nn.Module, memory: ReplayMemory, rows: NDArray[np.int64]) -> Tensor:
        squashed = torch.from_numpy(self._head.squashed(memory.column("action", rows))).to(self._device)
        return critic(memory.reference(rows), self._reader, squashed)  # type: ignore[no-any-return]  # nn.Module returns Any

    def actor_loss(self, memory: ReplayMemory, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor, Tensor]:
        reference = memory.reference(rows)
        action, log_density = self._draw(reference)
        with frozen(self.critic_parameters):
            first, second = (critic(reference, self._reader, action) for critic in self.critics)
            loss = (self.alpha.value * log_density - torch.minimum(first, second)).mean()
        entropy = -log_density.detach()
        return loss, entropy, torch.full_like(entropy, self._target_entropy)

    @property
    def _device(self) -> torch.device:
        return self.critic_parameters[0].device

    def _draw(self, reference: Reference) -> tuple[Tensor, Tensor]:
        """Draw one action for each state from torch's global generator, with gradients."""
        parameters = self.policy(reference)
        return self._head.draw(parameters, torch.randn(parameters.shape[:-1], device=parameters.device))
