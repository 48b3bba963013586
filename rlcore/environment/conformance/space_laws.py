"""Laws of spaces: what is declared is true."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from rlcore.contracts.policy import Policy
from rlcore.contracts.seeds import SeedSet
from rlcore.environment.conformance.lane_laws import SeedIds
from rlcore.environment.conformance.results import LawError, LawResult, difference, some_seeds
from rlcore.environment.engine import Lanes, advance, begin, living
from rlcore.environment.parts import EnvironmentParts
from rlcore.environment.random_actions import RandomActions, SameAction, corner_actions
from rlcore.environment.rollout import Passage, decide
from rlcore.environment.space_checks import check_lanes
from rlcore.foundation.errors import SpaceError
from rlcore.foundation.random_streams import RandomStreams

_LAW = "truthful spaces"


def check_truthful_spaces(parts: EnvironmentParts, seeds: SeedSet[Any], *, seed_ids: SeedIds = None, root: int = 0) -> LawResult:
    """Hold every observation of every lane to its space, and parts to accepting random and extreme actions of theirs.

    Also: arrays have the type that their space declares; ``expand(compress(view))`` equals ``interpret(view)``; asking an
    interpreter twice gives the same.
    """
    ids = some_seeds(seeds, seed_ids)
    space = parts.action_interpreter.action_space
    for name, interpreter in (("action", parts.action_interpreter), ("observation", parts.state_interpreter)):
        one, other = getattr(interpreter, f"{name}_space"), getattr(interpreter, f"{name}_space")
        if one != other:
            raise LawError(f"{_LAW}: {name}_space must stay the same, was {one} and {other}")
    policies: list[Policy] = [RandomActions(space), *(SameAction(space, corner) for corner in corner_actions(space))]
    for policy in policies:
        _run(parts, seeds, ids, policy, Passage(RandomStreams(root), "conformance", len(ids)))
    return LawResult(_LAW, "holds", f"{len(ids)} episodes with random and {len(policies) - 1} extreme actions")


def _run(parts: EnvironmentParts, seeds: SeedSet[Any], ids: Any, policy: Policy, passage: Passage) -> None:
    lanes = begin(parts, seeds.take(ids), ids, np.zeros(len(ids), np.int64))
    _check_observation(parts, lanes)
    for _ in range(parts.simulator.max_steps):
        decision = decide(policy, lanes, None, passage)
        try:
            lanes, _transition = advance(parts, lanes, decision.action)
        except SpaceError as error:
            raise LawError(f"{_LAW}: {error}") from error
        except Exception as error:  # whatever a part raises at an action of its own space
            raise LawError(
                f"{_LAW}: every action of the space must be accepted, an action like {_first(decision.action)} raised "
                f"{type(error).__name__}: {error}"
            ) from error
        _check_observation(parts, lanes)
        if lanes.status.is_done.all():
            return
        lanes = living(lanes)


def _check_observation(parts: EnvironmentParts, lanes: Lanes) -> None:
    interpreter = parts.state_interpreter
    observation = interpreter.expand(lanes.reference)
    try:
        check_lanes(interpreter.observation_space, observation, "observation")
    except SpaceError as error:
        raise LawError(f"{_LAW}: {error}") from error
    _check_types(interpreter.observation_space, observation, "observation")
    for what, other in (
        ("interpret", interpreter.interpret(lanes.view, lanes.status)),
        ("expand after compress", interpreter.expand(interpreter.compress(lanes.view, lanes.status))),
    ):
        found = difference(observation, other, "observation")
        if found:
            raise LawError(f"{_LAW}: {what} must give the observation that the policy reads, gave another: {found}")


def _check_types(space: spaces.Space[Any], value: Any, path: str) -> None:
    if isinstance(space, spaces.Dict):
        for key, sub in space.spaces.items():
            _check_types(sub, value[key], f"{path}[{key!r}]")
    elif isinstance(space, spaces.Tuple):
        for index, sub in enumerate(space.spaces):
            _check_types(sub, value[index], f"{path}[{index}]")
    elif isinstance(value, np.ndarray) and value.dtype != object and value.dtype != space.dtype:
        raise LawError(f"{_LAW}: {path} must be of its space's type {space.dtype}, was {value.dtype}")


def _first(action: Any) -> str:
    text = repr(action[0] if isinstance(action, np.ndarray) else action)
    return text if len(text) <= 120 else f"{text[:117]}…"
