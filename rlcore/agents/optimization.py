"""Optimisers with a sentinel, and learning rates that fall."""

from __future__ import annotations

import copy
from typing import Any

import torch
from tianshou.algorithm.algorithm_base import Algorithm
from tianshou.algorithm.optim import TorchOptimizerFactory
from torch import Tensor, nn

from rlcore.agents.finite_checks import require_finite_gradient, require_finite_loss
from rlcore.agents.specs import AgentSpec, LinearDecaySpec


class CheckedOptimizer(Algorithm.Optimizer):
    """tianshou's optimiser, which refuses losses and gradients that are not finite before it touches a parameter."""

    def __init__(self, optim: torch.optim.Optimizer, module: nn.Module, max_grad_norm: float | None = None) -> None:
        super().__init__(optim, module, max_grad_norm)
        self.gradient_norm = 0.0  # of the last step, before it was shortened
        self._parameters = list(module.parameters())  # looking for them in the module takes longer than a small network's step

    def step(self, loss: Tensor, retain_graph: bool | None = None, create_graph: bool = False) -> None:
        require_finite_loss(loss)
        self._optim.zero_grad()
        loss.backward(retain_graph=retain_graph, create_graph=create_graph)  # type: ignore[no-untyped-call]  # torch
        limit = torch.inf if self._max_grad_norm is None else self._max_grad_norm
        norm = nn.utils.clip_grad_norm_(self._parameters, limit)
        require_finite_gradient(norm, self._module)
        self.gradient_norm = float(norm)
        self._optim.step()

    @property
    def learning_rate(self) -> float:
        """The learning rate of now."""
        return float(self._optim.param_groups[0]["lr"])

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        for group in self._optim.param_groups:
            group["lr"] = value

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        # torch takes over the tensors it is given and then changes them in place: they must not be the caller's.
        super().load_state_dict(copy.deepcopy(state_dict))


def adam(spec: AgentSpec) -> TorchOptimizerFactory:
    """Return what makes the optimiser of a spec."""
    return TorchOptimizerFactory(torch.optim.Adam, lr=spec.learning_rate, fused=True)


def rmsprop(spec: AgentSpec) -> TorchOptimizerFactory:
    """Return what makes the optimiser of Mnih et al. 2016 (arXiv:1602.01783, section 4): RMSprop without momentum, α = 0.99."""
    return TorchOptimizerFactory(torch.optim.RMSprop, lr=spec.learning_rate, alpha=0.99, eps=1e-5)


def decayed(learning_rate: float, decay: LinearDecaySpec | None, num_iterations: int) -> float:
    """Return the learning rate after so many iterations: a · (1 − (1 − f) · min(i / n, 1)).

    It depends on the count alone, so that a resumed training needs no other state.
    """
    if decay is None:
        return learning_rate
    return learning_rate * (1.0 - (1.0 - decay.final_fraction) * min(num_iterations / decay.num_iterations, 1.0))
