"""Agents that learn from what today's policy has just done, as data. Importing this needs no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import gymnasium

from rlcore.agents.specs import AgentSpec, Count, Fraction, NonNegative, Positive

if TYPE_CHECKING:
    from rlcore.agents.agent import Agent
    from rlcore.contracts.interpreters import LaneStateInterpreter


class OnPolicySpec(AgentSpec):
    """What every actor-critic has that learns from rollouts. Actor and critic share the network."""

    gae_lambda: Fraction = 0.95
    """Of the generalised advantage: 0 trusts the critic, 1 the observed rewards."""
    value_loss_weight: NonNegative = 0.5
    """Of the critic's squared error, against the policy's loss."""
    entropy_weight: NonNegative = 0.01
    """Of the policy's entropy, which keeps it exploring."""
    advantage_scaling: Literal["none", "batch", "iteration"] = "iteration"
    """Over which transitions advantages are centred and scaled: those of one gradient step, or all of the iteration."""
    return_scaling: Literal["none", "running"] = "none"
    """running: the critic learns returns divided by their deviation over all training so far."""


class PPOSpec(OnPolicySpec):
    """Proximal policy optimisation (Schulman et al. 2017, arXiv:1707.06347), for discrete and for continuous actions."""

    kind: Literal["ppo"] = "ppo"
    num_repeats: Count
    """Passes over each iteration's transitions."""
    clip_range: Positive = 0.2
    """How far the probability ratio of an action may move before its gradient is cut."""
    value_clip_range: Positive | None = None
    """How far a value may move from the stored one before its gradient is cut; null: any distance."""

    def build(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        state_interpreter: LaneStateInterpreter[Any],
        *,
        root_seed: int,
        device: str,
    ) -> Agent:
        from rlcore.agents.held_network import HeldNetwork
        from rlcore.agents.models import ActorCritic
        from rlcore.agents.on_policy_agent import OnPolicyAgent
        from rlcore.agents.ppo import RolloutPPO

        spaces = (observation_space, action_space)
        held = HeldNetwork(ActorCritic, self, *spaces, state_interpreter, root_seed=root_seed, device=device)
        return OnPolicyAgent(self.kind, held, RolloutPPO(held.policy, held.model, self), self.batch_size, self.num_repeats)


class A2CSpec(OnPolicySpec):
    """Synchronous advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783), for discrete and for continuous actions.

    Each iteration's transitions are learnt from once; with a ``batch_size`` of all of them in one gradient step, as in the paper.
    """

    kind: Literal["a2c"] = "a2c"
    gae_lambda: Fraction = 1.0
    """Of the generalised advantage: 1, the paper's, trusts the rewards observed until the iteration's end; 0 the critic."""
    advantage_scaling: Literal["none", "batch", "iteration"] = "none"
    """Over which transitions advantages are centred and scaled: none, as in the paper; those of one gradient step; all."""
    optimizer: Literal["rmsprop", "adam"] = "rmsprop"
    """rmsprop: without momentum, as in the paper."""

    def build(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        state_interpreter: LaneStateInterpreter[Any],
        *,
        root_seed: int,
        device: str,
    ) -> Agent:
        from rlcore.agents.a2c import RolloutA2C
        from rlcore.agents.held_network import HeldNetwork
        from rlcore.agents.models import ActorCritic
        from rlcore.agents.on_policy_agent import OnPolicyAgent

        spaces = (observation_space, action_space)
        held = HeldNetwork(ActorCritic, self, *spaces, state_interpreter, root_seed=root_seed, device=device)
        return OnPolicyAgent(self.kind, held, RolloutA2C(held.policy, held.model, self), self.batch_size, num_repeats=1)
