"""What a training and a test hand back, and what a training remembers of its own course."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from rlcore.environment.episode_table import EpisodeTable

# terminated: the iteration in progress was abandoned, the last checkpoint stands, and the agent in memory is void.
Status = Literal["running", "completed", "early_stopped", "out_of_time", "terminated"]


@dataclass(frozen=True, slots=True)
class FitResult:
    """How a training ended."""

    status: Status
    reason: str  # one sentence for people
    iteration: int  # finished iterations, those before a continuation included
    num_episodes: int  # of training, likewise
    num_steps: int  # of training, likewise
    metrics: dict[str, float]  # of the last finished iteration
    is_resume_exact: bool  # False once one was not: other versions, threads or devices, or a replay that was only close
    seconds: dict[str, float]  # wall clock of this call by phase; no metric, because it is never the same twice


@dataclass(frozen=True, slots=True)
class TestResult:
    """What the test split says."""

    table: EpisodeTable
    metrics: dict[str, float]


@dataclass(frozen=True, slots=True)
class Progress:
    """What the trainer itself must remember to continue."""

    iteration: int = 0  # finished iterations; from the end of its update on, the one in progress counts
    num_episodes: int = 0
    num_steps: int = 0
    is_resume_exact: bool = True
    metrics: dict[str, float] = field(default_factory=dict)  # what the iteration has shown so far
