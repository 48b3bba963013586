"""An agent, or a saved policy, acts in the spaces that it was made for, and in no others."""

from __future__ import annotations

from typing import Any

import gymnasium

from rlcore.agents.agent import Agent
from rlcore.environment.parts import EnvironmentParts
from rlcore.foundation.errors import ConfigError


def require_spaces_of_agent(agent: Agent, parts: EnvironmentParts) -> None:
    """Hold a task's spaces to those of an agent, where it knows them.

    Raises:
        ConfigError: naming both.
    """
    if agent.spaces is not None:
        observation_space, action_space = agent.spaces
        require_same_space("observation", observation_space, parts.state_interpreter.observation_space)
        require_same_space("action", action_space, parts.action_interpreter.action_space)


def require_same_space(what: str, own: gymnasium.Space[Any], of_task: gymnasium.Space[Any]) -> None:
    """Hold the task's space to that of the agent or policy.

    Args:
        what: "observation" or "action".

    Raises:
        ConfigError: naming both.
    """
    if own != of_task:
        raise ConfigError(
            f"{what} space of the task must be that of its agent or policy, {own}, was {of_task}: "
            "give the task the interpreters that these were trained with, or train anew"
        )
