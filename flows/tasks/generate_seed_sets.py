"""Task ``generate-seed-sets``: market store → the orders that train, choose and judge, fold by fold."""

from __future__ import annotations

from pathlib import Path

from prefect import task

from flows.cache_keys import prefect_key
from flows.locks import claimed
from flows.references import SPLITS, FoldReference, MarketReference, SeedSetReference, SeedSetsReference
from flows.workspace import Workspace
from rlcore.config.build import build_orders, build_splits
from rlcore.execution.orders import OrderSet
from rlcore.execution.splitting import OrderSplit
from rlcore.foundation.atomic_files import folder_written_atomically
from rlcore.foundation.fingerprints import fingerprint_of
from rlcore.market.store import MarketStore


@task(
    name="generate-seed-sets",
    task_run_name="generate-seed-sets",
    cache_key_fn=prefect_key,
    persist_result=True,
    result_serializer="json",
)
def generate_seed_sets(workspace: Workspace, market: MarketReference, key: str) -> SeedSetsReference:
    """Draw or read the orders, split them, and keep every part as a file."""
    store = MarketStore.open(market.path)
    folder = workspace.home.seed_sets / key
    experiment = workspace.load_execution_experiment()
    splits = build_splits(experiment, build_orders(experiment, store, workspace.as_of))
    with claimed(folder):
        if not folder.exists():
            with folder_written_atomically(folder) as target:
                for fold, split in enumerate(splits):
                    for name in SPLITS:
                        getattr(split, name).save(target / _file_name(fold, name))
    folds = tuple(_fold_reference(folder, fold, split) for fold, split in enumerate(splits))
    fingerprint = fingerprint_of([[fold.train.fingerprint, fold.validation.fingerprint, fold.test.fingerprint] for fold in folds])
    return SeedSetsReference(path=folder, fingerprint=fingerprint, folds=folds)


def _fold_reference(folder: Path, fold: int, split: OrderSplit) -> FoldReference:
    references = {name: _reference(folder / _file_name(fold, name), getattr(split, name)) for name in SPLITS}
    return FoldReference(fold=fold, **references)


def _reference(path: Path, orders: OrderSet) -> SeedSetReference:
    days = orders.store.dates[orders.store.row_date[orders.row]]
    return SeedSetReference(
        path=path,
        fingerprint=orders.fingerprint,
        num_orders=len(orders),
        first_date=days.min().item(),
        last_date=days.max().item(),
    )


def _file_name(fold: int, name: str) -> str:
    return f"fold_{fold}_{name}.parquet"
