"""Agents as data: what is trained, by which rule, with which network. Importing this needs no torch."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, Literal

import gymnasium
from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny

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
    """Step size of the optimiser."""
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
