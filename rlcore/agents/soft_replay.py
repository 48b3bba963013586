"""One gradient step of a soft actor-critic: what the kinds for boxes and for choices share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from tianshou.algorithm.modelfree.sac import Alpha
from tianshou.algorithm.modelfree.td3 import ActorDualCriticsOffPolicyAlgorithm
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from rlcore.agents.optimization import CheckedOptimizer
from rlcore.agents.replay_cadence import ReplayStats
from rlcore.agents.replay_memory import ReplayMemory
from rlcore.agents.tianshou_batch import rows_of, weights_of
from rlcore.contracts.interpreters import Reference


class SoftReplay(ActorDualCriticsOffPolicyAlgorithm[Any, Any], ABC):
    """Stands before tianshou's SAC or DiscreteSAC, which it makes learn from a memory of references.

    tianshou's start both critics from the same parameters where only one is given, keep the temperature's optimiser out of the
    state, copy no statistics to the lagged critics, know no limit of the gradient, and take gradients of the critics' parameters
    that nobody uses when the actor learns.
    """

    policy_optim: CheckedOptimizer
    critic_optim: CheckedOptimizer
    critic2_optim: CheckedOptimizer
    alpha: Alpha
    _max_gradient_norm: float | None
    _memory: ReplayMemory | None = None
    _target: Tensor | None = None

    @abstractmethod
    def soft_value(self, reference: Reference, mask: NDArray[np.bool_] | None) -> Tensor:
        """Return E_π [min of the lagged critics − α log π] of states, (lanes,); called without gradients."""

    @abstractmethod
    def value_taken(self, critic: nn.Module, memory: ReplayMemory, rows: NDArray[np.int64]) -> Tensor:
        """Return a critic's value of the actions that were taken, (rows,)."""

    @abstractmethod
    def actor_loss(self, memory: ReplayMemory, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor, Tensor]:
        """Return E_π [α log π − min of the critics], a mean over rows; the policy's entropy and its target, each (rows,)."""

    @property
    def critics(self) -> tuple[nn.Module, nn.Module]:
        """Both critics."""
        return self.critic, self.critic2

    @property
    def lagged(self) -> tuple[nn.Module, nn.Module]:
        """Their slow copies."""
        return self.critic_old.module, self.critic2_old.module

    @property
    def optimizers(self) -> dict[str, CheckedOptimizer]:
        """Those of the networks, by name."""
        return {"actor": self.policy_optim, "critic_1": self.critic_optim, "critic_2": self.critic2_optim}

    def train(self, mode: bool = True) -> Self:
        # See ReplayDQN.
        return self if mode == self.training else super().train(mode)

    def _create_optimizer(self, module: nn.Module, factory: Any, max_grad_norm: float | None = None) -> CheckedOptimizer:
        optimizer = CheckedOptimizer(factory.create_instances(module)[0], module, self._max_gradient_norm)
        self._optimizers.append(optimizer)
        return optimizer

    @cached_property
    def critic_parameters(self) -> list[Tensor]:
        """Of both critics; found once, because looking for them takes longer than using them."""
        return [parameter for critic in self.critics for parameter in critic.parameters()]

    @cached_property
    def _lagged_parameters(self) -> list[Tensor]:
        return [parameter for critic in self.lagged for parameter in critic.parameters()]

    @cached_property
    def _statistics(self) -> list[tuple[Tensor, Tensor]]:
        pairs = zip(self.lagged, self.critics, strict=True)
        return [both for lagged, critic in pairs for both in zip(lagged.buffers(), critic.buffers(), strict=True)]

    @torch.no_grad()
    def _update_lagged_network_weights(self) -> None:
        average = get_ema_multi_avg_fn(1.0 - self.tau)  # type: ignore[no-untyped-call]  # torch
        average(self._lagged_parameters, self.critic_parameters, 0)
        for copied, statistic in self._statistics:
            copied.copy_(statistic)

    @torch.no_grad()
    def _preprocess_batch(self, batch: Any, buffer: Any, indices: NDArray[np.int64]) -> Any:
        """Compute y = R + D · V(s′) of each row; D is 0 where the episode terminated, and only there."""
        memory: ReplayMemory = buffer
        self._memory = memory
        value = self.soft_value(*memory.window_ends(indices))
        reward_sum, discount = (
            torch.from_numpy(memory.column(name, indices)).to(value.device) for name in ("reward_sum", "bootstrap_discount")
        )
        self._target = reward_sum + discount * value
        return batch

    def _update_with_batch(self, batch: Any) -> ReplayStats:
        memory, target = self._memory, self._target
        assert memory is not None and target is not None  # set by _preprocess_batch in the same update
        rows = rows_of(batch)
        losses, errors = [], []
        for critic, optimizer in zip(self.critics, (self.critic_optim, self.critic2_optim), strict=True):
            loss, error = critic_loss(self.value_taken(critic, memory, rows), target, weights_of(batch))
            optimizer.step(loss)
            losses.append(loss.item())
            errors.append(error)
        memory.draw.learned(rows, (0.5 * (errors[0].abs() + errors[1].abs())).cpu().numpy())
        loss, entropy, target_entropy = self.actor_loss(memory, rows)
        self.policy_optim.step(loss)
        self.alpha.update(entropy - target_entropy)
        self._update_lagged_network_weights()
        return ReplayStats(
            figures={
                "actor_loss": loss.item(),
                "critic_loss": 0.5 * (losses[0] + losses[1]),
                "entropy": entropy.mean().item(),
                "temperature": self.alpha.value,
                "actor_gradient_norm": self.policy_optim.gradient_norm,
                "critic_gradient_norm": 0.5 * (self.critic_optim.gradient_norm + self.critic2_optim.gradient_norm),
            }
        )


def critic_loss(value: Tensor, target: Tensor, weight: NDArray[np.float32] | None) -> tuple[Tensor, Tensor]:
    """Return the mean squared error, each row by its weight, and value − target of each row."""
    error = value - target
    squared = error.square()
    if weight is not None:
        squared = squared * torch.from_numpy(weight).to(squared.device)
    return squared.mean(), error.detach()


@contextmanager
def frozen(parameters: list[Tensor]) -> Iterator[None]:
    """Let gradients pass through modules without computing those of their parameters."""
    for parameter in parameters:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)
