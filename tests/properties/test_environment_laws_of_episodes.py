"""Laws 1 to 4, between episodes: each holds on a small task in both forms, and its check finds a planted violation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlcore.contracts import Decision, Policy, WeightedReward
from rlcore.environment.backends import InlineBackend
from rlcore.environment.conformance import (
    LawError,
    check_conservation,
    check_exactly_once,
    check_lane_independence,
    check_no_look_ahead,
)
from rlcore.environment.episode_jobs import JobResult, merge_episodes, run_chunk
from rlcore.foundation.errors import ContractError
from tests.environment_toys import (
    MAX_STEPS,
    Bargain,
    CrowdedSpend,
    Spend,
    SpendAction,
    SpendObservation,
    SpendOnce,
    WorldSeeds,
    looped_spend_parts,
    random_world,
    spend_balance,
    spend_parts,
    spend_perturbed,
    spend_seeds,
)

few = settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
worlds = st.builds(random_world, st.integers(0, 2**32), st.integers(1, 9))
forms = st.sampled_from([spend_parts, looped_spend_parts])
roots = st.integers(0, 2**63)


# Law 1


@few
@given(world=worlds, form=forms, root=roots)
def test_lane_independence_holds(world, form, root):
    assert check_lane_independence(form(), WorldSeeds(world), root=root).verdict == "holds"


class NearestLeft(Policy):
    """Deterministic, with a memory: spends most when it has seen much."""

    def decide(self, reference, internal_state, mask, randomness):
        seen = internal_state["seen"] + reference["past"].astype(np.float64).sum(axis=-1)
        return Decision((seen > 4.0).astype(np.int64) * 2, {"seen": seen})

    def initial_internal_state(self, num_lanes):
        return {"seen": np.zeros(num_lanes)}


@few
@given(world=worlds, form=forms)
def test_lane_independence_holds_for_a_policy_with_a_memory(world, form):
    assert check_lane_independence(form(), WorldSeeds(world), policy=NearestLeft()).verdict == "holds"


class CountingSpend(Spend):
    """Planted: the simulator remembers how often it was called."""

    calls = 0

    def step(self, state, command):
        self.calls += 1
        stepped = super().step(state, command)
        return replace(stepped, outcome=replace(stepped.outcome, price=stepped.outcome.price + self.calls))


class ColumnBargain(Bargain):
    """Planted: sums over an axis that is not contiguous: NumPy adds up in another order when there is one lane."""

    def reward(self, outcome, status):
        columns = np.ascontiguousarray(np.repeat(outcome.window, 50, axis=1).T)
        return outcome.spent + columns.T.sum(axis=-1)


class MatrixBargain(Bargain):
    """Planted: a matrix product across lanes, whose last bits depend on the number of rows."""

    def reward(self, outcome, status):
        wide = np.tile(outcome.window, (1, 20)) + outcome.spent[:, None]
        return wide @ np.linspace(0.1, 0.9, wide.shape[1])


class SharedSpendOnce(SpendOnce):
    """Planted: episodes share a class attribute."""

    total = 0.0

    def step(self, action):
        super().step(action)
        SharedSpendOnce.total += self.spent
        self.price += SharedSpendOnce.total


@pytest.mark.parametrize(
    "parts",
    [
        spend_parts(simulator=CrowdedSpend()),
        spend_parts(simulator=CountingSpend()),
        spend_parts(reward=WeightedReward({"bargain": (ColumnBargain(), 1.0)})),
        spend_parts(reward=WeightedReward({"bargain": (MatrixBargain(), 1.0)})),
        looped_spend_parts(SharedSpendOnce),
    ],
    ids=["crowd", "counter", "columns", "matrix product", "class attribute"],
)
def test_planted_dependence_on_neighbours_is_found(parts):
    with pytest.raises(LawError, match="lane independence: an episode must depend on its seed alone"):
        check_lane_independence(parts, spend_seeds(9))


class HerdPolicy(Policy):
    """Planted: follows the mean of all lanes."""

    def decide(self, reference, internal_state, mask, randomness):
        is_busy = reference["past"].mean() > 0.25
        return Decision(np.full(len(reference["left"]), 2 if is_busy else 1))


def test_planted_dependence_of_a_policy_is_found():
    with pytest.raises(LawError, match="lane independence"):
        check_lane_independence(spend_parts(), spend_seeds(9), policy=HerdPolicy())


# Law 2


@few
@given(world=worlds, change=st.sampled_from([7.0, 0.0, 1.5]), root=roots)
def test_no_look_ahead_holds(world, change, root):
    verdict = check_no_look_ahead(spend_parts(), WorldSeeds(world), spend_perturbed(world, change), root=root).verdict
    assert verdict == "holds"


class PeekingSpend(Spend):
    """Planted: the mask of the past is one step late."""

    def view(self, state):
        return super().view(replace(state, step=state.step + 1))


class PeekingAction(SpendAction):
    """Planted: what is spent depends on the next price."""

    def __init__(self, world) -> None:
        self._world = world

    def interpret(self, view, action, status):
        next_price = self._world[status.seed_id, 1 + 4 * status.step]
        return super().interpret(view, action, status) / (1 + next_price)


def test_planted_look_ahead_of_a_view_is_found():
    world = random_world(0, 4)

    def perturb(seed_id, now):
        parts, seeds = spend_perturbed(world)(seed_id, now)
        return replace(parts, simulator=PeekingSpend()), seeds

    # The step number in the view is beyond its space at the end, so the space is widened.
    class WideObservation(SpendObservation):
        observation_space = spaces.Dict({**SpendObservation.observation_space.spaces, "step": spaces.Discrete(MAX_STEPS + 2)})

    def widened(seed_id, now):
        parts, seeds = perturb(seed_id, now)
        return replace(parts, state_interpreter=WideObservation()), seeds

    parts = spend_parts(simulator=PeekingSpend(), state_interpreter=WideObservation())
    with pytest.raises(LawError, match=r"no look-ahead: what is known at step 0 must not depend .* view\.past|\['view'\]\.past"):
        check_no_look_ahead(parts, WorldSeeds(world), widened)


def test_planted_look_ahead_of_a_command_is_found():
    world = random_world(0, 4)

    def perturb(seed_id, now):
        parts, seeds = spend_perturbed(world)(seed_id, now)
        return replace(parts, action_interpreter=PeekingAction(seeds.world)), seeds

    with pytest.raises(LawError, match=r"no look-ahead: .*command"):
        check_no_look_ahead(spend_parts(action_interpreter=PeekingAction(world)), WorldSeeds(world), perturb)


def test_look_ahead_is_not_checked_without_a_perturbation_or_with_one_that_changes_nothing():
    world = random_world(0, 3)
    assert check_no_look_ahead(spend_parts(), WorldSeeds(world), None).verdict == "not checked"
    result = check_no_look_ahead(spend_parts(), WorldSeeds(world), lambda seed_id, now: (spend_parts(), WorldSeeds(world)))
    assert result.verdict == "not checked" and "proves nothing" in result.detail


# Law 3


@few
@given(world=worlds, root=roots)
def test_conservation_holds(world, root):
    assert check_conservation(spend_parts(), WorldSeeds(world), spend_balance, root=root).verdict == "holds"


class LeakySpend(Spend):
    """Planted: a thousandth of what is spent is lost."""

    def step(self, state, command):
        stepped = super().step(state, command)
        return replace(stepped, state=replace(stepped.state, paid=stepped.state.paid * 0.999))


def test_planted_leak_is_found():
    with pytest.raises(LawError, match=r"conservation: left \+ paid - budget must be 0 within 1e-09, was -0\.000"):
        check_conservation(spend_parts(simulator=LeakySpend()), spend_seeds(), spend_balance)
    assert check_conservation(spend_parts(), spend_seeds(), None).verdict == "not checked"


# Law 4


@few
@given(world=worlds, form=forms, root=roots)
def test_exactly_once_holds(world, form, root):
    assert check_exactly_once(form(), WorldSeeds(world), root=root).verdict == "holds"


class SortingSeeds(WorldSeeds):
    """Planted: gives the seeds in its own order."""

    def take(self, seed_ids):
        return super().take(np.sort(seed_ids))


class FilteringSeeds(WorldSeeds):
    """Planted: leaves small budgets out."""

    def take(self, seed_ids):
        taken = super().take(seed_ids)
        return taken[taken[:, 0] > 3]


class ForgetfulBackend(InlineBackend):
    """Planted: loses the last episode."""

    def run(self, job, recorders=()):
        result = run_chunk(job, 0, len(job.seed_id) - 1, recorders)
        return JobResult(merge_episodes([result.episodes]), result.failures)


class RepeatingBackend(InlineBackend):
    """Planted: runs everything twice and keeps one result."""

    def run(self, job, recorders=()):
        super().run(job, recorders)
        return super().run(job, recorders)


@pytest.mark.parametrize("kind", [SortingSeeds, FilteringSeeds])
def test_planted_seed_set_out_of_order_is_found(kind):
    with pytest.raises(LawError, match="exactly once: take must give"):
        check_exactly_once(spend_parts(), kind(random_world(0, 9)))


def test_planted_loss_of_a_row_is_found():
    assert check_exactly_once(spend_parts(), spend_seeds(), backend=InlineBackend()).verdict == "holds"
    with pytest.raises(ContractError, match="a result must have one row for each of 10 seeds, had 9"):
        check_exactly_once(spend_parts(), spend_seeds(), backend=ForgetfulBackend())


def test_planted_repetition_is_found():
    with pytest.raises(LawError, match="exactly once: every seed must be started once for each row"):
        check_exactly_once(spend_parts(), spend_seeds(), backend=RepeatingBackend())
