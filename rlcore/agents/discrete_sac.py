"""Soft actor-critic for choices, on tianshou's, from a memory of references."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from tianshou.algorithm.modelfree.discrete_sac import DiscreteSAC
from torch import Tensor, nn

from rlcore.agents.action_heads import masked
from rlcore.agents.models import ActionValues
from rlcore.agents.off_policy_specs import DiscreteSACSpec
from rlcore.agents.optimization import adam
from rlcore.agents.reference_reader import ReferenceReader
from rlcore.agents.replay_memory import ReplayMemory
from rlcore.agents.soft_replay import SoftReplay
from rlcore.agents.temperature import temperature_of
from rlcore.agents.tianshou_policy import HeldModel
from rlcore.contracts.interpreters import Reference


class ReplayDiscreteSAC(SoftReplay, DiscreteSAC):  # type: ignore[misc]  # own figures
    """Christodoulou 2019 (arXiv:1910.07207): expectations over actions are sums over the possible ones.

    tianshou's knows no masks. The target of the entropy is a share of the greatest that the possible actions of each state allow:
    one number for all states would be out of reach where few are possible, and the temperature would rise for ever.
    """

    def __init__(
        self, policy: HeldModel, reader: ReferenceReader, critics: tuple[ActionValues, ActionValues], spec: DiscreteSACSpec
    ) -> None:
        self._max_gradient_norm = spec.max_gradient_norm
        DiscreteSAC.__init__(
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
        self._reader = reader
        self._start = critics[0].start
        self._target_entropy_fraction = spec.target_entropy_fraction

    def soft_value(self, reference: Reference, mask: NDArray[np.bool_] | None) -> Tensor:
        probability, log_probability = self._distribution(reference, mask)
        first, second = (critic(reference, self._reader) for critic in self.lagged)
        return (probability * (torch.minimum(first, second) - self.alpha.value * log_probability)).sum(-1)

    def value_taken(self, critic: nn.Module, memory: ReplayMemory, rows: NDArray[np.int64]) -> Tensor:
        values: Tensor = critic(memory.reference(rows), self._reader)
        action = torch.from_numpy(memory.column("action", rows).astype(np.int64) - self._start).to(values.device)
        return values.gather(-1, action[:, None])[:, 0]

    def actor_loss(self, memory: ReplayMemory, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor, Tensor]:
        reference, mask = memory.reference(rows), memory.mask(rows)
        probability, log_probability = self._distribution(reference, mask)
        with torch.no_grad():
            first, second = (critic(reference, self._reader) for critic in self.critics)
        loss = (probability * (self.alpha.value * log_probability - torch.minimum(first, second))).sum(-1).mean()
        entropy = -(probability * log_probability).sum(-1).detach()
        num_possible = np.full(len(rows), probability.shape[1]) if mask is None else mask.sum(-1)
        greatest = torch.from_numpy(np.log(num_possible).astype(np.float32)).to(entropy.device)
        return loss, entropy, self._target_entropy_fraction * greatest

    def _distribution(self, reference: Reference, mask: NDArray[np.bool_] | None) -> tuple[Tensor, Tensor]:
        """Return probabilities of actions (lanes, actions) and their logarithms, both 0 where impossible."""
        log_probability = torch.log_softmax(masked(self.policy(reference), mask, -torch.inf), -1)
        # 0 · log 0 = 0, also for the gradient.
        return log_probability.exp(), masked(log_probability, mask, 0.0)
