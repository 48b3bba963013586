"""A model in training, with what every agent does with one: written once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

import gymnasium
import torch
from tianshou.utils.torch_utils import policy_within_training_step

from rlcore.agents.fresh_network import build_model
from rlcore.agents.isolated_randomness import isolated_randomness
from rlcore.agents.models import ActionValues, ActorCritic
from rlcore.agents.networks import Network
from rlcore.agents.optimization import decayed
from rlcore.agents.plain_state import load_module_state, module_state
from rlcore.agents.reference_reader import reader_for
from rlcore.agents.saved_policy import save_policy
from rlcore.agents.soft_actor import SoftActor
from rlcore.agents.specs import AgentSpec
from rlcore.agents.tianshou_policy import HeldModel
from rlcore.contracts.interpreters import LaneStateInterpreter, Reference

Model = TypeVar("Model", ActorCritic, ActionValues, SoftActor)


class HeldNetwork(Generic[Model]):
    """A model whose first parameters depend on the root of randomness alone, its reader, and the spaces that it was made for.

    Args:
        make: the model of a network and an action space.
        spec: says which network.
        state_interpreter: expands the references that the model is asked about.
        root_seed: root of the agent's randomness.
        device: "cpu", "cuda", or "auto" for cuda where there is one.
    """

    def __init__(
        self,
        make: Callable[[Network, gymnasium.Space[Any]], Model],
        spec: AgentSpec,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        state_interpreter: LaneStateInterpreter[Any],
        *,
        root_seed: int,
        device: str,
    ) -> None:
        self._spec = spec
        self.spaces = (observation_space, action_space)
        self._root_seed = root_seed
        self.model: Model = build_model(make, spec.network, *self.spaces, root_seed=root_seed, device=device)
        self.reader = reader_for(self.model.network, state_interpreter)
        self.policy = HeldModel(self.model, self.reader, action_space)  # what tianshou's algorithms hold

    def config(self) -> dict[str, Any]:
        """Return the spec as plain data."""
        return self._spec.model_dump(mode="json")

    def learning_rate(self, num_iterations: int) -> float:
        """Return the learning rate after so many iterations."""
        return decayed(self._spec.learning_rate, self._spec.learning_rate_decay, num_iterations)

    @contextmanager
    def updating(self, number: int) -> Iterator[None]:
        """Surround one update: its random numbers depend on its number alone, and nothing is remembered of old parameters."""
        self.reader.forget(self.model.network)
        with isolated_randomness(self._root_seed, number), policy_within_training_step(self.policy):
            yield

    def absorb(self, reference: Reference) -> None:
        """Move the statistics of observations; once for each iteration's, after the update."""
        if self.model.network.has_statistics:
            self.model.network.absorb(self.reader.expand(reference))

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return copies of parameters and statistics, on the CPU."""
        return module_state(self.model)

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        """Restore.

        Raises:
            CheckpointError: where names or shapes differ.
        """
        self.reader.forget(self.model.network)
        load_module_state(self.model, state, "state of the agent")

    def save_policy(self, path: Path, epsilon: float = 0.0) -> None:
        """Write what ``load_policy`` needs."""
        save_policy(path, self._spec.network, *self.spaces, self.model, epsilon)
