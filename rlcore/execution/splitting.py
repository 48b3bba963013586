"""Order sets → training, validation and test, apart in time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlcore.execution.orders import OrderSet
from rlcore.foundation.errors import ConfigError


@dataclass(frozen=True, slots=True)
class OrderSplit:
    """Three order sets in order of time; no day stands in two of them."""

    train: OrderSet
    validation: OrderSet
    test: OrderSet


def split_by_date(orders: OrderSet, *, validation_days: int, test_days: int, embargo_days: int) -> OrderSplit:
    """Split by trading day: … train | embargo | validation | embargo | test.

    Trading days are those on which the set has orders. The embargo's orders are dropped, so that features that look back over
    days, and effects that last over days, do not tie the sets together.

    Raises:
        ConfigError: where no day is left for training.
    """
    return walk_forward(
        orders,
        num_folds=1,
        train_days=None,
        validation_days=validation_days,
        test_days=test_days,
        embargo_days=embargo_days,
    )[0]


def walk_forward(
    orders: OrderSet,
    *,
    num_folds: int,
    train_days: int | None,
    validation_days: int,
    test_days: int,
    embargo_days: int,
) -> list[OrderSplit]:
    """Split into folds whose test periods follow each other without gap or overlap and end with the last day.

    Args:
        orders: the whole set.
        num_folds: at least 1; ``num_folds · test_days`` days are tested in all.
        train_days: length of the training period of each fold; None: all days before (an expanding window).
        validation_days, test_days: lengths of the other periods, at least 1.
        embargo_days: trading days dropped between two periods, at least 0.

    Raises:
        ConfigError: where the days do not suffice; names how many are needed.
    """
    for name, value, least in (
        ("num_folds", num_folds, 1),
        ("train_days", 1 if train_days is None else train_days, 1),
        ("validation_days", validation_days, 1),
        ("test_days", test_days, 1),
        ("embargo_days", embargo_days, 0),
    ):
        if value < least:
            raise ConfigError(f"{name} must be at least {least}, was {value}")
    date_of_order = orders.store.row_date[orders.row]
    days = np.unique(date_of_order)
    needed = (train_days or 1) + 2 * embargo_days + validation_days + num_folds * test_days
    if len(days) < needed:
        raise ConfigError(
            f"orders must span at least {needed} trading days for this split (training {train_days or 1}, 2 embargoes of "
            f"{embargo_days}, validation {validation_days}, {num_folds} × test {test_days}), spanned {len(days)}: use shorter "
            "periods or more days"
        )
    splits = []
    for remaining_folds in range(num_folds, 0, -1):
        test_from = len(days) - remaining_folds * test_days
        validation_until = test_from - embargo_days
        validation_from = validation_until - validation_days
        train_until = validation_from - embargo_days
        train_from = 0 if train_days is None else train_until - train_days
        periods = ((train_from, train_until), (validation_from, validation_until), (test_from, test_from + test_days))
        is_in_period = (np.isin(date_of_order, days[first:until]) for first, until in periods)
        splits.append(OrderSplit(*(orders.subset(np.flatnonzero(is_in)) for is_in in is_in_period)))
    return splits
