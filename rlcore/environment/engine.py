"""The one place that knows the order of operations: interpret the action, step, interpret the view, reward."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlcore.contracts.interpreters import Reference
from rlcore.contracts.status import LaneStatus
from rlcore.environment.parts import EnvironmentParts
from rlcore.environment.space_checks import check_lanes
from rlcore.foundation.errors import ContractError
from rlcore.foundation.lanes import take_lanes
from rlcore.foundation.records import step_record

_ONE = np.array(1)  # an array, because NumPy takes half as long again to take in a number


@step_record
class Lanes:
    """Episodes in progress: a lane tree."""

    state: Any  # the simulator's
    view: Any  # of that state
    status: LaneStatus
    reference: Reference  # of the observation at this state
    mask: NDArray[np.bool_] | None  # (lanes, actions) possible at this state; None: all are


@step_record
class Transition:
    """What one step gave, besides the lanes after it."""

    outcome: Any
    reward: NDArray[np.float64]  # (lanes,)
    components: dict[str, NDArray[np.float64]]  # unweighted, each (lanes,)
    terminated: NDArray[np.bool_]  # (lanes,)
    truncated: NDArray[np.bool_]  # (lanes,)
    auxiliary: dict[str, NDArray[Any]]  # each (lanes, …); empty where the task has none


def begin(parts: EnvironmentParts, seeds: Any, seed_id: NDArray[np.int64], visit: NDArray[np.int64]) -> Lanes:
    """Start one lane for each seed."""
    state = parts.simulator.start(seeds)
    count = len(seed_id)
    status = LaneStatus(seed_id, visit, np.zeros(count, np.int64), np.zeros(count, bool))
    return _observe(parts, state, status)


def advance(parts: EnvironmentParts, lanes: Lanes, action: NDArray[Any]) -> tuple[Lanes, Transition]:
    """Take one step in every lane. All lanes must be alive: finished lanes are frozen because nobody steps them.

    Raises:
        SpaceError: for an action or an observation outside its declared space.
        ContractError: for a finished lane, or a reward that is not finite.
    """
    if np.count_nonzero(lanes.status.is_done):  # here and below: four times as fast as any() and all()
        raise ContractError(
            f"lanes to advance must be alive, lanes {np.flatnonzero(lanes.status.is_done)[:5].tolist()} are finished: "
            "drop them first"
        )
    if _is_checked(parts, lanes.status):
        check_lanes(parts.action_interpreter.action_space, action, "action")
    command = parts.action_interpreter.interpret(lanes.view, action, lanes.status)
    stepped = parts.simulator.step(lanes.state, command)
    old = lanes.status
    for name, flags in (("terminated", stepped.terminated), ("truncated", stepped.truncated)):
        if flags.dtype != np.bool_ or flags.shape != old.step.shape:
            raise ContractError(
                f"{name} of the simulator must be bool of shape (lanes,) = {old.step.shape}, "
                f"was {flags.dtype} of shape {flags.shape}"
            )
    status = LaneStatus(old.seed_id, old.visit, old.step + _ONE, stepped.terminated | stepped.truncated)
    after = _observe(parts, stepped.state, status)
    components = parts.reward.components(stepped.outcome, status)
    reward = parts.reward.total(components)
    if np.count_nonzero(np.isfinite(reward)) < len(reward):
        _refuse_reward(components, status)
    auxiliary = {} if parts.auxiliary is None else parts.auxiliary.collect(after.view, status)
    return after, Transition(stepped.outcome, reward, components, stepped.terminated, stepped.truncated, auxiliary)


def living(lanes: Lanes) -> Lanes:
    """Return the lanes that are not finished."""
    return take_lanes(lanes, ~lanes.status.is_done) if lanes.status.is_done.any() else lanes


def _observe(parts: EnvironmentParts, state: Any, status: LaneStatus) -> Lanes:
    view = parts.simulator.view(state)
    interpreter = parts.state_interpreter
    reference = interpreter.compress(view, status)
    # Behind a compressed reference stands an observation that nobody has built yet: one lane's is built at every step to hold
    # the interpreter to its space; where the reference is the observation, all lanes are checked.
    if _is_checked(parts, status):
        shown = take_lanes(reference, slice(0, 1)) if interpreter.is_compressing else reference
        check_lanes(interpreter.observation_space, interpreter.expand(shown), "observation")
    return Lanes(state, view, status, reference, _mask(parts, view, status))


def _mask(parts: EnvironmentParts, view: Any, status: LaneStatus) -> NDArray[np.bool_] | None:
    """Return the mask of every lane; None where the task never has one."""
    interpreter = parts.action_interpreter
    mask = interpreter.mask(view, status)
    if mask is None and not interpreter.has_masks:
        return None
    space = interpreter.action_space
    if not isinstance(space, spaces.Discrete):
        if mask is None:
            return None
        raise ContractError(f"mask of an action interpreter must be for a Discrete action space, was for {space}")
    shape = (len(status.step), int(space.n))
    if mask is None:
        return np.ones(shape, np.bool_)
    if mask.dtype != np.bool_ or mask.shape != shape:
        raise ContractError(
            f"mask of an action interpreter must be bool of shape (lanes, actions) = {shape}, "
            f"was {mask.dtype} of shape {mask.shape}"
        )
    is_stuck = ~mask.any(-1) & ~status.is_done
    if np.count_nonzero(is_stuck):
        raise ContractError(
            f"mask of an action interpreter must leave at least one action possible, left none for seed "
            f"{status.seed_id[is_stuck][0]} at step {status.step[is_stuck][0]}"
        )
    return mask


def _is_checked(parts: EnvironmentParts, status: LaneStatus) -> bool:
    return parts.space_checks == "all_episodes" or bool(np.count_nonzero(status.visit) < len(status.visit))


def _refuse_reward(components: dict[str, NDArray[np.float64]], status: LaneStatus) -> None:
    for name, value in components.items():
        bad = np.flatnonzero(~np.isfinite(value))
        if len(bad):
            lane = bad[0]
            raise ContractError(
                f"reward term {name!r} must be finite, was {value[lane]} for seed {status.seed_id[lane]} "
                f"at step {status.step[lane]}"
            )
    raise ContractError("the weighted sum of reward terms must be finite, overflowed: use smaller weights")
