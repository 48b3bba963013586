"""Agents as data: what is trained, by which rule, with which network. Importing this needs no torch."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, Literal

import gymnasium
from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, model_validator

from rlcore.foundation.registry import Registry

if TYPE_CHECKING:
    from rlcore.agents.agent import Agent
    from rlcore.agents.networks import Network
    from rlcore.contracts.interpreters import LaneStateInterpreter

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]


class Spec(BaseModel):
    """Frozen data that says what a part is; unknown keys are refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True, validate_default=True
    )


class NetworkSpec(Spec):
    """What turns observations into features. Kinds of one's own derive from this and are registered as ``network``."""

    @abstractmethod
    def build(self, observation_space: gymnasium.Space[Any]) -> Network:
        """Return the torch module, with fresh parameters drawn from torch's global generator."""


class MLPSpec(NetworkSpec):
    """Fully connected layers over the flattened observation: floats as they are, choices as one-hot vectors."""

    kind: Literal["mlp"] = "mlp"
    sizes: tuple[Count, ...] = Field((64, 64), min_length=1)
    """Units of each hidden layer."""
    activation: Literal["relu", "tanh"] = "relu"
    """What follows each layer."""
    observation_scaling: Literal["none", "running"] = "none"
    """running: each feature is centred and scaled by its mean and deviation over all training so far, which are saved with the
    policy and never moved by an evaluation."""

    def build(self, observation_space: gymnasium.Space[Any]) -> Network:
        from rlcore.agents.networks import MLP

        return MLP(observation_space, self.sizes, self.activation, self.observation_scaling)


class LinearDecaySpec(Spec):
    """The learning rate falls in a straight line, then stays."""

    num_iterations: Count
    """Iterations (calls of ``learn``) until the last value is reached."""
    final_fraction: Fraction
    """The last value, as a fraction of the first."""


class AgentSpec(Spec):
    """Policy and learning rule. Kinds of one's own derive from this and are registered as ``agent``."""

    network: SerializeAsAny[NetworkSpec]
    """What turns observations into features."""
    learning_rate: Positive
    """Step size of Adam."""
    learning_rate_decay: LinearDecaySpec | None = None
    """How the learning rate falls; null: it does not."""
    discount: Annotated[float, Field(gt=0, le=1)]
    """What a reward one step later is worth."""
    batch_size: Count
    """Transitions in one gradient step."""
    max_gradient_norm: Positive | None = 0.5
    """Longer gradients are shortened to this Euclidean norm; null: never."""

    @abstractmethod
    def build(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        state_interpreter: LaneStateInterpreter[Any],
        *,
        root_seed: int,
        device: str,
    ) -> Agent:
        """Return a fresh agent whose parameters depend on ``root_seed`` alone."""


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


def register(registry: Registry) -> None:
    """Add the agents and networks of this package."""
    registry.register("network", "mlp", MLPSpec)
    registry.register("agent", "ppo", PPOSpec)
    registry.register("agent", "dqn", DQNSpec)
