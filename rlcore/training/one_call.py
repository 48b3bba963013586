"""A training, and a backtest, as one call each: parts, agent and initial states in, what came of them out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rlcore.agents.agent import Agent
from rlcore.agents.build_agent import build_agent
from rlcore.agents.saved_policy import LoadedPolicy
from rlcore.agents.space_agreement import require_same_space, require_spaces_of_agent
from rlcore.agents.specs import AgentSpec
from rlcore.contracts.policy import Policy
from rlcore.contracts.seeds import SeedSet, SequenceSeedSet
from rlcore.environment.episode_table import EpisodeTable
from rlcore.environment.evaluation import evaluate
from rlcore.environment.parts import EnvironmentParts
from rlcore.foundation.errors import ConfigError
from rlcore.foundation.random_streams import RandomStreams
from rlcore.foundation.whole_numbers import require_whole_number_or_none
from rlcore.training.callbacks import Callback
from rlcore.training.checkpoint import read_checkpoint
from rlcore.training.claims import claimed
from rlcore.training.loggers import Logger, close_all, send_episodes, send_metrics
from rlcore.training.metrics import episode_metrics
from rlcore.training.results import FitResult
from rlcore.training.resume import refuse_other_config
from rlcore.training.trainer import Trainer
from rlcore.training.vessel import TrainingVessel
from rlcore.training.worker_backend import FiniteEnvType, backend_like_here

InitialStates = Sequence[Any] | SeedSet[Any]


@dataclass(frozen=True, slots=True)
class Trained:
    """What ``train`` gives."""

    agent: Agent  # as the training left it: that of the last iteration, or the best where EarlyStopping puts it back
    fit: FitResult  # how the training ended
    vessel: TrainingVessel  # what was trained, for ``Trainer.fit`` and ``Trainer.test``

    def load(self, checkpoint: Path) -> None:
        """Put the agent of a checkpoint of this training (``CheckpointWriter.best_path``, say) in the place of the last.

        Raises:
            CheckpointError: for a checkpoint that is damaged, or of another training (the differing keys are named).
        """
        content = read_checkpoint(checkpoint)
        refuse_other_config(content["config"], self.vessel.config(), checkpoint)
        self.agent.load_state_dict(content["vessel"]["agent"])


def train(
    parts: EnvironmentParts,
    agent: AgentSpec | Agent,
    initial_states: InitialStates,
    *,
    root_seed: int,
    num_lanes: int,
    episodes_per_iteration: int | None = None,
    steps_per_iteration: int | None = None,
    num_groups: int = 1,
    max_iters: int | None = None,
    wall_clock_budget_seconds: float | None = None,
    validation_states: InitialStates | Mapping[str, InitialStates] | None = None,
    val_every_n_iters: int | None = None,
    callbacks: Iterable[Callback] = (),
    loggers: Iterable[Logger] = (),
    resume_from: Path | None = None,
    finite_env_type: FiniteEnvType = "inline",
    concurrency: int = 1,
    fast_dev_run: int | None = None,
    device: str = "cpu",
) -> Trained:
    """Train an agent on a task. This builds a ``TrainingVessel`` and a ``Trainer``, as whoever wants more say does by hand.

    SIGTERM ends it cleanly: the iteration in progress is abandoned, the last checkpoint stands, and ``fit.status`` is
    "terminated" (look at it before the agent is used). Ctrl-C raises KeyboardInterrupt, as everywhere.

    Args:
        parts: the task; ``looped_parts`` makes it of one-episode parts.
        agent: a spec, from which a fresh agent is built, or an agent to go on with.
        initial_states: what training draws from: a sequence of what the simulator is made from, or a seed set.
        root_seed: the root of all randomness, the agent's first parameters included.
        num_lanes, episodes_per_iteration, steps_per_iteration, num_groups: see ``TrainingVessel``.
        max_iters, wall_clock_budget_seconds, val_every_n_iters, fast_dev_run, finite_env_type, concurrency: see ``Trainer``.
        validation_states: for choosing; one set, or several by name.
        callbacks: early stopping, checkpoints, …
        loggers: where the numbers go.
        resume_from: a checkpoint of the same training, to go on from.
        device: "cpu", "cuda", or "auto"; of an agent that is built here.

    Raises:
        ConfigError: for settings that cannot be.
        CheckpointError: for a checkpoint that is damaged, or of another training.
    """
    if validation_states is not None and val_every_n_iters is None:
        raise ConfigError("val_every_n_iters must be given with validation_states, was None: nothing would ever be validated")
    if not isinstance(agent, Agent):
        agent = _built(agent, parts, root_seed, device)
    vessel = TrainingVessel(
        parts,
        agent,
        as_seed_set(initial_states),
        _validation_sets(validation_states),
        episodes_per_iteration=episodes_per_iteration,
        steps_per_iteration=steps_per_iteration,
        num_lanes=num_lanes,
        num_groups=num_groups,
        root_seed=root_seed,
    )
    fast_dev_run = require_whole_number_or_none("fast_dev_run", fast_dev_run)
    if fast_dev_run is not None:
        vessel = vessel.shortened(fast_dev_run)  # here, so that what is given back is what was trained
    trainer = Trainer(
        max_iters=max_iters,
        val_every_n_iters=val_every_n_iters,
        concurrency=concurrency,
        finite_env_type=finite_env_type,
        callbacks=callbacks,
        loggers=loggers,
        wall_clock_budget_seconds=wall_clock_budget_seconds,
    )
    fit = trainer.fit(vessel, resume_from)
    return Trained(agent, fit, vessel)


def backtest(
    parts: EnvironmentParts,
    policy: Policy | Agent | LoadedPolicy,
    initial_states: InitialStates,
    *,
    root_seed: int,
    num_lanes: int,
    loggers: Iterable[Logger] = (),
    allow_failed: Literal["refuse", "keep"] = "refuse",
    finite_env_type: FiniteEnvType = "inline",
    concurrency: int = 1,
) -> EpisodeTable:
    """Run every initial state once, in order, and return one row for each.

    Args:
        parts: the task.
        policy: an agent or a loaded policy, which act deterministically; or any policy, as it is.
        initial_states: a sequence of what the simulator is made from, or a seed set.
        root_seed: the root of the random numbers of a policy that draws; no other depends on it.
        num_lanes: episodes at once.
        loggers: are told of the phase "test", at iteration 0.
        allow_failed: "keep" gives a state whose episode raises a row with status "failed"; "refuse" stops at the first.
        finite_env_type, concurrency: where the episodes run, see ``Trainer``.

    Raises:
        EvaluationError: an episode raised, and failed rows are refused.
        ConfigError: for an agent or a saved policy of other spaces than the task's.
    """
    loggers = tuple(loggers)
    streams, seeds = RandomStreams(root_seed), as_seed_set(initial_states)
    with claimed(loggers, ["test"]):
        with backend_like_here(finite_env_type, concurrency) as backend:
            table = evaluate(
                parts, _acting(policy, parts), seeds, streams, "test", num_lanes, allow_failed=allow_failed, backend=backend
            )
        send_episodes(loggers, "test", 0, table)
        send_metrics(loggers, 0, episode_metrics("test", table))
        close_all(loggers)
    return table


def as_seed_set(initial_states: InitialStates) -> SeedSet[Any]:
    """Return a seed set as it is, and any other sequence as one."""
    return initial_states if isinstance(initial_states, SeedSet) else SequenceSeedSet(initial_states)


def _validation_sets(states: InitialStates | Mapping[str, InitialStates] | None) -> SeedSet[Any] | dict[str, SeedSet[Any]] | None:
    if states is None:
        return None
    if isinstance(states, Mapping):
        return {name: as_seed_set(one) for name, one in states.items()}
    return as_seed_set(states)


def _built(spec: AgentSpec, parts: EnvironmentParts, root_seed: int, device: str) -> Agent:
    interpreter = parts.state_interpreter
    spaces = interpreter.observation_space, parts.action_interpreter.action_space
    return build_agent(spec, *spaces, interpreter, root_seed=root_seed, device=device)


def _acting(policy: Policy | Agent | LoadedPolicy, parts: EnvironmentParts) -> Policy:
    if isinstance(policy, Agent):
        require_spaces_of_agent(policy, parts)
        return policy.evaluation_policy()
    if isinstance(policy, LoadedPolicy):
        require_same_space("action", policy.action_space, parts.action_interpreter.action_space)
        return policy.evaluation_policy(parts.state_interpreter)
    return policy
