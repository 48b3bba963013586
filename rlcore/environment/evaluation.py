"""Every seed exactly once, in order, one row each: what validation and backtest stand on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.policy import Policy
from rlcore.contracts.seeds import SeedSet
from rlcore.environment.backends import EpisodeBackend, InlineBackend
from rlcore.environment.episode_jobs import EpisodeJob, SeedFailure
from rlcore.environment.episode_table import EpisodeTable, build_episode_table
from rlcore.environment.parts import EnvironmentParts
from rlcore.environment.rollout import Passage, StepRecorder
from rlcore.foundation.errors import ConfigError, EvaluationError
from rlcore.foundation.random_streams import RandomStreams
from rlcore.foundation.whole_numbers import require_whole_number


def evaluate(
    parts: EnvironmentParts,
    policy: Policy,
    seeds: SeedSet[Any],
    streams: RandomStreams,
    phase: str,
    num_lanes: int,
    seed_ids: NDArray[np.int64] | None = None,
    recorders: Sequence[StepRecorder] = (),
    allow_failed: Literal["refuse", "keep"] = "refuse",
    backend: EpisodeBackend | None = None,
) -> EpisodeTable:
    """Run one episode for each seed and return one row for each, in order.

    Args:
        phase: names the random streams ("validation", "backtest"), so that evaluating changes nothing in training.
        num_lanes: episodes at once; the policy is always asked for so many rows.
        seed_ids: which seeds; None: all of the set. A seed that stands there again has another visit, hence other random numbers.
            ``finite_passes`` gives repeated passes, in order or shuffled.
        recorders: watch the steps; inline only.
        allow_failed: "keep" gives a seed that raises a row with status "failed"; "refuse" stops at the first.
        backend: where the episodes run; None: in this process.

    Raises:
        ConfigError: for seeds that the set does not hold, or arguments that cannot be.
        EvaluationError: a seed raised, and failed rows are refused; its cause is what the seed raised.
    """
    num_lanes = require_whole_number("num_lanes", num_lanes, 1)
    if allow_failed not in ("refuse", "keep"):
        raise ConfigError(f"allow_failed must be 'refuse' or 'keep', was {allow_failed!r}")
    if seed_ids is None:
        seed_id, visit = np.arange(len(seeds)), np.zeros(len(seeds), np.int64)
    else:
        seed_id = _checked_ids(seed_ids, len(seeds))
        visit = _count_earlier(seed_id)
    on_failure: Literal["stop", "isolate"] = "isolate" if allow_failed == "keep" else "stop"
    job = EpisodeJob(parts, policy, seeds, seed_id, visit, Passage(streams, phase, num_lanes), on_failure)
    result = (backend or InlineBackend()).run(job, recorders)
    if result.failures and allow_failed == "refuse":
        _refuse(next(iter(result.failures.values())), phase)
    return build_episode_table(result, parts.reward, seeds, seed_id)


def _checked_ids(seed_ids: Any, num_seeds: int) -> NDArray[np.int64]:
    seed_id = np.asarray(seed_ids)
    if seed_id.ndim != 1 or (len(seed_id) and seed_id.dtype.kind not in "iu"):
        raise ConfigError(f"seed_ids must be whole numbers, of shape (episodes,), was {seed_ids!r}")
    is_unknown = (seed_id < 0) | (seed_id >= num_seeds)
    if is_unknown.any():
        raise ConfigError(f"seed_ids must lie in {{0, …, {num_seeds - 1}}}, was {seed_id[is_unknown][0]}")
    return seed_id.astype(np.int64)


def _count_earlier(seed_id: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how often each entry's seed stands before it."""
    order = np.argsort(seed_id, kind="stable")
    ordered = seed_id[order]
    run_start = np.searchsorted(ordered, ordered, side="left")
    visit = np.empty(len(seed_id), np.int64)
    visit[order] = np.arange(len(seed_id)) - run_start
    return visit


def _refuse(failure: SeedFailure, phase: str) -> None:
    raise EvaluationError(
        f"{phase} must have no failed rows, seed {failure.seed_id} raised {failure.error}: "
        'mend the cause, or keep such rows with allow_failed="keep"'
    ) from failure.exception
