"""Worker processes: the same bits as in this process, clear errors, no hang, nothing left behind."""

from __future__ import annotations

import os

import numpy as np
import psutil
import pytest

from rlcore.contracts import Decision, Policy
from rlcore.environment.backends import InlineBackend, SubprocBackend, build_backend, collect_episodes
from rlcore.environment.evaluation import evaluate
from rlcore.environment.random_actions import RandomActions, SameAction
from rlcore.environment.rollout import Passage
from rlcore.foundation.errors import ConfigError, EvaluationError
from rlcore.foundation.lanes import map_lanes
from rlcore.foundation.random_streams import RandomStreams
from tests.environment_hazards import DyingSpend, HazardousSpend, bad_world
from tests.environment_toys import Spend, SpendAction, looped_spend_parts, spend_parts, spend_seeds

POLICY = RandomActions(SpendAction.action_space)


@pytest.fixture(scope="module")
def two_workers():
    with SubprocBackend(2, chunk_deadline_seconds=60) as backend:
        yield backend


def table_of(backend, parts=None, seeds=None, **settings):
    return evaluate(
        parts or spend_parts(), POLICY, seeds or spend_seeds(23), RandomStreams(1), "test", 4, backend=backend, **settings
    )


@pytest.mark.parametrize("form", [spend_parts, looped_spend_parts])
def test_any_number_of_workers_gives_the_same_table(form, two_workers):
    inline = table_of(InlineBackend(), form())
    with SubprocBackend(1, chunk_deadline_seconds=60) as one_worker:
        for backend in (one_worker, two_workers, two_workers):
            table = table_of(backend, form())
            for name in inline.columns:
                np.testing.assert_array_equal(table[name], inline[name], strict=True)


def test_collected_rollouts_have_the_same_bits(two_workers):
    seeds, seed_id = spend_seeds(9), np.array([5, 0, 5, 8, 2, 1, 7])
    passage = Passage(RandomStreams(4), "train", 3)

    def collect(backend):
        return collect_episodes(backend, spend_parts(), POLICY, seeds, seed_id, np.arange(7), passage)

    inline, worked = collect(InlineBackend()), collect(two_workers)
    map_lanes(np.testing.assert_array_equal, inline.rollout, worked.rollout)
    for name in ("num_steps", "episode_return", "is_truncated"):
        np.testing.assert_array_equal(getattr(inline, name), getattr(worked, name))


def test_failed_seeds_are_isolated_in_workers_too(two_workers):
    parts = spend_parts(simulator=HazardousSpend())
    table = table_of(two_workers, parts, bad_world(23, 6, 13), allow_failed="keep")
    inline = table_of(InlineBackend(), parts, bad_world(23, 6, 13), allow_failed="keep")
    for name in inline.columns:
        np.testing.assert_array_equal(table[name], inline[name])
    with pytest.raises(EvaluationError, match="seed 6 raised ValueError: a bad number") as caught:
        table_of(two_workers, parts, bad_world(23, 6, 13))
    assert isinstance(caught.value.__cause__, ValueError)
    assert any("in step" in note for note in caught.value.__cause__.__notes__)  # the worker's traceback
    with pytest.raises(ValueError, match="a bad number"):
        collect_episodes(
            two_workers,
            parts,
            POLICY,
            bad_world(23, 6, 13),
            np.arange(23),
            np.zeros(23, np.int64),
            Passage(RandomStreams(0), "train", 4),
        )


class HomesickError(ValueError):
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


class OddSpend(Spend):
    def step(self, state, command):
        raise HomesickError("this", "that")


def test_an_exception_that_cannot_travel_arrives_as_text(two_workers):
    with pytest.raises(EvaluationError, match=r"seed 0 raised tests.*HomesickError: this and that"):
        table_of(two_workers, spend_parts(simulator=OddSpend()))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("exit", r"worker process \d+ must stay alive, ended with exit code 7 while it ran the 4 seeds 4, 5, 6, 7"),
        ("kill", r"ended with signal SIGKILL while it ran the 4 seeds 4, 5, 6, 7"),
        ("hang", r"a worker must finish a chunk within 2 s, has not finished the 4 seeds 4, 5, 6, 7"),
    ],
)
def test_a_worker_that_dies_or_hangs_is_an_error_that_names_the_seeds(how, message):
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    with SubprocBackend(2, chunk_deadline_seconds=2) as backend:
        with pytest.raises(EvaluationError, match=message):
            table_of(backend, spend_parts(simulator=DyingSpend(how)), bad_world(23, 6))
        assert {child.pid for child in _workers(psutil.Process())} <= before
        assert len(table_of(backend)) == 23  # it starts new ones
    assert {child.pid for child in _workers(psutil.Process())} <= before


def _workers(process):
    # multiprocessing's resource tracker is no worker: it stays until the parent ends.
    return [child for child in process.children(recursive=True) if "resource_tracker" not in " ".join(child.cmdline())]


def set_up_worker():
    os.environ["FILLWRIGHT_TEST_WORKER"] = "7"


class TellTale(Spend):
    def metrics(self, state):
        return {"set_up": np.full(len(state.left), float(os.environ.get("FILLWRIGHT_TEST_WORKER", "nan")))}


def test_worker_setup_runs_in_every_worker_and_policies_are_sent_anew():
    parts = spend_parts(simulator=TellTale())
    with SubprocBackend(2, worker_setup=set_up_worker, chunk_deadline_seconds=60) as backend:
        assert set(table_of(backend, parts)["set_up"]) == {7.0}
        policy = ChangingPolicy()
        for action in (1, 2):
            policy.action = action
            table = evaluate(parts, policy, spend_seeds(9), RandomStreams(0), "test", 4, backend=backend)
            wanted = evaluate(parts, SameAction(SpendAction.action_space, action), spend_seeds(9), RandomStreams(0), "test", 4)
            np.testing.assert_array_equal(table["return"], wanted["return"])


def fail_to_set_up():
    os._exit(3)


def test_a_worker_that_dies_while_it_starts_is_an_error():
    dies = pytest.raises(EvaluationError, match="ended with exit code 3 while it started")
    with SubprocBackend(2, worker_setup=fail_to_set_up) as backend, dies:
        table_of(backend)


class ChangingPolicy(Policy):
    action = 0

    def decide(self, reference, internal_state, mask, randomness):
        return Decision(np.full(len(reference["left"]), self.action))


def test_what_cannot_be_pickled_is_refused_with_the_remedy(two_workers):
    parts = looped_spend_parts(lambda initial: None)
    with pytest.raises(ConfigError, match=r"must be picklable for worker processes, were not .* functions in a module"):
        table_of(two_workers, parts)


class Silent:
    def record(self, lanes, transition):
        raise AssertionError("is never reached")


def test_recorders_stay_in_this_process(two_workers):
    with pytest.raises(ConfigError, match="recorders must run in this process"):
        table_of(two_workers, recorders=(Silent(),))


def test_an_empty_passage_needs_no_worker(two_workers):
    assert len(table_of(two_workers, seed_ids=np.zeros(0, np.int64))) == 0


def test_backends_by_name_with_qlibrls_names():
    assert isinstance(build_backend("inline", 1), InlineBackend) and isinstance(build_backend("dummy", 4), InlineBackend)
    assert isinstance(build_backend("subproc", 2), SubprocBackend) and isinstance(build_backend("shmem", 2), SubprocBackend)
    with pytest.raises(ConfigError, match=r"backend must be one of inline, .*, was 'shmen' \(did you mean 'shmem'\?\)"):
        build_backend("shmen", 2)
    with pytest.raises(ConfigError, match="num_workers must be at least 1, was 0"):
        build_backend("subproc", 0)
    with pytest.raises(ConfigError, match="chunk_deadline_seconds must be positive, was 0"):
        SubprocBackend(1, chunk_deadline_seconds=0)
