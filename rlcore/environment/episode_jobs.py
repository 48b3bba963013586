"""A passage over seeds cut into chunks that can run anywhere, and a seed that raises kept to its own row."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rlcore.contracts.policy import Policy
from rlcore.contracts.seeds import SeedSet
from rlcore.environment.engine import Lanes, Transition
from rlcore.environment.parts import EnvironmentParts
from rlcore.environment.rollout import Episodes, Passage, Rollout, StepRecorder, run_episodes
from rlcore.foundation.lanes import map_lanes


@dataclass(frozen=True, slots=True)
class EpisodeJob:
    """Whole episodes to run, one for each entry of ``seed_id``; picklable."""

    parts: EnvironmentParts
    policy: Policy
    seeds: SeedSet[Any]
    seed_id: NDArray[np.int64]  # (episodes,)
    visit: NDArray[np.int64]  # (episodes,)
    passage: Passage
    on_failure: Literal["stop", "isolate"]  # at the first seed that raises, or give each such seed a failed row
    keep: Callable[..., Rollout] | None = None  # see run_episodes; None keeps no rollout


@dataclass(frozen=True, slots=True)
class SeedFailure:
    """What a seed raised."""

    seed_id: int
    error: str  # one line: type and message
    exception: Exception


@dataclass(slots=True)
class JobResult:
    """Episodes by position in the job; failed ones have NaN figures. Incomplete where the job stopped at a failure."""

    episodes: Episodes
    failures: dict[int, SeedFailure]  # by position


def run_chunk(job: EpisodeJob, start: int, stop: int, recorders: Sequence[StepRecorder] = ()) -> JobResult:
    """Run the episodes at positions ``start … stop - 1``; where one raises, halve until the seed that raises stands alone.

    The seeds that do not raise are unaffected (their episodes are run again, and are the same by lane independence). Recorders
    see the steps of successful attempts only, each once.
    """
    log = _StepLog()
    watching: tuple[StepRecorder, ...] = (log,) if recorders else ()
    part = slice(start, stop)
    try:
        episodes = run_episodes(
            job.parts, job.policy, job.seeds, job.seed_id[part], job.visit[part], job.passage, watching, job.keep
        )
    except Exception as error:  # whatever a user's part raises
        raised = error
    else:
        for recorder in recorders:
            for lanes, transition in log.steps:
                recorder.record(lanes, transition)
        return JobResult(episodes, {})
    del log, watching  # a failed attempt's steps can be large
    # Out of the handler: what a half raises there would be shown below what the whole raised, again and again.
    return _run_halves(job, start, stop, recorders, raised)


def _run_halves(job: EpisodeJob, start: int, stop: int, recorders: Sequence[StepRecorder], raised: Exception) -> JobResult:
    if stop - start == 1:
        return failed_result(int(job.seed_id[start]), start, raised)
    middle = (start + stop) // 2
    left = run_chunk(job, start, middle, recorders)
    if left.failures and job.on_failure == "stop":
        return left
    whole = merge_results([left, run_chunk(job, middle, stop, recorders)])
    if not whole.failures:
        # No seed is to blame: going on would hide a part that breaks lane independence, and be slow.
        ids = job.seed_id[[start, stop - 1]]
        raised.add_note(f"raised by the episodes of seeds {ids[0]} … {ids[1]} together, by none of them apart")
        raise raised
    return whole


def merge_results(results: Sequence[JobResult]) -> JobResult:
    """Return results of neighbouring chunks as one, in order."""
    failures = {position: failure for result in results for position, failure in result.failures.items()}
    return JobResult(merge_episodes([result.episodes for result in results]), failures)


def merge_episodes(parts: Sequence[Episodes]) -> Episodes:
    """Concatenate episodes in order; a figure that some do not have is NaN there."""
    if len(parts) == 1:
        return parts[0]
    lengths = [len(part.num_steps) for part in parts]
    rollouts = [part.rollout for part in parts if part.rollout is not None]
    return Episodes(
        rollout=_join_rollouts(rollouts) if rollouts else None,
        num_steps=np.concatenate([part.num_steps for part in parts]),
        episode_return=np.concatenate([part.episode_return for part in parts]),
        component_sums=_join_columns([part.component_sums for part in parts], lengths),
        is_truncated=np.concatenate([part.is_truncated for part in parts]),
        auxiliary_sums=_join_columns([part.auxiliary_sums for part in parts], lengths),
        auxiliary_counts=_join_columns([part.auxiliary_counts for part in parts], lengths),
        metrics=_join_columns([part.metrics for part in parts], lengths),
    )


class _StepLog:
    """Holds the steps of one attempt until it has succeeded."""

    def __init__(self) -> None:
        self.steps: list[tuple[Lanes, Transition]] = []

    def record(self, lanes: Lanes, transition: Transition) -> None:
        self.steps.append((lanes, transition))


def failed_result(seed_id: int, position: int, error: Exception) -> JobResult:
    """Return the result of an episode that raised."""
    line = " ".join(next(traceback.TracebackException.from_exception(error).format_exception_only()).split())
    error.add_note(f"raised by the episode of seed {seed_id}")
    nothing = Episodes(None, np.zeros(1, np.int64), np.full(1, np.nan), {}, np.zeros(1, bool))
    return JobResult(nothing, {position: SeedFailure(seed_id, line, error)})


def _join_rollouts(rollouts: Sequence[Rollout]) -> Rollout:
    num_steps = max(len(rollout.is_alive) for rollout in rollouts)

    def lengthen(leaf: NDArray[Any]) -> NDArray[Any]:
        missing = num_steps - len(leaf)
        return np.concatenate([leaf, np.zeros((missing, *leaf.shape[1:]), leaf.dtype)]) if missing else leaf

    def join(*leaves: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([lengthen(leaf) for leaf in leaves], axis=1)

    return map_lanes(join, rollouts[0], *rollouts[1:])


def _join_columns(parts: Sequence[dict[str, NDArray[np.float64]]], lengths: Sequence[int]) -> dict[str, NDArray[np.float64]]:
    names = dict.fromkeys(name for part in parts for name in part)
    pairs = list(zip(parts, lengths, strict=True))
    return {name: np.concatenate([part.get(name, np.full(length, np.nan)) for part, length in pairs]) for name in names}
