"""Agents that learn from a memory of transitions, as data. Importing this needs no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import gymnasium
from pydantic import model_validator

from rlcore.agents.specs import AgentSpec, Count, Fraction, Positive, Spec

if TYPE_CHECKING:
    from rlcore.agents.agent import Agent
    from rlcore.contracts.interpreters import LaneStateInterpreter


class ExplorationSpec(Spec):
    """The share of random actions falls in a straight line, then stays."""

    initial: Fraction
    """Probability of a random action at the start."""
    final: Fraction
    """Probability of a random action at the end."""
    num_transitions: Count
    """Transitions seen until the last value is reached."""


class DQNSpec(AgentSpec):
    """Deep Q-learning (Mnih et al. 2015) with double estimates (van Hasselt et al. 2016, arXiv:1509.06461) and n-step returns."""

    kind: Literal["dqn"] = "dqn"
    exploration: ExplorationSpec
    """How often an action is random while collecting; never in an evaluation."""
    target: Literal["double", "maximum"] = "double"
    """double: the network chooses the next action and its lagged copy values it; maximum: the lagged copy does both."""
    num_return_steps: Count = 1
    """Rewards that are summed before the estimate of what follows; never across the end of an episode."""
    target_update_every: Count
    """Gradient steps between two copies of the network to its lagged copy."""
    memory_size: Count
    """Transitions that are remembered."""
    learn_after: Count
    """Transitions in memory before the first gradient step."""
    gradient_steps_per_transition: Positive
    """Gradient steps for each transition collected; fractions add up over iterations."""
    huber_threshold: Positive | None = 1.0
    """Errors beyond it count linearly; null: all errors count as their square."""

    @model_validator(mode="after")
    def _memory_holds_a_batch(self) -> DQNSpec:
        if self.memory_size < max(self.batch_size, self.learn_after):
            least = max(self.batch_size, self.learn_after)
            raise ValueError(f"memory_size must be at least batch_size and learn_after, {least}, was {self.memory_size}")
        return self

    def build(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        state_interpreter: LaneStateInterpreter[Any],
        *,
        root_seed: int,
        device: str,
    ) -> Agent:
        from rlcore.agents.dqn_agent import DQNAgent

        return DQNAgent(self, observation_space, action_space, state_interpreter, root_seed=root_seed, device=device)
