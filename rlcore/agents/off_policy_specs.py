"""Agents that learn from a memory of transitions, as data. Importing this needs no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import gymnasium
from pydantic import Field, model_validator

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


class PrioritySpec(Spec):
    """Prioritised replay (Schaul et al. 2016, arXiv:1511.05952): transitions are drawn in proportion to error to the power α."""

    exponent: Fraction = 0.6
    """How much more often (the paper's α): 0 draws all alike, 1 in proportion to the error."""
    initial_correction: Fraction = 0.4
    """How far the gradient undoes the uneven draw at first (the paper's β); 1 undoes it fully."""
    num_gradient_steps: Count
    """Gradient steps until the correction, on a straight line, has become 1."""


class ReplaySpec(AgentSpec):
    """What all agents with a memory share."""

    memory_size: Count
    """Transitions that are remembered."""
    learn_after: Count
    """Transitions in memory before the first gradient step."""
    gradient_steps_per_transition: Positive
    """Gradient steps for each transition collected; fractions add up over iterations."""
    priorities: PrioritySpec | None = None
    """Which transitions are drawn more often; null: all are drawn alike."""

    @model_validator(mode="after")
    def _memory_holds_a_batch(self) -> Self:
        if self.memory_size < max(self.batch_size, self.learn_after):
            least = max(self.batch_size, self.learn_after)
            raise ValueError(f"memory_size must be at least batch_size and learn_after, {least}, was {self.memory_size}")
        return self


class DQNSpec(ReplaySpec):
    """Deep Q-learning (Mnih et al. 2015) with double estimates (van Hasselt et al. 2016, arXiv:1509.06461), n-step returns,
    dueling streams and prioritised replay by choice."""

    kind: Literal["dqn"] = "dqn"
    exploration: ExplorationSpec
    """How often an action is random while collecting; never in an evaluation."""
    target: Literal["double", "maximum"] = "double"
    """double: the network chooses the next action and its lagged copy values it; maximum: the lagged copy does both."""
    value_head: Literal["linear", "dueling"] = "linear"
    """linear: action values straight from the features; dueling: a stream for the state's value and one for the actions'
    advantages (Wang et al. 2016, arXiv:1511.06581)."""
    num_return_steps: Count = 1
    """Rewards that are summed before the estimate of what follows; never across the end of an episode."""
    target_update_every: Count
    """Gradient steps between two copies of the network to its lagged copy."""
    huber_threshold: Positive | None = 1.0
    """Errors beyond it count linearly; null: all errors count as their square."""

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


class SoftActorCriticSpec(ReplaySpec):
    """What both soft actor-critics share: an actor, two critics and their slow copies, each with a network of its own."""

    max_gradient_norm: Positive | None = None
    """Longer gradients are shortened to this Euclidean norm, for the actor and each critic; null: never."""
    target_update_rate: Annotated[float, Field(gt=0, le=1)] = 0.005
    """How far the slow copies of the critics follow at each gradient step; 1: all the way."""
    temperature: Literal["automatic", "fixed"] = "automatic"
    """Weight of the entropy against the reward. automatic: moved so that the entropy stays near its target."""
    initial_temperature: Positive = 1.0
    """The weight at the start; for good where it is fixed."""
    warm_up_actions: Literal["uniform", "policy"] = "uniform"
    """Until ``learn_after`` transitions were seen, actions are uniformly random, or the untrained policy's."""

    def build(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        state_interpreter: LaneStateInterpreter[Any],
        *,
        root_seed: int,
        device: str,
    ) -> Agent:
        from rlcore.agents.sac_agent import SACAgent

        assert isinstance(self, SACSpec | DiscreteSACSpec)  # the kinds there are
        return SACAgent(self, observation_space, action_space, state_interpreter, root_seed=root_seed, device=device)


class SACSpec(SoftActorCriticSpec):
    """Soft actor-critic (Haarnoja et al. 2018, arXiv:1801.01290 and 1812.05905) for actions in a Box with bounds."""

    kind: Literal["sac"] = "sac"
    critic_sizes: tuple[Count, ...] = Field((256,), min_length=1)
    """Units of each critic's hidden layers behind the network, which read its features together with the action."""
    target_entropy_per_dimension: float = -1.0
    """What the temperature holds the entropy to, for each number of the action scaled to [−1, 1] (where uniform is log 2)."""


class DiscreteSACSpec(SoftActorCriticSpec):
    """Soft actor-critic for choices (Christodoulou 2019, arXiv:1910.07207), with masks."""

    kind: Literal["discrete_sac"] = "discrete_sac"
    target_entropy_fraction: Fraction = 0.98
    """What the temperature holds the entropy to, as a fraction of its greatest: the logarithm of the number of actions that are
    possible in each state. Lower values let the policy decide more sharply."""
