"""Policies that need no training, on the same simulator and reward as the agent: TWAP, VWAP, immediate, random.

Each is a plan (a state interpreter that says how many shares to trade in the coming step) and a policy that follows it. Plans
look at what remains, so that a step that was capped is caught up later.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlcore.contracts.interpreters import LaneStateInterpreter
from rlcore.contracts.policy import Decision, Policy
from rlcore.contracts.status import LaneStatus
from rlcore.environment.parts import EnvironmentParts
from rlcore.execution.actions import DirectQuantity
from rlcore.execution.metrics import ratio
from rlcore.execution.states import ExecutionView
from rlcore.execution.volume_curve import VolumeCurve
from rlcore.foundation.errors import ConfigError, nearest_name
from rlcore.foundation.random_streams import LaneRandomness

if TYPE_CHECKING:
    from rlcore.market.store import MarketStore

Floats = NDArray[np.float64]
BaselineName = Literal["twap", "vwap", "immediate", "random"]
BASELINE_NAMES: tuple[BaselineName, ...] = get_args(BaselineName)


class Plan(LaneStateInterpreter[ExecutionView]):
    """Observation: the shares to trade in the coming step, shape (1,)."""

    def __init__(self) -> None:
        self._space = spaces.Box(0.0, np.inf, (1,), np.float64)

    @property
    def observation_space(self) -> spaces.Box:
        return self._space

    def interpret(self, view: ExecutionView, status: LaneStatus) -> Floats:
        # A finished order has no coming step; its last observation is 0.
        is_open = (view.ticks_left > 0) & (view.remaining > 0.0)
        return np.where(is_open, self.shares(view), 0.0)[:, None]

    @abstractmethod
    def shares(self, view: ExecutionView) -> Floats:
        """Return the shares for the coming step, (lanes,); ignored (but finite) where none comes."""


class WholeRemainder(Plan):
    """Everything that remains."""

    def shares(self, view: ExecutionView) -> Floats:
        return view.remaining


class EvenPace(Plan):
    """The same number of shares in every tick of the window: remaining · ticks of the step / ticks left."""

    def shares(self, view: ExecutionView) -> Floats:
        return view.remaining * _even_share(view)


class VolumePace(Plan):
    """In step with the volume that earlier days lead one to expect; an even pace where they tell nothing about what is left."""

    def __init__(self, store: MarketStore) -> None:
        super().__init__()
        self._curve = VolumeCurve(store)

    def shares(self, view: ExecutionView) -> Floats:
        row, now, end = view.order.row, view.now, view.order.end_tick
        share = ratio(self._curve.expected_share(row, now, now + view.step_ticks), self._curve.expected_share(row, now, end))
        # Differences of running sums may leave the unit interval by a last bit.
        share = np.clip(np.where(np.isnan(share), _even_share(view), share), 0.0, 1.0)
        return view.remaining * share


def _even_share(view: ExecutionView) -> Floats:
    """Return the coming step's part of the ticks left, (lanes,)."""
    share: Floats = view.step_ticks / np.maximum(view.ticks_left, 1)
    return share


class FollowPlan(Policy):
    """Trade what the plan says."""

    def decide(self, reference: Any, internal_state: Any, mask: NDArray[np.bool_] | None, randomness: LaneRandomness) -> Decision:
        return Decision(action=reference)


class RandomPart(Policy):
    """Trade a part of what the plan says, drawn evenly between none and all."""

    def decide(self, reference: Any, internal_state: Any, mask: NDArray[np.bool_] | None, randomness: LaneRandomness) -> Decision:
        return Decision(action=reference * randomness.uniform("part of the plan"))


@dataclass(frozen=True, slots=True)
class Baseline:
    """A policy and the environment it acts in."""

    parts: EnvironmentParts
    policy: Policy


def build_baseline(name: BaselineName, parts: EnvironmentParts, store: MarketStore) -> Baseline:
    """Return the baseline on the simulator and reward of ``parts``.

    - twap: the same number of shares in every tick of the window.
    - vwap: in step with the volume curve of earlier days (``volume_curve``).
    - immediate: everything in the first step.
    - random: at every step a part of what remains, drawn evenly between none and all.

    Raises:
        ConfigError: for an unknown name.
    """
    policy: Policy = RandomPart() if name == "random" else FollowPlan()
    plan: Plan
    if name == "twap":
        plan = EvenPace()
    elif name == "vwap":
        plan = VolumePace(store)
    elif name in ("immediate", "random"):
        plan = WholeRemainder()
    else:
        known = ", ".join(BASELINE_NAMES)
        raise ConfigError(f"baseline must be one of {known}, was {name!r}{nearest_name(name, BASELINE_NAMES)}")
    return Baseline(replace(parts, state_interpreter=plan, action_interpreter=DirectQuantity()), policy)
