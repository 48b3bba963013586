"""What entropy is worth, in reward."""

from __future__ import annotations

import math
from typing import Any

import torch
from tianshou.algorithm.modelfree.sac import Alpha, FixedAlpha
from torch import Tensor, nn

from rlcore.agents.off_policy_specs import SoftActorCriticSpec
from rlcore.agents.optimization import CheckedOptimizer
from rlcore.agents.plain_state import load_module_state, module_state, optimizer_state


class Temperature(nn.Module, Alpha):
    """A weight α that falls while the entropy is above its target, and rises while it is below.

    Descends log α · (H − H̄) (Haarnoja et al. 2018, arXiv:1812.05905, section 5, with log α for α as its authors' code has it).
    tianshou's AutoAlpha does the same, but has one target for all states and no state for its optimiser.
    """

    def __init__(self, initial: float, learning_rate: float) -> None:
        super().__init__()
        self.log_value = nn.Parameter(torch.tensor(math.log(initial)))
        self.optimizer = CheckedOptimizer(torch.optim.Adam(self.parameters(), lr=learning_rate), self)

    @property
    def value(self) -> float:
        """α."""
        return math.exp(self.log_value.item())

    def update(self, entropy: Tensor) -> float:
        """Take one step.

        Args:
            entropy: H − H̄, (lanes,): by how much the entropy is above its target.
        """
        loss = self.log_value * entropy.detach().mean().cpu()
        self.optimizer.step(loss)
        return float(loss.item())

    def plain_state(self) -> dict[str, Any]:
        """Return plain data and tensors."""
        return {"parameters": module_state(self), "optimizer": optimizer_state(self.optimizer.state_dict())}

    def load_plain_state(self, state: dict[str, Any]) -> None:
        """Restore."""
        load_module_state(self, state["parameters"], "temperature of the agent")
        self.optimizer.load_state_dict(state["optimizer"])


def temperature_of(spec: SoftActorCriticSpec) -> Temperature | FixedAlpha:
    """Return the temperature of a spec."""
    if spec.temperature == "fixed":
        return FixedAlpha(spec.initial_temperature)
    return Temperature(spec.initial_temperature, spec.learning_rate)
