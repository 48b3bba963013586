"""The rhythm of agents that learn from a memory: transitions pay for gradient steps."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from tianshou.algorithm.algorithm_base import OffPolicyAlgorithm, TrainingStats
from tianshou.utils.torch_utils import torch_train_mode

from rlcore.agents.finite_checks import require_finite_column, require_finite_references
from rlcore.agents.held_network import HeldNetwork
from rlcore.agents.networks import Network
from rlcore.agents.off_policy_specs import ReplaySpec
from rlcore.agents.optimization import CheckedOptimizer
from rlcore.agents.prioritized_draw import PrioritizedDraw
from rlcore.agents.replay_memory import ReplayMemory, UniformDraw
from rlcore.agents.transitions import AliveSteps, alive_steps
from rlcore.environment.rollout import Rollout
from rlcore.foundation.errors import ContractError


@dataclass(kw_only=True)
class ReplayStats(TrainingStats):
    """Figures of one gradient step."""

    figures: dict[str, float] = field(default_factory=dict)


class ReplayCadence:
    """Remembers rollouts and takes as many gradient steps as their transitions pay for.

    Args:
        spec: sizes and rates.
        num_return_steps: rewards that are summed in a window.
        held: the model that decides.
        critics: networks that learn beside it; statistics of observations are moved in all of them.
    """

    def __init__(
        self, spec: ReplaySpec, num_return_steps: int, held: HeldNetwork[Any], critics: tuple[Network, ...] = ()
    ) -> None:
        self._spec = spec
        self._held = held
        self._critics = critics
        draw = UniformDraw() if spec.priorities is None else PrioritizedDraw(spec.memory_size, spec.priorities)
        self.memory = ReplayMemory(spec.memory_size, spec.discount, num_return_steps, draw)
        self.num_transitions = 0
        self.num_gradient_steps = 0
        self._num_learned = 0  # calls of learn
        self._num_paying = 0  # transitions that pay for gradient steps

    def learn(
        self, rollout: Rollout, algorithm: OffPolicyAlgorithm[Any], optimizers: tuple[CheckedOptimizer, ...]
    ) -> dict[str, float]:
        """Remember a rollout, then let the algorithm take the steps that are due.

        Args:
            rollout: what a policy did.
            algorithm: its ``update`` returns ``ReplayStats``.
            optimizers: of the algorithm; the learning rate falls in all of them.

        Returns:
            Means of the algorithm's figures over the steps, and figures of the memory.

        Raises:
            ContractError: for a rollout without steps or with numbers that are not finite; nothing is remembered of it.
        """
        alive = _checked_steps(rollout)
        self.memory.add(rollout)
        self.num_transitions += rollout.num_steps
        if self.memory.num_rows >= self._spec.learn_after:
            # What was collected before learning starts pays for nothing: no burst of steps on the first few transitions.
            self._num_paying += rollout.num_steps
        due = math.floor(self._num_paying * self._spec.gradient_steps_per_transition + 1e-9)  # 0.1 · 30 is 3
        steps = due - self.num_gradient_steps
        for optimizer in optimizers:
            optimizer.learning_rate = self._held.learning_rate(self._num_learned)
        figures = self._take_gradient_steps(algorithm, steps)
        self.num_gradient_steps += steps
        self._num_learned += 1
        self._absorb(rollout, alive)
        return {
            **figures,
            "gradient_steps": float(steps),
            "learning_rate": optimizers[0].learning_rate,
            "memory_transitions": float(self.memory.num_rows),
        }

    def _take_gradient_steps(self, algorithm: OffPolicyAlgorithm[Any], count: int) -> dict[str, float]:
        figures: list[dict[str, float]] = []
        with self._held.updating(self._num_learned), torch_train_mode(algorithm):
            for _ in range(count):
                stats = algorithm.update(
                    self.memory,  # type: ignore[arg-type]  # a RowSource stands for a buffer
                    sample_size=self._spec.batch_size,
                )
                figures.append(cast(ReplayStats, stats).figures)  # what _update_with_batch returned, under its base's type
        return {name: float(np.mean([step[name] for step in figures])) for name in figures[0]} if figures else {}

    def _absorb(self, rollout: Rollout, alive: AliveSteps) -> None:
        reference = alive.rows(rollout.reference)
        self._held.absorb(reference)
        moved = [network for network in self._critics if network.has_statistics]
        if moved:
            observation = self._held.reader.expand(reference)
            for network in moved:
                network.absorb(observation)

    def state_dict(self) -> dict[str, Any]:
        """Return plain data and tensors."""
        return {
            "memory": self.memory.state_dict(),
            "num_transitions": self.num_transitions,
            "num_gradient_steps": self.num_gradient_steps,
            "num_learned": self._num_learned,
            "num_paying": self._num_paying,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore: a resumed agent owes no more steps than it did."""
        self.memory.load_state_dict(state["memory"])
        self.num_transitions = int(state["num_transitions"])
        self.num_gradient_steps = int(state["num_gradient_steps"])
        self._num_learned = int(state["num_learned"])
        self._num_paying = int(state["num_paying"])


def _checked_steps(rollout: Rollout) -> AliveSteps:
    """Refuse what cannot be learned from, before anything is touched."""
    if not rollout.is_alive.any():
        raise ContractError("rollout must hold at least one step, held none")
    alive = alive_steps(rollout)
    seed_id, episode_step = alive.rows(rollout.seed_id), alive.rows(rollout.step)
    require_finite_column("reward", alive.rows(rollout.reward), seed_id, episode_step)
    require_finite_references(alive.rows(rollout.reference), seed_id, episode_step)
    require_finite_references(alive.rows(rollout.next_reference), seed_id, episode_step + 1)
    if rollout.next_mask is not None:
        is_stuck = ~alive.rows(rollout.next_mask).any(-1)
        if is_stuck.any():
            row = int(np.flatnonzero(is_stuck)[0])
            raise ContractError(
                "mask where an episode goes on or is truncated must leave an action possible, left none possible for seed "
                f"{seed_id[row]} at step {episode_step[row] + 1}; nothing was learned from it: mend the action interpreter's "
                "mask, or let the simulator terminate the episode there"
            )
    return alive
