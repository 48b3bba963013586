"""A policy in one file, which acts without store, vessel or trainer."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from pydantic import ValidationError

from rlcore.agents.builtin_agents import register
from rlcore.agents.fresh_network import find_device
from rlcore.agents.models import ActionValues, ActorCritic
from rlcore.agents.networks import Network
from rlcore.agents.plain_state import load_module_state, module_state
from rlcore.agents.policies import ActorPolicy, ValuePolicy
from rlcore.agents.reference_reader import DenseReader, ReferenceReader, reader_for
from rlcore.agents.soft_actor import SoftActor, SoftActorPolicy
from rlcore.agents.space_agreement import require_same_space
from rlcore.agents.space_encoding import decode_space, encode_space, first_leaf
from rlcore.agents.specs import NetworkSpec
from rlcore.contracts.interpreters import LaneStateInterpreter, Observation
from rlcore.contracts.policy import Policy
from rlcore.environment.space_checks import check_lanes
from rlcore.foundation.atomic_files import write_atomically
from rlcore.foundation.errors import CheckpointError, ContractError
from rlcore.foundation.random_streams import LaneRandomness
from rlcore.foundation.registry import Registry

_FORMAT = "fillwright policy"
_VERSION = 1

ActingModel = ActorCritic | ActionValues | SoftActor
# What makes a model of each kind that a file may hold.
_MAKERS: dict[str, Callable[[Network, gymnasium.Space[Any]], ActingModel]] = {
    "actor": ActorCritic,
    "action_values": ActionValues,
    "dueling_action_values": partial(ActionValues, head="dueling"),
    "soft_actor": SoftActor,
}


def save_policy(
    path: Path | str,
    network: NetworkSpec,
    observation_space: gymnasium.Space[Any],
    action_space: gymnasium.Space[Any],
    model: ActingModel,
    epsilon: float = 0.0,
) -> None:
    """Write a policy.

    Args:
        path: the file; it is replaced as a whole or not at all.
        network: what the model's network was built from.
        observation_space: what the policy accepts.
        action_space: what it returns.
        model: network and heads with their statistics.
        epsilon: for action values, the probability of a random action when the policy is asked not to be deterministic.
    """
    stream = io.BytesIO()
    torch.save(
        {
            "format": _FORMAT,
            "version": _VERSION,
            "model_kind": _kind_of(model),
            "network": network.model_dump(mode="json"),
            "observation_space": encode_space(observation_space),
            "action_space": encode_space(action_space),
            "model": module_state(model),
            "epsilon": epsilon,
        },
        stream,
    )
    write_atomically(Path(path), stream.getvalue())


def load_policy(path: Path | str, registry: Registry | None = None, device: str = "cpu") -> LoadedPolicy:
    """Read a policy.

    Args:
        path: what ``save_policy`` wrote.
        registry: where the network's kind is registered; None: the kinds of ``rlcore.agents``.
        device: where it acts: "cpu", "cuda", or "auto" for cuda where there is one.

    Raises:
        CheckpointError: for a file that is missing, damaged, of another version or with a model of an unknown kind.
        ConfigError: for a network whose kind is not registered, or a device that is not there.
    """
    place = find_device(device)
    data = _read(Path(path))
    if registry is None:
        registry = Registry()
        register(registry)
    spec_class = registry["network", data["network"]["kind"]]
    try:
        network = spec_class.model_validate(data["network"])
    except ValidationError as error:
        raise CheckpointError(f"network of policy {path} must fit its kind of this version, does not: {error}") from error
    observation_space, action_space = decode_space(data["observation_space"]), decode_space(data["action_space"])
    with torch.random.fork_rng(devices=[]):  # fresh parameters are drawn, then replaced
        model = _MAKERS[data["model_kind"]](network.build(observation_space), action_space)
    load_module_state(model, data["model"], f"parameters of policy {path}")
    return LoadedPolicy(model.to(place).eval(), observation_space, action_space, float(data["epsilon"]))


class LoadedPolicy:
    """Observations → actions, for one episode or many at once."""

    def __init__(
        self,
        model: ActingModel,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        epsilon: float,
    ) -> None:
        self._model = model
        self._epsilon = epsilon
        self.observation_space = observation_space
        self.action_space = action_space
        self._deterministic = self._policy(DenseReader(), is_deterministic=True)
        self._exploring = self._policy(DenseReader(), is_deterministic=False)

    def act(
        self,
        observation: Observation,
        deterministic: bool = True,
        mask: NDArray[np.bool_] | None = None,
        randomness: LaneRandomness | None = None,
    ) -> Any:
        """Return the action for an observation, or actions (lanes, …) for observations with a leading lane axis.

        Args:
            observation: dense, in the observation space, single or batched.
            deterministic: the likeliest action; otherwise one drawn with ``randomness``.
            mask: possible actions, (actions,) or (lanes, actions); None: all are.
            randomness: one key for each lane, when actions are drawn.

        Raises:
            SpaceError: for an observation outside the space.
        """
        is_single = _is_single(self.observation_space, observation)
        lanes = _as_lanes(self.observation_space, observation, is_single)
        check_lanes(self.observation_space, lanes, "observation")
        if mask is not None and is_single:
            mask = np.asarray(mask)[None]
        if randomness is None:
            if not deterministic:
                raise ContractError(
                    "randomness must be given when actions are drawn, was None: RandomStreams(root).lanes(…) gives it"
                )
            randomness = LaneRandomness(np.zeros(0, np.uint64))
        policy = self._deterministic if deterministic else self._exploring
        action = policy.decide(lanes, None, mask, randomness).action
        return action[0] if is_single else action

    def evaluation_policy(self, state_interpreter: LaneStateInterpreter[Any]) -> Policy:
        """Return the deterministic policy for lanes, which reads the interpreter's references.

        Raises:
            ConfigError: for an interpreter of another observation space.
        """
        require_same_space("observation", self.observation_space, state_interpreter.observation_space)
        return self._policy(reader_for(self._model.network, state_interpreter), is_deterministic=True)

    def _policy(self, reader: ReferenceReader, *, is_deterministic: bool) -> Policy:
        if isinstance(self._model, ActorCritic):
            return ActorPolicy(self._model, reader, "likeliest" if is_deterministic else "drawn", 1.0)
        if isinstance(self._model, SoftActor):
            return SoftActorPolicy(self._model, reader, "likeliest" if is_deterministic else "drawn")
        return ValuePolicy(self._model, reader, 0.0 if is_deterministic else self._epsilon)


def _kind_of(model: ActingModel) -> str:
    if isinstance(model, ActionValues):
        return "dueling_action_values" if model.head == "dueling" else "action_values"
    return "soft_actor" if isinstance(model, SoftActor) else "actor"


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise CheckpointError(f"policy {path} must be a file that save_policy wrote, is not there")
    try:
        data = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:  # what torch says to it is that one should trust the file
        raise CheckpointError(f"policy {path} must be a whole file that save_policy wrote, was not") from None
    except (RuntimeError, EOFError, ValueError, KeyError) as error:
        raise CheckpointError(f"policy {path} must be a whole file that save_policy wrote, was not: {error}") from error
    if not isinstance(data, dict) or data.get("format") != _FORMAT:
        raise CheckpointError(f"policy {path} must be a file that save_policy wrote, was something else")
    if data["version"] != _VERSION:
        raise CheckpointError(f"policy {path} must be of version {_VERSION}, was of {data['version']}: save it with this release")
    if data["model_kind"] not in _MAKERS:
        raise CheckpointError(f"model of policy {path} must be one of {', '.join(_MAKERS)}, was {data['model_kind']!r}")
    return data


def _is_single(space: gymnasium.Space[Any], observation: Observation) -> bool:
    leaf_space, leaf = first_leaf(space, observation)
    return bool(leaf.ndim == len(leaf_space.shape or ()))


def _as_lanes(space: gymnasium.Space[Any], observation: Observation, is_single: bool) -> Observation:
    if isinstance(space, spaces.Dict):
        return {key: _as_lanes(part, observation[key], is_single) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_as_lanes(part, observation[index], is_single) for index, part in enumerate(space.spaces))
    array = np.asarray(observation)
    return array[None] if is_single else array
