"""One-episode parts lifted to lanes by looping over them: what a user writes in twenty lines runs wherever lanes run."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlcore.contracts.auxiliary_info import AuxiliaryInfo, LaneAuxiliaryInfo
from rlcore.contracts.interpreters import ActionInterpreter, LaneActionInterpreter, LaneStateInterpreter, StateInterpreter
from rlcore.contracts.reward import LaneReward, Reward, Terms, WeightedReward, flat_terms
from rlcore.contracts.simulator import LaneSimulator, LaneStep, Simulator
from rlcore.contracts.status import EpisodeStatus, LaneStatus
from rlcore.environment.lane_samples import one_lane, stack_samples
from rlcore.environment.parts import EnvironmentParts, SpaceChecks
from rlcore.environment.space_checks import check_one
from rlcore.foundation.errors import ConfigError, ContractError
from rlcore.foundation.lanes import map_lanes

AtMaxSteps = Literal["fail", "truncate"]


@dataclass(slots=True)
class _Episode:
    """One episode in progress; it changes in place, unlike everything else that the engine sees."""

    simulator: Simulator[Any, Any, Any]
    state: Any  # the simulator's, now
    status: EpisodeStatus


@dataclass(frozen=True, slots=True)
class LoopedState:
    """Episodes and the step that each stood at. It can be stepped once: the simulators inside move on."""

    episode: NDArray[np.object_]  # (lanes,) of _Episode
    step: NDArray[np.int64]  # (lanes,)


@dataclass(frozen=True, slots=True)
class LoopedView:
    """What one-episode interpreters are given, lane by lane."""

    state: NDArray[np.object_]  # (lanes,) of the simulators' states
    status: NDArray[np.object_]  # (lanes,) of EpisodeStatus


@dataclass(frozen=True, slots=True)
class LoopedOutcome:
    """What one-episode rewards are given, lane by lane."""

    outcome: NDArray[np.object_]  # (lanes,)
    status: NDArray[np.object_]  # (lanes,) of EpisodeStatus


class LoopedLanes(LaneSimulator[NDArray[np.object_], LoopedState, LoopedView, NDArray[np.object_], LoopedOutcome]):
    """A ``LaneSimulator`` made of one ``Simulator`` for each lane.

    Args:
        simulator_fn: makes a simulator from an initial state; a class, or a function that worker processes can import.
        max_steps: the largest number of steps that an episode can take.
        at_max_steps: what happens to an episode that has not ended by then: it is an error, or the episode is truncated.
    """

    def __init__(
        self, simulator_fn: Callable[[Any], Simulator[Any, Any, Any]], max_steps: int, at_max_steps: AtMaxSteps = "fail"
    ) -> None:
        if max_steps < 1:
            raise ConfigError(f"max_steps must be at least 1, was {max_steps}")
        if at_max_steps not in ("fail", "truncate"):
            raise ConfigError(f"at_max_steps must be fail or truncate, was {at_max_steps!r}")
        self._simulator_fn = simulator_fn
        self._max_steps = max_steps
        self._is_cut = at_max_steps == "truncate"

    @property
    def max_steps(self) -> int:
        return self._max_steps

    @property
    def identity(self) -> str:
        made_by = self._simulator_fn
        while isinstance(made_by, functools.partial):
            made_by = made_by.func
        return f"{_qualified_name(made_by)}, {'truncated' if self._is_cut else 'over'} at max_steps"

    def start(self, seeds: NDArray[np.object_]) -> LoopedState:
        return LoopedState(_objects([self._start_one(initial) for initial in seeds]), np.zeros(len(seeds), np.int64))

    def _start_one(self, initial: Any) -> _Episode:
        # A copy: what a simulator does to its initial state must reach neither the seed set nor the next episode.
        simulator = self._simulator_fn(copy.deepcopy(initial))
        if _flag(simulator.done(), simulator, "done") or _flag(simulator.truncated(), simulator, "truncated"):
            raise ContractError(f"an episode must not be over before its first step, was for the initial state {initial!r}")
        return _Episode(simulator, simulator.get_state(), EpisodeStatus(initial_state=initial))

    def view(self, state: LoopedState) -> LoopedView:
        _check_current(state)
        return LoopedView(_objects([e.state for e in state.episode]), _objects([e.status for e in state.episode]))

    def step(self, state: LoopedState, command: NDArray[np.object_]) -> LaneStep[LoopedState, LoopedOutcome]:
        _check_current(state)
        count = len(state.episode)
        terminated, truncated, outcomes = np.zeros(count, bool), np.zeros(count, bool), np.empty(count, object)
        for lane, episode in enumerate(state.episode):
            episode.status.step += 1
            episode.simulator.step(command[lane])
            episode.state = episode.simulator.get_state()
            terminated[lane] = _flag(episode.simulator.done(), episode.simulator, "done")
            truncated[lane] = _flag(episode.simulator.truncated(), episode.simulator, "truncated")
            if self._is_cut and episode.status.step >= self._max_steps and not terminated[lane]:
                truncated[lane] = True
            episode.status.is_done = bool(terminated[lane] or truncated[lane])
            outcomes[lane] = episode.simulator.outcome()
        after = LoopedState(state.episode, state.step + 1)
        return LaneStep(after, LoopedOutcome(outcomes, _objects([e.status for e in state.episode])), terminated, truncated)

    def metrics(self, state: LoopedState) -> Mapping[str, NDArray[np.float64]]:
        figures = [episode.simulator.metrics() for episode in state.episode]
        names = dict.fromkeys(name for one in figures for name in one)
        return {name: np.array([_number(one.get(name, np.nan), f"metric {name!r}") for one in figures]) for name in names}


class LoopedObservation(LaneStateInterpreter[LoopedView]):
    """A one-episode ``StateInterpreter`` asked lane by lane."""

    def __init__(self, interpreter: StateInterpreter[Any], space_checks: SpaceChecks = "all_episodes") -> None:
        self._interpreter = interpreter
        self._checks_all = space_checks == "all_episodes"
        self._space = interpreter.observation_space

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        return self._space

    @property
    def identity(self) -> str:
        return _qualified_name(self._interpreter)

    def interpret(self, view: LoopedView, status: LaneStatus) -> Any:
        observations = []
        for state, own, visit in zip(view.state, view.status, status.visit, strict=True):
            # A copy: simulators that write into one array at every step must not change what was seen before.
            observation = copy.deepcopy(self._interpreter.interpret(state, own))
            if self._checks_all or visit == 0:  # one by one: stacking could carry a value over into the type of its space
                check_one(self._space, observation, "observation")
            _write(own.observations, own.step, observation)
            observations.append(observation)
        stacked = stack_samples(self._space, observations)
        # Of one lane, the batch is a view of the sample: the history must not be what the policy reads.
        return stacked if len(observations) > 1 else map_lanes(np.copy, stacked)


class LoopedAction(LaneActionInterpreter[LoopedView, NDArray[np.object_]]):
    """A one-episode ``ActionInterpreter`` asked lane by lane."""

    def __init__(self, interpreter: ActionInterpreter[Any, Any]) -> None:
        self._interpreter = interpreter
        self._space = interpreter.action_space

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        return self._space

    def interpret(self, view: LoopedView, action: Any, status: LaneStatus) -> NDArray[np.object_]:
        commands = []
        for lane, (state, own) in enumerate(zip(view.state, view.status, strict=True)):
            chosen = one_lane(self._space, action, lane)
            _write(own.actions, own.step, chosen)
            commands.append(self._interpreter.interpret(state, chosen, own))
        return _objects(commands)

    def mask(self, view: LoopedView, status: LaneStatus) -> NDArray[np.bool_] | None:
        if not self.has_masks:
            return None
        masks = [self._interpreter.mask(state, own) for state, own in zip(view.state, view.status, strict=True)]
        if not isinstance(self._space, spaces.Discrete):
            raise ContractError(f"mask of an action interpreter must be for a Discrete action space, was for {self._space}")
        shape = (int(self._space.n),)
        for mask in masks:
            if mask is not None and (np.shape(mask) != shape or np.asarray(mask).dtype != np.bool_):
                raise ContractError(
                    f"mask of an action interpreter must be bool of shape (actions,) = {shape}, was {np.asarray(mask).dtype} of "
                    f"shape {np.shape(mask)}"
                )
        return np.stack([np.ones(shape, np.bool_) if mask is None else mask for mask in masks])

    @property
    def has_masks(self) -> bool:
        return self._interpreter.has_masks

    @property
    def identity(self) -> str:
        return _qualified_name(self._interpreter)


class LoopedReward(LaneReward[LoopedOutcome]):
    """A one-episode ``Reward`` asked lane by lane."""

    def __init__(self, reward: Reward[Any]) -> None:
        self._reward = reward

    def reward(self, outcome: LoopedOutcome, status: LaneStatus) -> NDArray[np.float64]:
        pairs = zip(outcome.outcome, outcome.status, strict=True)
        what = f"reward of {type(self._reward).__name__}"
        return np.array([_number(self._reward.reward(one, own), what) for one, own in pairs])

    @property
    def identity(self) -> str:
        return _qualified_name(self._reward)


class LoopedAuxiliary(LaneAuxiliaryInfo[LoopedView]):
    """A one-episode ``AuxiliaryInfo`` asked lane by lane."""

    def __init__(self, auxiliary: AuxiliaryInfo[Any]) -> None:
        self._auxiliary = auxiliary

    def collect(self, view: LoopedView, status: LaneStatus) -> dict[str, NDArray[Any]]:
        collected = [dict(self._auxiliary.collect(state, own)) for state, own in zip(view.state, view.status, strict=True)]
        names = list(collected[0])
        for one in collected:
            if list(one) != names:
                raise ContractError(f"auxiliary information must have the same names at every step, had {names} and {list(one)}")
        return {name: _array([one[name] for one in collected]) for name in names}


class _NoReward(Reward[Any]):
    def reward(self, outcome: Any, status: EpisodeStatus) -> float:
        return 0.0


@dataclass(frozen=True)  # no slots: a dataclass with slots loses the zero-argument super()
class LoopedWeightedReward(WeightedReward[LoopedOutcome]):
    """Besides adding up, it writes the history that one-episode parts read as ``status.rewards``."""

    def components(self, outcome: LoopedOutcome, status: LaneStatus) -> dict[str, NDArray[np.float64]]:
        components = super().components(outcome, status)
        for own, total in zip(outcome.status, self.total(components), strict=True):
            _write(own.rewards, own.step - 1, float(total))
        return components


def looped_parts(
    simulator_fn: Callable[[Any], Simulator[Any, Any, Any]],
    state_interpreter: StateInterpreter[Any],
    action_interpreter: ActionInterpreter[Any, Any],
    reward: Reward[Any] | Terms | None,
    *,
    max_steps: int,
    at_max_steps: AtMaxSteps = "fail",
    auxiliary: AuxiliaryInfo[Any] | None = None,
    space_checks: SpaceChecks = "all_episodes",
) -> EnvironmentParts:
    """Return lane parts made of one-episode parts.

    Args:
        reward: one reward (its component is called "reward"), or name → (reward, weight), where a reward may be such a
            combination itself (its terms are called "<its name>.<term's name>"); None: every step earns nothing.
        max_steps: the largest number of steps that an episode can take.
        at_max_steps: what happens to an episode that goes on: "fail" makes it an error; "truncate" cuts it, so that its value
            goes on beyond the last state, as tasks that never end need it.
        auxiliary: what else is worth knowing after each step.
        space_checks: see ``EnvironmentParts``.
    """
    for what, part, kind in (
        ("state_interpreter", state_interpreter, StateInterpreter),
        ("action_interpreter", action_interpreter, ActionInterpreter),
        ("auxiliary", auxiliary, AuxiliaryInfo | None),
        ("reward", reward, Reward | Mapping | None),
    ):
        if not isinstance(part, kind):
            raise ConfigError(f"{what} must be {_name(kind)}, was {part!r}: give an object of it")
    if not callable(simulator_fn):
        raise ConfigError(f"simulator_fn must make a simulator of an initial state, was {simulator_fn!r}: give the class")
    one = _NoReward() if reward is None else reward
    terms = flat_terms(one if isinstance(one, Mapping) else {"reward": (one, 1.0)})
    return EnvironmentParts(
        LoopedLanes(simulator_fn, max_steps, at_max_steps),
        LoopedObservation(state_interpreter, space_checks),
        LoopedAction(action_interpreter),
        LoopedWeightedReward({name: (LoopedReward(term), weight) for name, (term, weight) in terms.items()}),
        None if auxiliary is None else LoopedAuxiliary(auxiliary),
        space_checks,
    )


def _qualified_name(part: Any) -> str:
    """Return the name of a function or class, or of an object's class."""
    name = getattr(part, "__qualname__", None) or type(part).__qualname__
    return str(name)


def _name(kind: Any) -> str:
    return " or ".join(one.__name__ for one in getattr(kind, "__args__", (kind,)) if one is not type(None))


def _array(values: list[Any]) -> NDArray[Any]:
    """Return numbers and arrays of one shape as an array (lanes, …); anything else as objects."""
    arrays = [np.asarray(value) for value in values]
    is_plain = all(array.dtype.kind in "fiub" and array.shape == arrays[0].shape for array in arrays)
    return np.stack(arrays) if is_plain else _objects(values)


def _number(value: Any, what: str) -> float:
    """Return a float that is really one number: not a text that reads like one, nor an array of length one."""
    if isinstance(value, (bool, int, float)):
        return float(value)
    array = np.asarray(value)
    if array.shape != () or array.dtype.kind not in "fiub":
        raise ContractError(f"{what} must be one number, was {value!r}")
    return float(array)


def _flag(value: Any, simulator: Any, name: str) -> bool:
    """Return a truth value that really is one: a forgotten ``return`` would end no episode, and a text every one."""
    array = np.asarray(value)
    if array.shape != () or array.dtype != np.bool_:
        raise ContractError(f"{name}() of {type(simulator).__name__} must be True or False, was {value!r}")
    return bool(array)


def _objects(values: list[Any]) -> NDArray[np.object_]:
    # Filled one by one: np.array would look into values that are sequences themselves.
    array = np.empty(len(values), object)
    for index, value in enumerate(values):
        array[index] = value
    return array


def _write(history: list[Any], at: int, value: Any) -> None:
    """Write entry ``at`` and forget what came after it, so that asking an interpreter twice does not lengthen the history."""
    history[at:] = [value]


def _check_current(state: LoopedState) -> None:
    for lane, episode in enumerate(state.episode):
        if episode.status.step != state.step[lane]:
            raise ContractError(
                f"a looped state must be stepped once, lane {lane} was at step {state.step[lane]} and its simulator is at step "
                f"{episode.status.step}: start a new episode from the seed and repeat its actions"
            )
