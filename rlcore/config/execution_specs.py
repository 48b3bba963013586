"""Built-in parts of order execution: how orders fill, what the agent sees and does, what it is paid for."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field

from rlcore.config.specs import ActionSpec, ObservationSpec, RewardSpec, SimulatorSpec, TaskShape

if TYPE_CHECKING:
    from rlcore.execution.actions import CategoricalFractions, TwapRelative
    from rlcore.execution.observations import CurrentStepObservation, FullHistoryObservation
    from rlcore.execution.rewards import ConcentrationPenalty, PriceAdvantageReward, ShortfallReward, ThresholdedTerminalReward
    from rlcore.execution.simulator import FastSimulator
    from rlcore.market.store import MarketStore


class FastSimulatorSpec(SimulatorSpec):
    """Fills against recorded bars: a step's shares are spread evenly over its bars and capped by each bar's volume."""

    kind: Literal["fast"]
    price: Literal["close", "vwap", "bid_or_ask"]
    """What a bar fills at: its close, its volume-weighted price, or the ask for buys and the bid for sells."""

    def build(self, store: MarketStore) -> FastSimulator:
        from rlcore.execution.simulator import FastSimulator

        return FastSimulator(store, self.ticks_per_step, self.participation_cap, self.price)


class CurrentStepSpec(ObservationSpec):
    """What remains, how much time has passed, the side; and named fields of the store at the last completed bar."""

    kind: Literal["current_step"]
    features: tuple[str, ...] = ()
    """Fields of the store, such as ``signal`` of the synthetic market or a column of one's own."""

    def build(self, shape: TaskShape) -> CurrentStepObservation:
        from rlcore.execution.observations import CurrentStepObservation
        from rlcore.foundation.errors import ConfigError, nearest_name

        for name in self.features:
            if name not in shape.store.fields:
                known = ", ".join(shape.store.fields)
                hint = nearest_name(name, shape.store.fields)
                raise ConfigError(f"observation.features must name fields of the store ({known}), was {name!r}{hint}")
        return CurrentStepObservation(self.features)


class FullHistorySpec(ObservationSpec):
    """The whole market history of today up to now, yesterday's if wanted, and what the order did so far."""

    kind: Literal["full_history"]
    days: Literal["today", "today_and_previous"] = "today_and_previous"
    """Whether the previous day is shown too."""

    def build(self, shape: TaskShape) -> FullHistoryObservation:
        from rlcore.execution.observations import FullHistoryObservation
        from rlcore.market.features import history_features

        return FullHistoryObservation(shape.store, history_features(shape.store), shape.ticks_per_step, self.days)


def _are_increasing(fractions: tuple[float, ...]) -> tuple[float, ...]:
    if any(later <= earlier for earlier, later in itertools.pairwise(fractions)):
        raise ValueError(f"must be increasing, was {list(fractions)}")
    return fractions


class CategoricalFractionsSpec(ActionSpec):
    """Action a trades a fixed fraction of the whole order in the coming step."""

    kind: Literal["categorical"]
    fractions: Annotated[tuple[Annotated[float, Field(ge=0, le=1)], ...], Field(min_length=2), AfterValidator(_are_increasing)]
    """Fractions of the order, increasing."""

    def build(self, shape: TaskShape) -> CategoricalFractions:
        from rlcore.execution.actions import CategoricalFractions

        return CategoricalFractions(self.fractions)


class TwapRelativeSpec(ActionSpec):
    """A number: how many times the even pace the order trades at in the coming step."""

    kind: Literal["twap_relative"]
    largest_multiple: Annotated[float, Field(gt=0)] = 2.0
    """The largest multiple of the even pace."""

    def build(self, shape: TaskShape) -> TwapRelative:
        from rlcore.execution.actions import TwapRelative

        return TwapRelative(self.largest_multiple)


class PriceAdvantageSpec(RewardSpec):
    """Fill prices against the window's TWAP in basis points, each fill by its share of the order."""

    kind: Literal["price_advantage"]

    def build(self, shape: TaskShape) -> PriceAdvantageReward:
        from rlcore.execution.rewards import PriceAdvantageReward

        return PriceAdvantageReward()


class ConcentrationPenaltySpec(RewardSpec):
    """Minus the squared shares of the order that single bars filled: crowding is paid for."""

    kind: Literal["concentration_penalty"]

    def build(self, shape: TaskShape) -> ConcentrationPenalty:
        from rlcore.execution.rewards import ConcentrationPenalty

        return ConcentrationPenalty()


class ThresholdedTerminalSpec(RewardSpec):
    """Paid once at the end: -1, 0 or +1 by the average price against the window's TWAP (Lin and Beling 2020)."""

    kind: Literal["thresholded_terminal"]

    def build(self, shape: TaskShape) -> ThresholdedTerminalReward:
        from rlcore.execution.rewards import ThresholdedTerminalReward

        return ThresholdedTerminalReward()


class ShortfallSpec(RewardSpec):
    """Minus the implementation shortfall against the arrival price in basis points, unfilled shares included."""

    kind: Literal["shortfall"]

    def build(self, shape: TaskShape) -> ShortfallReward:
        from rlcore.execution.rewards import ShortfallReward

        return ShortfallReward()
