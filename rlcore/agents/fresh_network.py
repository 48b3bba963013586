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
    place = torch.device(("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device)
    if place.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"device must be one that torch finds, was {device!r}: take 'auto' or 'cpu'")
    with isolated_randomness(root_seed, purpose):
        model = make(network.build(observation_space), action_space)
    return model.to(place).eval()
