"""Networks for order execution as data. Importing this needs no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import gymnasium

from rlcore.agents.specs import Count, NetworkSpec
from rlcore.foundation.registry import Registry

if TYPE_CHECKING:
    from rlcore.agents.networks import Network


class RecurrentSpec(NetworkSpec):
    """The network of oracle policy distillation (Fang et al. 2021, arXiv:2103.10860), for the observation ``full_history``.

    Separate recurrent encoders for the history of the market and for the order's own, and layers for its side.
    """

    kind: Literal["recurrent"] = "recurrent"
    hidden_size: Count = 64
    """Units of each encoder."""
    output_size: Count = 32
    """Features that the heads get."""
    days: Literal["today", "today_and_previous"] = "today"
    """Which histories it reads. today: as QlibRL's, whatever else the observation shows; each day is encoded once, and no further
    than it is read. today_and_previous: also the whole day before, which must be shown; several times slower."""

    def build(self, observation_space: gymnasium.Space[Any]) -> Network:
        from rlcore.execution.learning.recurrent import RecurrentNetwork

        return RecurrentNetwork(observation_space, self.hidden_size, self.output_size, self.days)


def register(registry: Registry) -> None:
    """Add the networks of this package."""
    registry.register("network", "recurrent", RecurrentSpec)
