"""Parts put together: the engine, whole episodes and steps, evaluation, worker processes, a gymnasium environment, the laws."""

from rlcore.environment.backends import (
    BACKEND_KINDS,
    EpisodeBackend,
    InlineBackend,
    SubprocBackend,
    build_backend,
    collect_episodes,
)
from rlcore.environment.conformance import ConformanceReport, LawError, LawResult, check_parts
from rlcore.environment.engine import Lanes, Transition, advance, begin, living
from rlcore.environment.env_wrapper import EnvWrapper
from rlcore.environment.episode_jobs import EpisodeJob, JobResult, SeedFailure
from rlcore.environment.episode_table import EpisodeTable, build_episode_table
from rlcore.environment.evaluation import evaluate
from rlcore.environment.looped import looped_parts
from rlcore.environment.parts import EnvironmentParts
from rlcore.environment.random_actions import RandomActions, SameAction
from rlcore.environment.rollout import Episodes, Passage, Rollout, StepRecorder, keep_transitions, run_episodes
from rlcore.environment.seed_sampling import InterleavedDraw, finite_passes, training_draw
from rlcore.environment.step_jobs import (
    JoinedFragment,
    StepJob,
    collect_steps,
    freeze_groups,
    start_groups,
    thaw_groups,
)
from rlcore.environment.steps import Fragment, RunningLanes, freeze_lanes, run_steps, start_lanes, thaw_lanes

__all__ = [
    "BACKEND_KINDS",
    "ConformanceReport",
    "EnvWrapper",
    "EnvironmentParts",
    "EpisodeBackend",
    "EpisodeJob",
    "EpisodeTable",
    "Episodes",
    "Fragment",
    "InlineBackend",
    "InterleavedDraw",
    "JobResult",
    "JoinedFragment",
    "Lanes",
    "LawError",
    "LawResult",
    "Passage",
    "RandomActions",
    "Rollout",
    "RunningLanes",
    "SameAction",
    "SeedFailure",
    "StepJob",
    "StepRecorder",
    "SubprocBackend",
    "Transition",
    "advance",
    "begin",
    "build_backend",
    "build_episode_table",
    "check_parts",
    "collect_episodes",
    "collect_steps",
    "evaluate",
    "finite_passes",
    "freeze_groups",
    "freeze_lanes",
    "keep_transitions",
    "living",
    "looped_parts",
    "run_episodes",
    "run_steps",
    "start_groups",
    "start_lanes",
    "thaw_groups",
    "thaw_lanes",
    "training_draw",
]
