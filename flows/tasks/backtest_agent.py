"""Task ``backtest-agent``: the policies of all seeds and all baselines on the test orders of one fold."""

from __future__ import annotations

from prefect import task

from flows.cache_keys import prefect_key
from flows.fold_contents import open_orders
from flows.possible_gain import known_bounds
from flows.references import BacktestReference, ExecutionFold, TrainingReference
from flows.tasks.fit_agent import load_best_state
from flows.workspace import Workspace
from rlcore.config.build import build_agent, build_parts
from rlcore.contracts.policy import Policy
from rlcore.execution.backtest import run_backtest
from rlcore.foundation.fingerprints import fingerprint_file
from rlcore.market.store import MarketStore

_ROOT_OF_BASELINES = 0  # of what the random baseline draws: the same whatever seeds were trained


@task(
    name="backtest-agent",
    task_run_name="backtest-agent-fold-{fold.fold}",
    cache_key_fn=prefect_key,
    persist_result=True,
    result_serializer="json",
)
def backtest_agent(
    workspace: Workspace, fold: ExecutionFold, trainings: tuple[TrainingReference, ...], key: str
) -> BacktestReference:
    """Execute every test order exactly once with each policy, and keep the tables in the run's folder."""
    experiment = workspace.load_execution_experiment()
    parts = build_parts(experiment, MarketStore.open(fold.market.path))
    policies: dict[int, Policy] = {}
    for training in trainings:
        agent = build_agent(experiment, parts, training.seed)
        load_best_state(agent, training.path)
        policies[training.seed] = agent.evaluation_policy()
    orders = open_orders(experiment, fold).test
    result = run_backtest(
        parts,
        policies,
        orders,
        experiment.evaluation.baselines,
        num_lanes=experiment.evaluation.lanes,
        root_seed=_ROOT_OF_BASELINES,
        bounds=known_bounds(parts, orders),
    )
    folder = workspace.folder / "backtest" / f"fold_{fold.fold}"
    result.save(folder)
    return BacktestReference(path=folder, fingerprint=fingerprint_file(folder / "orders.parquet"), fold=fold.fold)
