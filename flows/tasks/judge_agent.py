"""Task ``test-agent``: the chosen policy of one training on the test seeds of a task of one's own."""

from __future__ import annotations

from prefect import task

from flows.cache_keys import prefect_key
from flows.policy_evaluation import evaluate_policy
from flows.references import TaskFold, TestReference, TrainingReference
from flows.workspace import Workspace
from rlcore.foundation.fingerprints import fingerprint_file


@task(
    name="test-agent",
    task_run_name="test-agent-seed-{training.seed}",
    cache_key_fn=prefect_key,
    persist_result=True,
    result_serializer="json",
)
def judge_agent(workspace: Workspace, fold: TaskFold, training: TrainingReference, key: str) -> TestReference:
    """Run every test seed once and keep the episode table."""
    path = training.path / f"test_{key}.parquet"
    figures = evaluate_policy(workspace, fold, training, "test", path)
    return TestReference(path=path, fingerprint=fingerprint_file(path), seed=training.seed, fold=fold.fold, figures=figures)
