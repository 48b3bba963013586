"""What must be executed, and which days train, validate and test."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field

from rlcore.agents.specs import Spec
from rlcore.config.specs import InputPath
from rlcore.foundation.errors import DataError

if TYPE_CHECKING:
    from rlcore.execution.orders import OrderSet
    from rlcore.execution.splitting import OrderSplit
    from rlcore.market.store import MarketStore

Days = Annotated[int, Field(ge=1, strict=True)]
PositiveFraction = Annotated[float, Field(gt=0)]


def _is_range(bounds: tuple[float, float]) -> tuple[float, float]:
    if bounds[0] > bounds[1]:
        raise ValueError(f"must be a range [low, high] with low ≤ high, was {list(bounds)}")
    return bounds


class SampledOrdersSpec(Spec):
    """Orders drawn at random, with chosen attributes balanced."""

    kind: Literal["sampled"]
    num_orders: Annotated[int, Field(ge=1)]
    """Orders in all; the split shares them out by day."""
    fraction_of_day_volume: Annotated[tuple[PositiveFraction, PositiveFraction], AfterValidator(_is_range)]
    """[low, high]: quantity relative to the volume of the order's own day, log-uniform between the two. Only the end of the day
    knows that volume: it sizes the order, as the market's own activity would, and no observation shows the quantity."""
    sides: Annotated[tuple[Literal["buy", "sell"], ...], Field(min_length=1)] = ("buy", "sell")
    """Sides that occur."""
    windows: tuple[tuple[str, str], ...] = ()
    """Pairs of local times ["10:00", "15:00"], in quotes or not; none: the whole session."""
    instruments: tuple[str, ...] = ()
    """Instruments that occur; none: all."""
    strata: tuple[Literal["instrument", "date", "side", "size", "window"], ...] = ("instrument", "date", "side", "size", "window")
    """Attributes whose values occur equally often."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Root of the draw. Not among ``seeds``: every training sees the same orders."""

    def count(self) -> int:
        """Return the number of orders."""
        return self.num_orders

    def build(self, store: MarketStore, as_of: date | None) -> OrderSet:
        from rlcore.execution.sampling import SamplingPlan, sample_orders

        plan = SamplingPlan(
            num_orders=self.num_orders,
            fraction_of_day_volume=self.fraction_of_day_volume,
            sides=self.sides,
            windows=self.windows,
            instruments=self.instruments,
            strata=self.strata,
        )
        return sample_orders(store, plan, self.seed)


class FileOrdersSpec(Spec):
    """Orders of one's own: instrument, date, side, quantity or fraction_of_day_volume, and perhaps start and end."""

    kind: Literal["file"]
    path: InputPath
    """A CSV or parquet file."""
    incomplete_days: Literal["refuse", "keep"] = "refuse"
    """What becomes of an order on a day with an outage."""

    def count(self) -> int:
        """Return the number of orders."""
        import pandas as pd

        reader = pd.read_parquet if self.path.suffix == ".parquet" else pd.read_csv
        try:
            return len(reader(self.path))
        except (OSError, ValueError) as error:
            raise DataError(f"orders file must be a readable CSV or parquet file, was {self.path}: {error}") from error

    def build(self, store: MarketStore, as_of: date | None) -> OrderSet:
        from rlcore.execution.order_files import read_orders

        return read_orders(self.path, store, self.incomplete_days, through=as_of)


class ByDateSpec(Spec):
    """One split: training on the first days, then validation, then test on the last."""

    kind: Literal["by_date"]
    validation_days: Days
    """Trading days that choose the checkpoint."""
    test_days: Days
    """Trading days that judge it; touched once."""
    embargo_days: Annotated[int, Field(ge=0)] = 1
    """Trading days dropped between two periods."""

    def build(self, orders: OrderSet) -> list[OrderSplit]:
        from rlcore.execution.splitting import split_by_date

        return [
            split_by_date(orders, validation_days=self.validation_days, test_days=self.test_days, embargo_days=self.embargo_days)
        ]

    @property
    def num_folds(self) -> int:
        return 1


class WalkForwardSpec(Spec):
    """Several splits, each a training of its own, whose test periods follow each other up to the last day."""

    kind: Literal["walk_forward"]
    num_folds: Annotated[int, Field(ge=1)]
    """Splits; ``num_folds`` times ``test_days`` days are tested in all."""
    train_days: Days | None = None
    """Length of the training period; null: all days before."""
    validation_days: Days
    """Trading days that choose the checkpoint."""
    test_days: Days
    """Trading days of each test period."""
    embargo_days: Annotated[int, Field(ge=0)] = 1
    """Trading days dropped between two periods."""

    def build(self, orders: OrderSet) -> list[OrderSplit]:
        from rlcore.execution.splitting import walk_forward

        return walk_forward(
            orders,
            num_folds=self.num_folds,
            train_days=self.train_days,
            validation_days=self.validation_days,
            test_days=self.test_days,
            embargo_days=self.embargo_days,
        )


OrdersSpec = Annotated[SampledOrdersSpec | FileOrdersSpec, Field(discriminator="kind")]
SplitSpec = Annotated[ByDateSpec | WalkForwardSpec, Field(discriminator="kind")]
