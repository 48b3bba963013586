"""Task ``validate-agent``: the chosen policy of one training on the orders that chose it."""

from __future__ import annotations

import io

from prefect import task

from flows.cache_keys import prefect_key
from flows.figures import telling
from flows.references import FoldReference, MarketReference, TrainingReference, ValidationReference
from flows.seed_set_files import load_split
from flows.tasks.fit_agent import load_best_state
from flows.workspace import Workspace
from rlcore.config.build import build_agent, build_parts
from rlcore.environment.backends import build_backend
from rlcore.environment.evaluation import evaluate
from rlcore.foundation.atomic_files import write_atomically
from rlcore.foundation.fingerprints import fingerprint_file
from rlcore.foundation.random_streams import RandomStreams
from rlcore.market.store import MarketStore


@task(
    name="validate-agent",
    task_run_name="validate-agent-seed-{training.seed}-fold-{fold.fold}",
    cache_key_fn=prefect_key,
    persist_result=True,
    result_serializer="json",
)
def validate_agent(
    workspace: Workspace, market: MarketReference, fold: FoldReference, training: TrainingReference, key: str
) -> ValidationReference:
    """Execute every validation order once and keep the episode table."""
    experiment = workspace.load_experiment()
    parts = build_parts(experiment, MarketStore.open(market.path))
    agent = build_agent(experiment, parts, training.seed)
    load_best_state(agent, training.path)
    with build_backend(experiment.runtime.worker_backend, experiment.runtime.concurrency) as backend:
        table = evaluate(
            parts,
            agent.evaluation_policy(),
            load_split(market, fold).validation,
            RandomStreams(training.seed),
            "validation",
            experiment.evaluation.lanes,
            backend=backend,
        )
    content = io.BytesIO()
    table.to_frame().to_parquet(content, index=False)
    path = training.path / f"validation_{key}.parquet"
    write_atomically(path, content.getvalue())
    return ValidationReference(
        path=path, fingerprint=fingerprint_file(path), seed=training.seed, fold=fold.fold, figures=telling(table.summary())
    )
