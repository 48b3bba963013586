"""Proximal policy optimisation on tianshou's, with what the rollout already knows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tianshou.algorithm.algorithm_base import TrainingStats
from tianshou.algorithm.modelfree.ppo import PPO
from torch import Tensor, nn

from rlcore.agents.models import ActorCritic
from rlcore.agents.on_policy_specs import PPOSpec
from rlcore.agents.optimization import CheckedOptimizer, adam
from rlcore.agents.returns import generalized_advantages
from rlcore.agents.tianshou_batch import RowSource, rows_of, shuffled_rows
from rlcore.agents.tianshou_policy import HeldModel
from rlcore.agents.transitions import AliveSteps, cut_references
from rlcore.contracts.interpreters import Reference
from rlcore.environment.rollout import Rollout
from rlcore.foundation.lanes import take_lanes

_EPSILON = 1e-8


@dataclass(kw_only=True)
class PPOStats(TrainingStats):
    """Means over the gradient steps of one update."""

    figures: dict[str, float] = field(default_factory=dict)


class RolloutRows(RowSource):
    """One rollout, as rows."""

    def __init__(self, rollout: Rollout, alive: AliveSteps) -> None:
        super().__init__(len(alive.step))
        self.rollout = rollout
        self.alive = alive
        self.reference: Reference = alive.rows(rollout.reference)
        self.action: NDArray[Any] = alive.rows(rollout.action)
        self.mask: NDArray[np.bool_] | None = alive.rows(rollout.mask)
        self.log_prob: NDArray[np.float32] = alive.rows(rollout.log_prob)
        self.value: NDArray[np.float32] = alive.rows(rollout.value)
        # Filled in by ``RolloutPPO._preprocess_batch``.
        self.advantage: NDArray[np.float32] = np.zeros(0, np.float32)
        self.target: NDArray[np.float32] = np.zeros(0, np.float32)


class RolloutPPO(PPO):
    """PPO that learns from rollouts with stored values and log-probabilities.

    tianshou's recomputes both with the same parameters that gave them, runs the shared network once for the actor and once
    more for the critic, and fails on a batch of one; the loss is the same.
    """

    optim: CheckedOptimizer

    def __init__(self, policy: HeldModel, model: ActorCritic, spec: PPOSpec) -> None:
        super().__init__(
            policy=policy,  # type: ignore[arg-type]  # tianshou asks for its actor only
            critic=model.critic,
            optim=adam(spec),
            eps_clip=spec.clip_range,
            vf_coef=spec.value_loss_weight,
            ent_coef=spec.entropy_weight,
            max_grad_norm=spec.max_gradient_norm,
            gae_lambda=spec.gae_lambda,
            gamma=spec.discount,
            return_scaling=spec.return_scaling == "running",
        )
        self._model = model
        self._value_clip_range = spec.value_clip_range
        self._advantage_scaling = spec.advantage_scaling
        self._rows: RolloutRows | None = None

    @property
    def value_scale(self) -> float:
        """What one unit of the critic's output is in reward."""
        return float(np.sqrt(self.ret_rms.var + _EPSILON)) if self.return_scaling else 1.0

    def _create_optimizer(self, module: nn.Module, factory: Any, max_grad_norm: float | None = None) -> CheckedOptimizer:
        optimizer = CheckedOptimizer(factory.create_instances(module)[0], module, max_grad_norm)
        self._optimizers.append(optimizer)
        return optimizer

    def _preprocess_batch(self, batch: Any, buffer: Any, indices: NDArray[np.int64]) -> Any:
        """Credit actions: advantages, and what the critic should have said."""
        rows: RolloutRows = buffer
        rollout, alive = rows.rollout, rows.alive
        value = alive.table(rows.value.astype(np.float64))
        next_value = self._next_values(rollout, alive, value)
        reward = np.where(rollout.is_alive, rollout.reward, 0.0)
        advantage = generalized_advantages(reward, value, next_value, alive.boundary, self.gamma, self.gae_lambda)
        returns = alive.rows(advantage + value)
        if self.return_scaling:
            self.ret_rms.update(returns)
        rows.target = (returns / self.value_scale).astype(np.float32)
        rows.value = rows.value / np.float32(self.value_scale)
        scaled = alive.rows(advantage)
        if self._advantage_scaling == "iteration":
            scaled = (scaled - scaled.mean()) / (scaled.std() + _EPSILON) if len(scaled) > 1 else scaled
        rows.advantage = scaled.astype(np.float32)
        self._rows = rows
        return batch

    def _next_values(self, rollout: Rollout, alive: AliveSteps, value: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return V(s_{t+1}) of the same episode: stored, or of the final observation where it was cut; 0 at its end."""
        following = np.zeros_like(value)
        following[:-1] = np.where(alive.boundary[:-1], 0.0, value[1:])
        step, lane, reference = cut_references(rollout, alive)
        if len(step):
            with torch.no_grad():
                final = self.policy(reference)[1] * self.value_scale
            following[step, lane] = final.double().cpu().numpy()
        return following

    def _update_with_batch(self, batch: Any, batch_size: int | None, repeat: int) -> PPOStats:  # type: ignore[override]  # own figures
        rows, self._rows = self._rows, None
        assert rows is not None  # set by _preprocess_batch in the same update
        figures: list[dict[str, float]] = []
        for _ in range(repeat):
            for chosen in shuffled_rows(batch, batch_size or len(rows_of(batch))):
                loss, step_figures = self.loss(rows, chosen)
                self.optim.step(loss)
                figures.append({**step_figures, "gradient_norm": self.optim.gradient_norm})
        means = {name: float(np.mean([f[name] for f in figures])) for name in figures[0]}
        return PPOStats(figures={**means, "gradient_steps": float(len(figures))})

    def loss(self, rows: RolloutRows, chosen: NDArray[np.int64]) -> tuple[Tensor, dict[str, float]]:
        """Return L = −L_clip + c_v · L_value − c_e · H (eq. 9 of the paper, signs turned for descent) of the chosen rows."""
        device = self._model.network.device
        advantage, target, old_log_prob, old_value = (
            torch.from_numpy(column[chosen]).to(device) for column in (rows.advantage, rows.target, rows.log_prob, rows.value)
        )
        mask = None if rows.mask is None else rows.mask[chosen]
        parameters, value = self.policy(take_lanes(rows.reference, chosen))
        log_prob = self._model.actor.log_prob(parameters, mask, rows.action[chosen])
        if self._advantage_scaling == "batch" and len(chosen) > 1:  # one sample has no deviation
            advantage = (advantage - advantage.mean()) / (advantage.std(correction=0) + _EPSILON)
        ratio = torch.exp(log_prob - old_log_prob)
        clipped = ratio.clamp(1.0 - self.eps_clip, 1.0 + self.eps_clip)
        policy_loss = -torch.minimum(ratio * advantage, clipped * advantage).mean()
        error = (target - value).square()
        if self._value_clip_range is not None:
            limit = self._value_clip_range
            error = torch.maximum(error, (target - old_value - (value - old_value).clamp(-limit, limit)).square())
        value_loss = error.mean()
        entropy = self._model.actor.entropy(parameters, mask).mean()
        loss = policy_loss + self.vf_coef * value_loss - self.ent_coef * entropy
        with torch.no_grad():
            figures = {
                "loss": loss.item(),
                "policy_loss": policy_loss.item(),
                "value_loss": value_loss.item(),
                "entropy": entropy.item(),
                "clipped_fraction": ((ratio - 1.0).abs() > self.eps_clip).float().mean().item(),
                # Schulman's low-variance estimate, http://joschu.net/blog/kl-approx.html
                "approximate_kl": (ratio - 1.0 - (log_prob - old_log_prob)).mean().item(),
            }
        return loss, figures
