"""Advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783), synchronous: all lanes move, then all learn."""

from __future__ import annotations

from torch import Tensor

from rlcore.agents.models import ActorCritic
from rlcore.agents.on_policy import JudgedRows, RolloutActorCritic
from rlcore.agents.on_policy_specs import A2CSpec
from rlcore.agents.optimization import adam, rmsprop
from rlcore.agents.tianshou_policy import HeldModel


class RolloutA2C(RolloutActorCritic):
    """One pass over a rollout, up the gradient of log π(a) · A."""

    def __init__(self, policy: HeldModel, model: ActorCritic, spec: A2CSpec) -> None:
        super().__init__(policy, model, spec, rmsprop(spec) if spec.optimizer == "rmsprop" else adam(spec))

    def policy_loss(self, rows: JudgedRows) -> tuple[Tensor, dict[str, Tensor]]:
        """Return −mean log π(a) · A: its gradient is the policy's (section 4 of the paper), with the sign turned."""
        return -(rows.log_prob * rows.advantage).mean(), {}

    def value_loss(self, rows: JudgedRows) -> Tensor:
        return (rows.target - rows.value).square().mean()
