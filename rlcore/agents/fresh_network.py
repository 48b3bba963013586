"""Networks with parameters that depend on the root of randomness alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import gymnasium
import torch
from torch import nn

from rlcore.agents.isolated_randomness import isolated_randomness
from rlcore.agents.networks import Network
from rlcore.agents.specs import NetworkSpec
from rlcore.foundation.errors import ConfigError

Model = TypeVar("Model", bound=nn.Module)


def build_model(
    make: Callable[[Network, gymnasium.Space[Any]], Model],
    network: NetworkSpec,
    observation_space: gymnasium.Space[Any],
    action_space: gymnasium.Space[Any],
    *,
    root_seed: int,
    device: str,
    purpose: str = "initialisation",
) -> Model:
    """Return a network with its heads, ready to act on ``device`` ("auto": cuda where there is one).

    Parameters are drawn on the CPU, so that they are the same on every device, and differ between purposes.
    """
    place = find_device(device)
    with isolated_randomness(root_seed, purpose):
        model = make(network.build(observation_space), action_space)
    return model.to(place).eval()


def find_device(device: str) -> torch.device:
    """Return the device of a name ("auto": cuda where there is one).

    Raises:
        ConfigError: for another name, or a device that is not there.
    """
    num_cuda = torch.cuda.device_count() if torch.cuda.is_available() else 0
    known = {"cpu": "cpu", "auto": "cuda" if num_cuda else "cpu"}
    if num_cuda:
        known |= {name: name for name in ("cuda", *(f"cuda:{number}" for number in range(num_cuda)))}
    if str(device) not in known:
        raise ConfigError(
            f"device must be 'cpu', 'cuda', 'cuda:<number>' or 'auto', and there, was {device!r} "
            f"({num_cuda} cuda devices are there): take 'auto' or 'cpu'"
        )
    return torch.device(known[str(device)])
