"""Names that a run goes by in files, in Prefect and in tracking."""

from __future__ import annotations


def training_name(seed: int, fold: int) -> str:
    """Return what one training of a run is called."""
    return f"seed-{seed}-fold-{fold}"


def child_key(run: str, seed: int, fold: int) -> str:
    """Return the tracking key of one training of a run; the run's own key is its name."""
    return f"{run}.{training_name(seed, fold)}"
