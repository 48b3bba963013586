"""The orders of a fold, from their files."""

from __future__ import annotations

from flows.references import FoldReference, MarketReference
from rlcore.execution.orders import OrderSet
from rlcore.execution.splitting import OrderSplit
from rlcore.market.store import MarketStore


def load_split(market: MarketReference, fold: FoldReference) -> OrderSplit:
    """Return the orders that train, choose and judge in one fold."""
    store = MarketStore.open(market.path)
    return OrderSplit(*(OrderSet.load(part.path, store) for part in fold.splits.values()))
