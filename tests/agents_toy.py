"""Observations, rollouts and agents for tests of ``rlcore.agents``: small, random, and as the engine would make them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from rlcore.agents.build_agent import build_agent
from rlcore.agents.off_policy_specs import DiscreteSACSpec, DQNSpec, ExplorationSpec, PrioritySpec, SACSpec
from rlcore.agents.on_policy_specs import A2CSpec, PPOSpec
from rlcore.agents.specs import AgentSpec, MLPSpec
from rlcore.contracts.interpreters import LaneStateInterpreter
from rlcore.environment.rollout import Rollout
from rlcore.foundation.lanes import map_lanes, stack_steps, take_lanes
from rlcore.foundation.random_streams import RandomStreams


class GivenObservation(LaneStateInterpreter[Any]):
    """References are observations of a given space."""

    def __init__(self, space: spaces.Space[Any]) -> None:
        self._space = space

    @property
    def observation_space(self) -> spaces.Space[Any]:
        return self._space

    def interpret(self, view: Any, status: Any) -> Any:
        return view


class ToyHistory(LaneStateInterpreter[Any]):
    """Full histories in the form of ``FullHistoryObservation``, made of noise."""

    is_compressing: ClassVar[bool] = True

    def __init__(
        self, num_rows: int = 7, num_ticks: int = 24, num_features: int = 3, max_steps: int = 4, yesterday: str = "hidden"
    ) -> None:
        self.array = np.random.default_rng(5).normal(size=(num_rows, num_ticks, num_features)).astype(np.float32)
        self.max_steps = max_steps
        self.yesterday = yesterday
        market = spaces.Box(-np.inf, np.inf, (num_ticks, num_features), np.float32)
        self._space = spaces.Dict(
            {"history": market}
            | ({"previous_history": market} if yesterday == "shown" else {})
            | {
                "tick": spaces.Discrete(num_ticks + 1),
                "step": spaces.Discrete(max_steps + 1),
                "num_steps": spaces.Discrete(max_steps + 1),
                "private_history": spaces.Box(0.0, 1.0, (max_steps + 1, 2), np.float32),
                "side": spaces.Box(-1.0, 1.0, (1,), np.float32),
            }
        )

    @property
    def observation_space(self) -> spaces.Dict:
        return self._space

    def interpret(self, view: Any, status: Any) -> Any:
        return self.expand(view)

    def expand(self, reference: Any) -> Any:
        is_past = np.arange(self.array.shape[1]) < reference["tick"][:, None]
        observation = {"history": np.where(is_past[..., None], self.array[reference["row"]], np.float32(0.0))}
        if self.yesterday == "shown":
            observation["previous_history"] = self.array[reference["row"] - 1]
        return observation | {name: value for name, value in reference.items() if name != "row"}

    def history_keys(self, reference: Any) -> Any:
        return reference["row"]

    def histories(self, keys: Any) -> Any:
        return self.array[keys]

    def draw(self, rng: np.random.Generator, lanes: int) -> dict[str, np.ndarray]:
        """Draw references."""
        step = rng.integers(0, self.max_steps + 1, lanes)
        is_reached = np.arange(self.max_steps + 1) <= step[:, None]
        private = rng.random((lanes, self.max_steps + 1, 2)) * is_reached[..., None]
        return {
            "row": rng.integers(0, len(self.array), lanes),
            "tick": rng.integers(0, self.array.shape[1] + 1, lanes),
            "step": step,
            "num_steps": np.full(lanes, self.max_steps),
            "private_history": private.astype(np.float32),
            "side": rng.choice([-1.0, 1.0], (lanes, 1)).astype(np.float32),
        }


MIXED_SPACE = spaces.Dict({"place": spaces.Box(-1.0, 1.0, (3,), np.float32), "kind": spaces.Discrete(4, start=2)})


def draw_mixed(rng: np.random.Generator, lanes: int) -> dict[str, np.ndarray]:
    """Draw observations of ``MIXED_SPACE``."""
    return {"place": rng.uniform(-1, 1, (lanes, 3)).astype(np.float32), "kind": rng.integers(2, 6, lanes)}


def ppo_spec(**changes: Any) -> PPOSpec:
    """Return a PPO with small batches."""
    fields: dict[str, Any] = {
        "network": MLPSpec(sizes=(16, 8)),
        "learning_rate": 1e-2,
        "discount": 0.9,
        "batch_size": 16,
        "num_repeats": 2,
    }
    return PPOSpec(**(fields | changes))


def a2c_spec(**changes: Any) -> A2CSpec:
    """Return an A2C that takes one gradient step an iteration."""
    fields: dict[str, Any] = {"network": MLPSpec(sizes=(16, 8)), "learning_rate": 1e-2, "discount": 0.9, "batch_size": 1000}
    return A2CSpec(**(fields | changes))


def dqn_spec(**changes: Any) -> DQNSpec:
    """Return a DQN that learns from the first rollout on."""
    fields: dict[str, Any] = {
        "network": MLPSpec(sizes=(16, 8)),
        "learning_rate": 1e-2,
        "discount": 0.9,
        "batch_size": 16,
        "exploration": ExplorationSpec(initial=1.0, final=0.1, num_transitions=200),
        "target_update_every": 5,
        "memory_size": 100,
        "learn_after": 10,
        "gradient_steps_per_transition": 0.15,
    }
    return DQNSpec(**(fields | changes))


def _soft_fields() -> dict[str, Any]:
    return {
        "network": MLPSpec(sizes=(16, 8)),
        "learning_rate": 1e-2,
        "discount": 0.9,
        "batch_size": 16,
        "memory_size": 100,
        "learn_after": 10,
        "gradient_steps_per_transition": 0.15,
        "target_update_rate": 0.1,
    }


def sac_spec(**changes: Any) -> SACSpec:
    """Return a SAC that learns from the first rollout on."""
    return SACSpec(**(_soft_fields() | {"critic_sizes": (12,)} | changes))


def discrete_sac_spec(**changes: Any) -> DiscreteSACSpec:
    """Return a discrete SAC that learns from the first rollout on."""
    return DiscreteSACSpec(**(_soft_fields() | changes))


PRIORITIES = PrioritySpec(exponent=0.7, initial_correction=0.4, num_gradient_steps=30)
TWO_NUMBERS = spaces.Box(np.array([-1.0, 0.0], np.float32), np.array([1.0, 4.0], np.float32))


def make_agent(
    spec: AgentSpec, interpreter: LaneStateInterpreter[Any] | None = None, action_space: Any = None, root: int = 3
) -> Any:
    """Return an agent on the CPU; by default with observations of ``MIXED_SPACE``, and three choices or (SAC) two numbers."""
    interpreter = interpreter or GivenObservation(MIXED_SPACE)
    action_space = action_space or (TWO_NUMBERS if isinstance(spec, SACSpec) else spaces.Discrete(3))
    return build_agent(spec, interpreter.observation_space, action_space, interpreter, root_seed=root, device="cpu")


def lane_randomness(lanes: int, step: int = 0, root: int = 1) -> Any:
    """Return the random numbers of one step."""
    zeros = np.zeros(lanes, np.int64)
    return RandomStreams(root).lanes("test", np.arange(lanes), zeros, zeros + step)


def make_rollout(
    policy: Any, draw: Any = draw_mixed, *, seed: int = 0, steps: int = 5, lanes: int = 12, masks: str = "none"
) -> Rollout:
    """Return what a policy did in episodes of noise of several lengths: some terminated, some truncated, some cut by the end."""
    rng = np.random.default_rng(seed)
    length = rng.integers(1, steps + 2, lanes)  # steps + 1: goes on beyond the rollout
    ending = rng.random(lanes) < 0.5
    references = [draw(rng, lanes) for _ in range(steps + 1)]
    drawn: list[np.ndarray] = []
    for _ in range(steps + 1):
        drawn.append(rng.random((lanes, 3)) < 0.6)
        drawn[-1][np.arange(lanes), rng.integers(0, 3, lanes)] = True
    rows = []
    for step in range(steps):
        mask = drawn[step] if masks == "drawn" else None
        decision = policy.decide(references[step], None, mask, lane_randomness(lanes, step, root=seed))
        is_last = length == step + 1
        rows.append(
            Rollout(
                seed_id=np.arange(lanes),
                visit=np.zeros(lanes, np.int64),
                step=np.full(lanes, step),
                reference=references[step],
                next_reference=references[step + 1],
                action=decision.action,
                reward=rng.normal(size=lanes) * 3,
                components={},
                terminated=is_last & ending,
                truncated=is_last & ~ending,
                is_alive=step < length,
                mask=mask,
                next_mask=None if mask is None else drawn[step + 1] | (is_last & ending)[:, None],
                log_prob=decision.log_prob,
                value=decision.value,
                internal_state=None,
                auxiliary={},
            )
        )
    return _without_the_dead(stack_steps(rows))


def _without_the_dead(rollout: Rollout) -> Rollout:
    # Nothing may depend on what stands where no step was taken: the engine leaves zeros there.
    def clear(leaf: np.ndarray) -> np.ndarray:
        alive = rollout.is_alive.reshape(rollout.is_alive.shape + (1,) * (leaf.ndim - 2))
        return np.where(alive, leaf, np.zeros((), leaf.dtype))

    return map_lanes(clear, rollout)


def shuffled(tree: Any, order: np.ndarray) -> Any:
    """Return a lane tree in another order."""
    return take_lanes(tree, order)


def alive_count(rollout: Rollout) -> int:
    """Return the number of transitions."""
    return int(rollout.is_alive.sum())


__all__ = [
    "MIXED_SPACE",
    "PRIORITIES",
    "TWO_NUMBERS",
    "GivenObservation",
    "ToyHistory",
    "a2c_spec",
    "alive_count",
    "discrete_sac_spec",
    "dqn_spec",
    "draw_mixed",
    "lane_randomness",
    "make_agent",
    "make_rollout",
    "ppo_spec",
    "sac_spec",
    "shuffled",
]
