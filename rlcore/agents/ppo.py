"""Proximal policy optimisation (Schulman et al. 2017, arXiv:1707.06347)."""

from __future__ import annotations

import torch
from torch import Tensor

from rlcore.agents.models import ActorCritic
from rlcore.agents.on_policy import JudgedRows, RolloutActorCritic
from rlcore.agents.on_policy_specs import PPOSpec
from rlcore.agents.optimization import adam
from rlcore.agents.tianshou_policy import HeldModel


class RolloutPPO(RolloutActorCritic):
    """Several passes over a rollout, in which no action's probability gains from moving far."""

    def __init__(self, policy: HeldModel, model: ActorCritic, spec: PPOSpec) -> None:
        super().__init__(policy, model, spec, adam(spec))
        self._clip_range = spec.clip_range
        self._value_clip_range = spec.value_clip_range

    def policy_loss(self, rows: JudgedRows) -> tuple[Tensor, dict[str, Tensor]]:
        """Return −mean min(ρ A, clip(ρ, 1 − ε, 1 + ε) A), eq. 7 with the sign turned, where ρ = π(a) / π_old(a)."""
        log_ratio = rows.log_prob - rows.old_log_prob
        ratio = torch.exp(log_ratio)
        clipped = ratio.clamp(1.0 - self._clip_range, 1.0 + self._clip_range)
        loss = -torch.minimum(ratio * rows.advantage, clipped * rows.advantage).mean()
        with torch.no_grad():
            figures = {
                "clipped_fraction": ((ratio - 1.0).abs() > self._clip_range).float().mean(),
                # Schulman's low-variance estimate, http://joschu.net/blog/kl-approx.html
                "approximate_kl": (ratio - 1.0 - log_ratio).mean(),
            }
        return loss, figures

    def value_loss(self, rows: JudgedRows) -> Tensor:
        error = (rows.target - rows.value).square()
        if self._value_clip_range is not None:
            limit = self._value_clip_range
            near = rows.old_value + (rows.value - rows.old_value).clamp(-limit, limit)
            error = torch.maximum(error, (rows.target - near).square())
        return error.mean()
