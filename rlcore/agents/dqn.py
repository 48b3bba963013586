"""Deep Q-learning on tianshou's, from a memory of references."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from tianshou.algorithm.modelfree.dqn import DQN
from torch import Tensor, nn

from rlcore.agents.action_heads import masked
from rlcore.agents.models import ActionValues
from rlcore.agents.off_policy_specs import DQNSpec
from rlcore.agents.optimization import CheckedOptimizer, adam
from rlcore.agents.replay_cadence import ReplayStats
from rlcore.agents.replay_memory import ReplayMemory
from rlcore.agents.tianshou_batch import rows_of, weights_of
from rlcore.agents.tianshou_policy import HeldModel


class ReplayDQN(DQN[Any]):
    """DQN whose windows stop where episodes do, whose masks hold for the next action too, and whose copies are whole.

    tianshou's copies parameters to the lagged network but no statistics, keeps its counter out of the state, knows no limit of
    the gradient, and forgets the weights of prioritised replay in Huber's loss.
    """

    optim: CheckedOptimizer

    def __init__(self, policy: HeldModel, model: ActionValues, spec: DQNSpec) -> None:
        self._max_gradient_norm = spec.max_gradient_norm
        super().__init__(
            policy=policy,
            optim=adam(spec),
            gamma=spec.discount,
            n_step_return_horizon=spec.num_return_steps,
            target_update_freq=spec.target_update_every,
            is_double=spec.target == "double",
            huber_loss_delta=spec.huber_threshold,
        )
        self._model = model
        self._memory: ReplayMemory | None = None
        self._target: Tensor | None = None

    @property
    def lagged(self) -> nn.Module:
        """The lagged copy of the model."""
        assert self.model_old is not None  # target_update_every is at least 1
        module = self.model_old.module
        assert isinstance(module, nn.Module)
        return module

    def set_num_gradient_steps(self, value: int) -> None:
        """Say how many steps were taken, on which it depends when the next copy is made."""
        self._iter = value

    def train(self, mode: bool = True) -> Self:
        # tianshou sets the mode of every module twice in each gradient step: a fifth of the time of a small network.
        return self if mode == self.training else super().train(mode)

    def _create_optimizer(self, module: nn.Module, factory: Any, max_grad_norm: float | None = None) -> CheckedOptimizer:
        optimizer = CheckedOptimizer(factory.create_instances(module)[0], module, self._max_gradient_norm)
        self._optimizers.append(optimizer)
        return optimizer

    def _update_lagged_network_weights(self) -> None:
        self.lagged.load_state_dict(self._model.state_dict())

    def _preprocess_batch(self, batch: Any, buffer: Any, indices: NDArray[np.int64]) -> Any:
        """Compute y = R + D · Q_lagged(s′, a′) of each row's window."""
        self._memory = buffer
        reward_sum, discount = (self._column(name, indices) for name in ("reward_sum", "bootstrap_discount"))
        self._target = reward_sum + discount * self._target_q(buffer, indices)
        return batch

    @torch.no_grad()
    def _target_q(self, buffer: Any, indices: NDArray[np.int64]) -> Tensor:
        memory: ReplayMemory = buffer
        reference, mask = memory.window_ends(indices)
        valued = self.policy(reference, model=self.lagged)
        if not self.is_double:
            return masked(valued, mask, -torch.inf).max(-1).values
        chosen = masked(self.policy(reference), mask, -torch.inf).argmax(-1)
        return valued.gather(-1, chosen[:, None])[:, 0]  # type: ignore[no-any-return]  # policies of tianshou return Any

    def _update_with_batch(self, batch: Any) -> ReplayStats:  # type: ignore[override]  # own figures
        self._periodically_update_lagged_network_weights()
        rows = rows_of(batch)
        loss, error = self.loss(rows, weights_of(batch))
        self.optim.step(loss)
        assert self._memory is not None  # set by _preprocess_batch in the same update
        self._memory.draw.learned(rows, error.cpu().numpy())
        return ReplayStats(figures={"loss": loss.item(), "gradient_norm": self.optim.gradient_norm})

    def loss(self, rows: NDArray[np.int64], weight: NDArray[np.float32] | None = None) -> tuple[Tensor, Tensor]:
        """Return the mean (Huber or squared) error of the rows' action values, each by its weight; and value − target of each."""
        assert self._memory is not None and self._target is not None  # set by _preprocess_batch in the same update
        values = self.policy(self._memory.reference(rows))
        action = torch.from_numpy(self._memory.column("action", rows).astype(np.int64) - self._model.start).to(values.device)
        value = values.gather(-1, action[:, None])[:, 0]
        if self.huber_loss_delta is None:
            size = torch.nn.functional.mse_loss(value, self._target, reduction="none")
        else:
            size = torch.nn.functional.huber_loss(value, self._target, delta=self.huber_loss_delta, reduction="none")
        if weight is not None:
            size = size * torch.from_numpy(weight).to(size.device)
        return size.mean(), (value - self._target).detach()

    def _column(self, name: str, rows: NDArray[np.int64]) -> Tensor:
        assert self._memory is not None
        return torch.from_numpy(self._memory.column(name, rows)).to(self._model.network.device)
