"""What PPO and A2C share: credit from a rollout's stored values, and gradient steps over its rows, on tianshou's A2C."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from tianshou.algorithm.algorithm_base import TrainingStats
from tianshou.algorithm.modelfree.a2c import A2C
from tianshou.algorithm.optim import OptimizerFactory
from torch import Tensor, nn

from rlcore.agents.finite_checks import require_finite_outputs
from rlcore.agents.models import ActorCritic
from rlcore.agents.on_policy_specs import OnPolicySpec
from rlcore.agents.optimization import CheckedOptimizer
from rlcore.agents.returns import generalized_advantages
from rlcore.agents.tianshou_batch import RowSource, rows_of, shuffled_rows
from rlcore.agents.tianshou_policy import HeldModel
from rlcore.agents.transitions import AliveSteps, cut_references
from rlcore.contracts.interpreters import Reference
from rlcore.environment.rollout import Rollout
from rlcore.foundation.lanes import take_lanes

_EPSILON = 1e-8
_ROUNDING = 1e-6  # of float32, a few times over


@dataclass(kw_only=True)
class OnPolicyStats(TrainingStats):
    """Means over the gradient steps of one update."""

    figures: dict[str, float] = field(default_factory=dict)


class RolloutRows(RowSource):
    """One rollout, as rows. The policy that collected it must have left ``log_prob`` and ``value``."""

    def __init__(self, rollout: Rollout, alive: AliveSteps) -> None:
        super().__init__(len(alive.step))
        self.rollout = rollout
        self.alive = alive
        self.reference: Reference = alive.rows(rollout.reference)
        self.action: NDArray[Any] = alive.rows(rollout.action)
        self.mask: NDArray[np.bool_] | None = alive.rows(rollout.mask)
        self.log_prob: NDArray[np.float32] = alive.rows(rollout.log_prob)
        self.value: NDArray[np.float32] = alive.rows(rollout.value)
        # Filled in by ``RolloutActorCritic._preprocess_batch``.
        self.advantage: NDArray[np.float32] = np.zeros(0, np.float32)
        self.target: NDArray[np.float32] = np.zeros(0, np.float32)


@dataclass(frozen=True, slots=True)
class JudgedRows:
    """What the model makes of some rows now, with gradients, beside what was stored of them. All are (rows,)."""

    log_prob: Tensor
    value: Tensor
    entropy: Tensor
    old_log_prob: Tensor
    old_value: Tensor
    advantage: Tensor
    target: Tensor  # what the critic should have said


class RolloutActorCritic(A2C):
    """An actor-critic that learns from rollouts with stored values and log-probabilities; what it descends is its subclass's.

    tianshou's recompute both with the same parameters that gave them, run the shared network once for the actor and once
    more for the critic, and fail on a batch of one; the losses are the same.
    """

    optim: CheckedOptimizer

    def __init__(self, policy: HeldModel, model: ActorCritic, spec: OnPolicySpec, optimizer: OptimizerFactory) -> None:
        super().__init__(
            policy=policy,  # type: ignore[arg-type]  # tianshou asks for its actor only
            critic=model.critic,
            optim=optimizer,
            vf_coef=spec.value_loss_weight,
            ent_coef=spec.entropy_weight,
            max_grad_norm=spec.max_gradient_norm,
            gae_lambda=spec.gae_lambda,
            gamma=spec.discount,
            return_scaling=spec.return_scaling == "running",
        )
        self._model = model
        self._advantage_scaling = spec.advantage_scaling
        self._rows: RolloutRows | None = None

    @abstractmethod
    def policy_loss(self, rows: JudgedRows) -> tuple[Tensor, dict[str, Tensor]]:
        """Return what the actor descends, a mean over rows, and figures to look at."""

    @abstractmethod
    def value_loss(self, rows: JudgedRows) -> Tensor:
        """Return what the critic descends, a mean over rows."""

    @property
    def value_scale(self) -> float:
        """What one unit of the critic's output is in reward: 1 where returns are not scaled, or all were alike so far."""
        mean, variance = self.ret_rms.mean, self.ret_rms.var
        # Over a deviation of nothing but rounding, the critic's error would drown what the policy learns in the shared network.
        is_scaled = self.return_scaling and variance > (_ROUNDING * mean) ** 2
        return float(np.sqrt(variance + _EPSILON)) if is_scaled else 1.0

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
        credit = alive.rows(advantage)
        rows.advantage = (_standardized(credit) if self._advantage_scaling == "iteration" else credit).astype(np.float32)
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
            if not bool(torch.isfinite(final).all()):  # of references that are compressed: the observation was built just now
                seed_id, at = rollout.seed_id[step, lane], rollout.step[step, lane] + 1
                observation = cast(HeldModel, self.policy).expand(reference)
                require_finite_outputs((final,), observation, lambda row: f"for seed {seed_id[row]} at step {at[row]}")
            following[step, lane] = final.double().cpu().numpy()
        return following

    def _update_with_batch(self, batch: Any, batch_size: int | None, repeat: int) -> OnPolicyStats:  # type: ignore[override]  # own figures
        rows, self._rows = self._rows, None
        assert rows is not None  # set by _preprocess_batch in the same update
        figures: list[dict[str, float]] = []
        for _ in range(repeat):
            for chosen in shuffled_rows(batch, batch_size or len(rows_of(batch))):
                loss, step_figures = self.loss(rows, chosen)
                self.optim.step(loss)
                figures.append({**step_figures, "gradient_norm": self.optim.gradient_norm})
        means = {name: float(np.mean([f[name] for f in figures])) for name in figures[0]}
        return OnPolicyStats(figures={**means, "gradient_steps": float(len(figures))})

    def loss(self, rows: RolloutRows, chosen: NDArray[np.int64]) -> tuple[Tensor, dict[str, float]]:
        """Return L = L_policy + c_v · L_value − c_e · H of the chosen rows."""
        judged = self._judged(rows, chosen)
        policy_loss, further = self.policy_loss(judged)
        value_loss, entropy = self.value_loss(judged), judged.entropy.mean()
        loss = policy_loss + self.vf_coef * value_loss - self.ent_coef * entropy
        figures = {"loss": loss, "policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy, **further}
        return loss, {name: figure.item() for name, figure in figures.items()}

    def _judged(self, rows: RolloutRows, chosen: NDArray[np.int64]) -> JudgedRows:
        device = self._model.network.device
        credit = rows.advantage[chosen]
        if self._advantage_scaling == "batch":
            credit = _standardized(credit.astype(np.float64)).astype(np.float32)
        advantage, target, old_log_prob, old_value = (
            torch.from_numpy(column).to(device)
            for column in (credit, rows.target[chosen], rows.log_prob[chosen], rows.value[chosen])
        )
        mask = None if rows.mask is None else rows.mask[chosen]
        parameters, value = self.policy(take_lanes(rows.reference, chosen))
        actor = self._model.actor
        log_prob, entropy = actor.log_prob(parameters, mask, rows.action[chosen]), actor.entropy(parameters, mask)
        return JudgedRows(log_prob, value, entropy, old_log_prob, old_value, advantage, target)


def _standardized(advantage: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (A − mean) / deviation: 0 where all are alike; one sample has no deviation and stays as it is."""
    if len(advantage) == 1:
        return advantage
    if advantage.min() == advantage.max():  # their mean is rounded: over no deviation, that would be as large as any advantage
        return np.zeros_like(advantage)
    return (advantage - advantage.mean()) / (advantage.std() + _EPSILON)  # type: ignore[no-any-return]  # NumPy's mean
