"""Agents that learn from what today's policy has just done, as data. Importing this needs no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import gymnasium

from rlcore.agents.specs import AgentSpec, Count, Fraction, NonNegative, Positive

if TYPE_CHECKING:
    from rlcore.agents.agent import Agent
    from rlcore.contracts.interpreters import LaneStateInterpreter


class PPOSpec(AgentSpec):
    """Proximal policy optimisation (Schulman et al. 2017, arXiv:1707.06347), for discrete and for continuous actions.

    Actor and critic share the network.
    """

    kind: Literal["ppo"] = "ppo"
    gae_lambda: Fraction = 0.95
    """Of the generalised advantage: 0 trusts the critic, 1 the observed rewards."""
    num_repeats: Count
    """Passes over each iteration's transitions."""
    clip_range: Positive = 0.2
    """How far the probability ratio of an action may move before its gradient is cut."""
    value_clip_range: Positive | None = None
    """How far a value may move from the stored one before its gradient is cut; null: any distance."""
    value_loss_weight: NonNegative = 0.5
    """Of the critic's squared error, against the policy's loss."""
    entropy_weight: NonNegative = 0.01
    """Of the policy's entropy, which keeps it exploring."""
    advantage_scaling: Literal["none", "batch", "iteration"] = "iteration"
    """Over which transitions advantages are centred and scaled: those of one gradient step, or all of the iteration."""
    return_scaling: Literal["none", "running"] = "none"
    """running: the critic learns returns divided by their deviation over all training so far."""

    def build(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        state_interpreter: LaneStateInterpreter[Any],
        *,
        root_seed: int,
        device: str,
    ) -> Agent:
        from rlcore.agents.ppo_agent import PPOAgent

        return PPOAgent(self, observation_space, action_space, state_interpreter, root_seed=root_seed, device=device)
