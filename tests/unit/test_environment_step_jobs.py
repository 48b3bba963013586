"""Steps of groups: the same bits in this process and in any number of workers, over fragments, deaths and checkpoints."""

from __future__ import annotations

import pickle
import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlcore.contracts import Decision, Policy, SequenceSeedSet
from rlcore.environment.backends import InlineBackend, SubprocBackend
from rlcore.environment.random_actions import RandomActions
from rlcore.environment.rollout import Passage, run_episodes
from rlcore.environment.seed_sampling import training_draw
from rlcore.environment.step_jobs import StepJob, collect_steps, freeze_groups, start_groups, thaw_groups
from rlcore.environment.steps import run_steps
from rlcore.foundation.errors import ConfigError, EvaluationError
from rlcore.foundation.lanes import map_lanes
from rlcore.foundation.random_streams import RandomStreams
from tests.environment_hazards import DyingOnceSpend, DyingSpend, HazardousSpend, bad_world
from tests.environment_toys import (
    Spend,
    SpendAction,
    SpendOnce,
    WorldSeeds,
    looped_spend_parts,
    random_world,
    spend_parts,
    spend_seeds,
)

SEEDS = spend_seeds(11)
PASSAGE = Passage(RandomStreams(5), "train", 3)
RANDOM = RandomActions(SpendAction.action_space)
FORMS = {"lanes": spend_parts, "looped": looped_spend_parts}


class Counting(Policy):
    """Remembers how many decisions its episode has seen; spends at every third."""

    def decide(self, reference, internal_state, mask, randomness):
        count = internal_state["count"] + 1
        return Decision((count % 3 == 0).astype(np.int64) * 2, {"count": count})

    def initial_internal_state(self, num_lanes):
        return {"count": np.zeros(num_lanes, np.int64)}


@pytest.fixture(scope="module", params=[1, 2])
def workers(request):
    with SubprocBackend(request.param, chunk_deadline_seconds=60) as backend:
        yield backend


@pytest.fixture(scope="module")
def two_workers():
    with SubprocBackend(2, chunk_deadline_seconds=60) as backend:
        yield backend


def run(backend, lengths, parts, *, policy=RANDOM, seeds=SEEDS, passage=PASSAGE, num_groups=4):
    groups = start_groups(parts, policy, seeds, passage, num_groups)
    fragments = []
    for length in lengths:
        fragments.append(collect_steps(backend, StepJob(parts, policy, seeds, groups, length, passage)))
        groups = fragments[-1].running
    return fragments


def assert_same(ours, wanted):
    assert len(ours) == len(wanted)
    for one, other in zip(ours, wanted, strict=True):
        map_lanes(np.testing.assert_array_equal, one.rollout, other.rollout)
        np.testing.assert_array_equal(one.finished_seed_id, other.finished_seed_id)
        np.testing.assert_array_equal(one.finished_visit, other.finished_visit)
        assert (one.finished is None) == (other.finished is None)
        if one.finished is not None:
            map_lanes(np.testing.assert_array_equal, _columns(one.finished), _columns(other.finished))


def _columns(finished):
    names = ("num_steps", "episode_return", "component_sums", "is_truncated", "metrics")
    return {name: getattr(finished, name) for name in names}


@pytest.mark.parametrize("policy", [RANDOM, Counting()], ids=["random", "memory"])
@pytest.mark.parametrize("form", FORMS)
def test_any_number_of_workers_gives_the_same_bits_fragment_after_fragment(form, policy, workers):
    lengths = [7, 1, 9, 4]
    inline = run(InlineBackend(), lengths, FORMS[form](), policy=policy)
    assert_same(run(workers, lengths, FORMS[form](), policy=policy), inline)
    assert inline[0].rollout.reward.shape == (7, 12) and sum(len(part.finished_seed_id) for part in inline) > 11


def test_five_workers_give_the_same_bits():
    with SubprocBackend(5, chunk_deadline_seconds=60) as five:
        ours = run(five, [6, 10], looped_spend_parts(), num_groups=7)
    assert_same(ours, run(InlineBackend(), [6, 10], looped_spend_parts(), num_groups=7))


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    world=st.builds(random_world, st.integers(0, 2**32), st.integers(1, 9)),
    form=st.sampled_from(sorted(FORMS)),
    num_lanes=st.integers(1, 4),
    num_groups=st.integers(1, 4),
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    root=st.integers(0, 2**63 - 1),
)
def test_workers_checkpoints_and_cuts_make_no_difference(two_workers, world, form, num_lanes, num_groups, lengths, root):
    given_ = {"seeds": WorldSeeds(world), "passage": Passage(RandomStreams(root), "train", num_lanes), "num_groups": num_groups}
    wanted = run(InlineBackend(), lengths, FORMS[form](), **given_)
    assert_same(run(two_workers, lengths, FORMS[form](), **given_), wanted)
    (whole,) = run(InlineBackend(), [sum(lengths)], FORMS[form](), **given_)
    rewards = np.concatenate([fragment.rollout.reward for fragment in wanted])
    np.testing.assert_array_equal(whole.rollout.reward, rewards)
    # Frozen after the first fragment, and thawed.
    parts = FORMS[form]()
    (first,) = run(InlineBackend(), lengths[:1], parts, **given_)
    groups = thaw_groups(parts, given_["seeds"], pickle.loads(pickle.dumps(freeze_groups(first.running))))
    for length, other in zip(lengths[1:], wanted[1:], strict=True):
        fragment = collect_steps(two_workers, StepJob(parts, RANDOM, given_["seeds"], groups, length, given_["passage"]))
        assert_same([fragment], [other])
        groups = fragment.running


def test_groups_share_the_endless_sequence_and_know_nothing_of_each_other():
    parts = spend_parts()
    groups = start_groups(parts, RANDOM, SEEDS, PASSAGE, 4)
    sequence = training_draw(5, 11, 0, 100)
    for number, group in enumerate(groups):
        for column, wanted in zip((group.lanes.status.seed_id, group.lanes.status.visit), sequence, strict=True):
            assert column.tolist() == [wanted[number + 4 * place] for place in range(3)]
    (joined,) = run(InlineBackend(), [20], parts)

    def every_fourth(first, count):
        seed_id, visit = sequence
        at = 2 + 4 * np.arange(first, first + count)
        return seed_id[at], visit[at]

    alone = run_steps(parts, RANDOM, SEEDS, every_fourth, groups[2], 20, PASSAGE)
    np.testing.assert_array_equal(joined.rollout.reward[:, 6:9], alone.rollout.reward)


def test_finished_episodes_are_those_of_run_episodes():
    (fragment,) = run(InlineBackend(), [30], spend_parts())
    whole = run_episodes(spend_parts(), RANDOM, SEEDS, fragment.finished_seed_id, fragment.finished_visit, PASSAGE)
    map_lanes(np.testing.assert_array_equal, _columns(fragment.finished), _columns(whole))


# Long episodes and their actions


class LongSpend(Spend):
    """Goes on for 40 steps, whatever is left."""

    max_steps = 40

    def step(self, state, command):
        stepped = super().step(replace(state, step=state.step % 6), command * 0.01)
        after = replace(stepped.state, step=state.step + 1)
        is_over = after.step >= self.max_steps
        return replace(stepped, state=after, terminated=np.zeros_like(is_over), truncated=is_over)

    def view(self, state):
        return super().view(replace(state, step=state.step % 6))


@pytest.mark.parametrize("length", [1, 3, 100])
def test_what_is_remembered_of_actions_is_enough_and_not_much_more(length):
    parts = spend_parts(simulator=LongSpend())
    groups = start_groups(parts, RANDOM, SEEDS, PASSAGE, 1)
    for _ in range(-(-110 // length)):
        groups = collect_steps(InlineBackend(), StepJob(parts, RANDOM, SEEDS, groups, length, PASSAGE)).running
        remembered = [len(part) for part in groups[0].actions]
        oldest = groups[0].lanes.status.step.max()
        assert oldest <= sum(remembered) <= max(3 * oldest, length) and len(remembered) <= 7
    (frozen,) = freeze_groups(groups)
    assert frozen["actions"] is None if oldest == 0 else len(frozen["actions"]) == oldest
    (thawed,) = thaw_groups(parts, SEEDS, [frozen])
    map_lanes(np.testing.assert_array_equal, groups[0].lanes, thawed.lanes)


# Deaths


def test_a_fragment_whose_worker_dies_starts_again_from_the_state_before_it(tmp_path):
    seeds = bad_world(11, 2, 7, 9)
    wanted = run(InlineBackend(), [5, 6, 8], spend_parts(), seeds=seeds)
    warns = pytest.warns(RuntimeWarning, match=r"ended with exit code 7 while it ran the 3 seeds .*: a new worker takes over")
    with SubprocBackend(2, on_worker_death="restart", chunk_deadline_seconds=60) as backend, warns:
        ours = run(backend, [5, 6, 8], spend_parts(simulator=DyingOnceSpend(tmp_path)), seeds=seeds)
    assert_same(ours, wanted)
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.filterwarnings("ignore:worker process:RuntimeWarning")
@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("fail", r"must stay alive, ended with exit code 7 while it ran the 3 seeds"),
        ("restart", r"must survive the 3 seeds .*, 3 have not: the last ended with exit code 7"),
    ],
)
def test_a_group_that_always_kills_is_an_error_that_names_its_seeds(choice, message):
    parts = spend_parts(simulator=DyingSpend("exit"))
    with SubprocBackend(2, on_worker_death=choice, chunk_deadline_seconds=60) as backend:
        with pytest.raises(EvaluationError, match=message):
            run(backend, [6], parts, seeds=bad_world(11, *range(11)), num_groups=1)
        assert_same(run(backend, [6], spend_parts()), run(InlineBackend(), [6], spend_parts()))


# What raises


class FussySpendOnce(SpendOnce):
    def step(self, action):
        if self.budget >= 600.0 and self.now == 1:
            raise ValueError("a bad number")
        super().step(action)


@pytest.mark.parametrize("lengths", [[30], [1] * 30], ids=["one fragment", "many"])
@pytest.mark.parametrize("form", [lambda: spend_parts(simulator=HazardousSpend()), lambda: looped_spend_parts(FussySpendOnce)])
def test_what_an_episode_raises_names_its_seed_wherever_it_runs(form, lengths, two_workers):
    notes = []
    for backend in (InlineBackend(), two_workers):
        with pytest.raises(ValueError, match="a bad number") as caught:
            run(backend, lengths, form(), seeds=bad_world(11, 4), num_groups=1)
        notes.append(caught.value.__notes__)
    for own in notes:
        assert "raised by the episode of seed 4, visit 0, at step 2" in own[0]
    assert "in a worker process:" in notes[1][1] and "in step" in notes[1][1]


def test_what_a_seed_raises_at_its_start_names_it():
    class Files:
        def __len__(self):
            return 11

        def __getitem__(self, index):
            if index == 6:
                raise StopIteration("order 6")
            return random_world(index, 1)[0]

    # Caught as an exception, not as the end of anything (qlibrl.md D4).
    with pytest.raises(StopIteration, match="order 6") as caught:
        run(InlineBackend(), [40], looped_spend_parts(), seeds=SequenceSeedSet(Files()))
    assert "raised by the episode of seed 6, visit 0, at step 0" in caught.value.__notes__


def test_what_is_raised_by_lanes_together_and_by_none_apart_says_so():
    class Crowded(Spend):
        def step(self, state, command):
            if len(state.left) > 1:
                raise ValueError("too many lanes")
            return super().step(state, command)

    with pytest.raises(ValueError, match="too many lanes") as caught:
        run(InlineBackend(), [5], spend_parts(simulator=Crowded()))
    assert "together, by none of them apart" in caught.value.__notes__[0]


class LockedSpendOnce(SpendOnce):
    """Cannot be pickled once it has been stepped."""

    def step(self, action):
        super().step(action)
        self.lock = threading.Lock()


class BornLockedSpendOnce(SpendOnce):
    def __init__(self, initial) -> None:
        super().__init__(initial)
        self.lock = threading.Lock()


@pytest.mark.parametrize("simulator", [LockedSpendOnce, BornLockedSpendOnce])
def test_episodes_in_progress_that_cannot_be_pickled_are_refused_with_the_remedy(simulator, two_workers):
    parts = looped_spend_parts(simulator)
    run(InlineBackend(), [4, 4], parts)
    with pytest.raises(ConfigError, match=r"episodes in progress.* must be picklable .*lock.*: .*use InlineBackend"):
        run(two_workers, [4], parts)


def test_misuse_is_refused():
    with pytest.raises(ConfigError, match="num_groups must be at least 1, was 0"):
        start_groups(spend_parts(), RANDOM, SEEDS, PASSAGE, 0)
