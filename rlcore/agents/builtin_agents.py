"""The agents and networks that come with this package."""

from __future__ import annotations

from rlcore.agents.off_policy_specs import DiscreteSACSpec, DQNSpec, SACSpec
from rlcore.agents.on_policy_specs import A2CSpec, PPOSpec
from rlcore.agents.specs import MLPSpec
from rlcore.foundation.registry import Registry


def register(registry: Registry) -> None:
    """Add the agents and networks of this package."""
    registry.register("network", "mlp", MLPSpec)
    registry.register("agent", "ppo", PPOSpec)
    registry.register("agent", "a2c", A2CSpec)
    registry.register("agent", "dqn", DQNSpec)
    registry.register("agent", "sac", SACSpec)
    registry.register("agent", "discrete_sac", DiscreteSACSpec)
