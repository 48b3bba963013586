"""Policies that ask a model. Sampling inverts a distribution function at the random numbers that are handed in."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from rlcore.agents.action_heads import masked
from rlcore.agents.finite_checks import require_finite_outputs
from rlcore.agents.models import ActionValues, ActorCritic
from rlcore.agents.reference_reader import ReferenceReader
from rlcore.agents.uniform_actions import uniform_choice
from rlcore.contracts.interpreters import Reference
from rlcore.contracts.policy import Decision, Policy
from rlcore.foundation.random_streams import LaneRandomness


class ActorPolicy(Policy):
    """Draws from the actor's distribution, or takes its likeliest action. It sees the model's parameters of the moment."""

    def __init__(
        self, model: ActorCritic, reader: ReferenceReader, choice: Literal["drawn", "likeliest"], value_scale: float
    ) -> None:
        self._model = model
        self._reader = reader
        self._choice = choice
        self._value_scale = value_scale  # what one unit of the critic's output is in reward

    def decide(
        self, reference: Reference, internal_state: Any, mask: NDArray[np.bool_] | None, randomness: LaneRandomness
    ) -> Decision:
        head = self._model.actor
        with torch.inference_mode():
            parameters, value = self._model.heads(self._reader.decision_features(self._model.network, reference))
            if not bool(torch.isfinite(parameters).all() & torch.isfinite(value).all()):
                require_finite_outputs((parameters, value), self._reader.expand(reference))
            if self._choice == "drawn":
                action = head.choose(parameters, mask, randomness.uniform("action", head.num_uniforms))
            else:
                action = head.likeliest(parameters, mask)
            log_prob = head.log_prob(parameters, mask, action)
            return Decision(action, None, log_prob.cpu().numpy(), (value * self._value_scale).cpu().numpy())


class ValuePolicy(Policy):
    """Takes the action of highest value, but a random possible one with probability ``epsilon``."""

    def __init__(self, model: ActionValues, reader: ReferenceReader, epsilon: float) -> None:
        self._model = model
        self._reader = reader
        self._epsilon = epsilon

    def decide(
        self, reference: Reference, internal_state: Any, mask: NDArray[np.bool_] | None, randomness: LaneRandomness
    ) -> Decision:
        with torch.inference_mode():
            values = self._model.values(self._reader.decision_features(self._model.network, reference))
            if not bool(torch.isfinite(values).all()):
                require_finite_outputs((values,), self._reader.expand(reference))
            best, action = masked(values, mask, -torch.inf).max(-1)
            chosen = action.cpu().numpy()
            if self._epsilon > 0:
                chosen = self._explore(chosen, values.shape[1], mask, randomness)
            return Decision(chosen + self._model.start, value=best.cpu().numpy())

    def _explore(
        self, chosen: NDArray[np.int64], num_actions: int, mask: NDArray[np.bool_] | None, randomness: LaneRandomness
    ) -> NDArray[np.int64]:
        uniform = randomness.uniform("exploration", 2)
        possible = np.ones((len(chosen), num_actions), bool) if mask is None else mask
        return np.where(uniform[:, 0] < self._epsilon, uniform_choice(possible, uniform[:, 1]), chosen)
