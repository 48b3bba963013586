"""From a spec to an agent."""

from __future__ import annotations

from typing import Any

import gymnasium

from rlcore.agents.agent import Agent
from rlcore.agents.specs import AgentSpec
from rlcore.contracts.interpreters import LaneStateInterpreter
from rlcore.foundation.errors import ConfigError
from rlcore.foundation.random_streams import require_root


def build_agent(
    spec: AgentSpec,
    observation_space: gymnasium.Space[Any],
    action_space: gymnasium.Space[Any],
    state_interpreter: LaneStateInterpreter[Any],
    *,
    root_seed: int,
    device: str,
) -> Agent:
    """Return a fresh agent.

    Args:
        spec: a kind of its own brings its own ``build``.
        observation_space: of one lane.
        action_space: of one lane.
        state_interpreter: expands the references that rollouts hold.
        root_seed: root of the agent's randomness: its first parameters, and the order in which it learns.
        device: "cpu", "cuda", or "auto" for cuda where there is one.

    Raises:
        ConfigError: for spaces that the spec cannot serve, a device that is not there, what is no spec or no root.
    """
    if not isinstance(spec, AgentSpec):
        raise ConfigError(f"agent must be an Agent or a spec of one, PPOSpec(…) say, was {spec!r}")
    root_seed = require_root("root_seed", root_seed)
    return spec.build(observation_space, action_space, state_interpreter, root_seed=root_seed, device=device)
