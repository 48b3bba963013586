"""Task ``validate-agent``: the chosen policy of one training on the seeds that chose it."""

from __future__ import annotations

from prefect import task

from flows.cache_keys import prefect_key
from flows.policy_evaluation import evaluate_policy
from flows.references import Fold, TrainingReference, ValidationReference
from flows.workspace import Workspace
from rlcore.foundation.fingerprints import fingerprint_file


@task(
    name="validate-agent",
    task_run_name="validate-agent-seed-{training.seed}-fold-{fold.fold}",
    cache_key_fn=prefect_key,
    persist_result=True,
    result_serializer="json",
)
def validate_agent(workspace: Workspace, fold: Fold, training: TrainingReference, key: str) -> ValidationReference:
    """Run every validation seed once and keep the episode table."""
    path = training.path / f"validation_{key}.parquet"
    figures = evaluate_policy(workspace, fold, training, "validation", path)
    return ValidationReference(path=path, fingerprint=fingerprint_file(path), seed=training.seed, fold=fold.fold, figures=figures)
