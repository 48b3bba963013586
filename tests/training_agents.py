"""One small agent of every kind, with everything switched on that a checkpoint must hold: for the tests of resuming."""

from __future__ import annotations

from typing import Any

from rlcore.agents.agent import Agent
from rlcore.agents.build_agent import build_agent
from rlcore.agents.off_policy_specs import DiscreteSACSpec, DQNSpec, ExplorationSpec, PrioritySpec, SACSpec
from rlcore.agents.on_policy_specs import A2CSpec, PPOSpec
from rlcore.agents.specs import AgentSpec, LinearDecaySpec, MLPSpec
from rlcore.environment.parts import EnvironmentParts

SHARED: dict[str, Any] = {
    "network": MLPSpec(sizes=(8,), observation_scaling="running"),
    "learning_rate": 0.01,
    "learning_rate_decay": LinearDecaySpec(num_iterations=10, final_fraction=0.1),
    "discount": 0.99,
    "batch_size": 16,
}
REPLAY: dict[str, Any] = {**SHARED, "memory_size": 60, "learn_after": 20, "gradient_steps_per_transition": 0.3}
DQN: dict[str, Any] = {
    **REPLAY,
    "exploration": ExplorationSpec(initial=1.0, final=0.1, num_transitions=150),
    "num_return_steps": 2,
    "target_update_every": 7,
}

CHOOSING: dict[str, AgentSpec] = {
    "ppo": PPOSpec(**SHARED, num_repeats=2, return_scaling="running"),
    "a2c": A2CSpec(**SHARED, return_scaling="running"),
    "dqn": DQNSpec(**DQN),
    "prioritised_dqn": DQNSpec(**DQN, value_head="dueling", priorities=PrioritySpec(num_gradient_steps=50)),
    "discrete_sac": DiscreteSACSpec(**REPLAY),
}
"""Agents for a choice among actions, by a name of ours."""

PUSHING: dict[str, AgentSpec] = {
    "ppo_continuous": PPOSpec(**SHARED, num_repeats=2, return_scaling="running"),
    "sac": SACSpec(**REPLAY, critic_sizes=(8,)),
    "prioritised_sac": SACSpec(**REPLAY, critic_sizes=(8,), priorities=PrioritySpec(num_gradient_steps=50)),
}
"""Agents for actions that are numbers, by a name of ours."""


def agent_for(name: str, parts: EnvironmentParts) -> Agent:
    """Return the agent of this name, fresh, for these parts."""
    spaces = parts.state_interpreter.observation_space, parts.action_interpreter.action_space
    return build_agent((CHOOSING | PUSHING)[name], *spaces, parts.state_interpreter, root_seed=3, device="cpu")
