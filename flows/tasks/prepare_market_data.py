"""Task ``prepare-market-data``: bars → market store."""

from __future__ import annotations

from prefect import task

from flows.cache_keys import prefect_key
from flows.locks import claimed
from flows.references import MarketReference
from flows.workspace import Workspace
from rlcore.config.build import build_market
from rlcore.market.store import MarketStore


@task(
    name="prepare-market-data",
    task_run_name="prepare-market-data",
    cache_key_fn=prefect_key,
    persist_result=True,
    result_serializer="json",
)
def prepare_market_data(workspace: Workspace, key: str) -> MarketReference:
    """Build the store, unless it is there; nothing later than the run's as-of date is in it."""
    path = workspace.home.stores / key
    with claimed(path):
        store = (
            MarketStore.open(path)
            if path.exists()
            else build_market(workspace.load_execution_experiment(), path, workspace.as_of)
        )
    return MarketReference(path=path, fingerprint=store.fingerprint)
