"""Evaluation: every seed exactly once, in order; a seed that raises has a row of its own; the table adds up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rlcore.contracts import Decision, Policy, SequenceSeedSet, WeightedReward
from rlcore.environment.evaluation import evaluate
from rlcore.environment.random_actions import RandomActions, SameAction
from rlcore.foundation.errors import ConfigError, ContractError, EvaluationError, SpaceError
from rlcore.foundation.random_streams import RandomStreams
from tests.environment_toys import (
    Bargain,
    Haste,
    Spend,
    SpendAction,
    SpendOnce,
    WorldSeeds,
    looped_spend_parts,
    random_world,
    spend_parts,
    spend_seeds,
)

BAD = (3, 11)


class FussySpend(Spend):
    """Raises at the second step of seeds whose budget is a bad number."""

    def step(self, state, command):
        is_bad = (state.step == 1) & (state.budget == 666.0)
        if is_bad.any():
            raise ValueError(f"budget {state.budget[is_bad][0]:g}\nis a bad number")
        return super().step(state, command)


class FussySpendOnce(SpendOnce):
    def step(self, action):
        if self.now == 1 and self.budget == 666.0:
            raise ValueError("budget 666\nis a bad number")
        super().step(action)


class UnopenedSpendOnce(SpendOnce):
    def __init__(self, initial) -> None:
        if initial[0] == 666.0:
            raise OSError("cannot open")
        super().__init__(initial)


def world_with_bad_seeds(count=17):
    world = random_world(0, count)
    world[list(BAD), 0] = 666.0
    return world


def run(parts, seeds, policy=None, num_lanes=5, **settings):
    policy = policy or SameAction(SpendAction.action_space, 1)
    return evaluate(parts, policy, seeds, RandomStreams(0), "test", num_lanes, **settings)


failing = pytest.mark.parametrize(
    ("parts", "error"),
    [
        (spend_parts(simulator=FussySpend()), "ValueError: budget 666 is a bad number"),
        (looped_spend_parts(FussySpendOnce), "ValueError: budget 666 is a bad number"),
        (looped_spend_parts(UnopenedSpendOnce), "OSError: cannot open"),
    ],
    ids=["lanes", "looped", "looped at the start"],
)


@failing
@pytest.mark.parametrize("num_lanes", [1, 4, 100])
def test_a_seed_that_raises_gives_one_failed_row_and_leaves_the_others_alone(parts, error, num_lanes):
    world = world_with_bad_seeds()
    table = run(parts, WorldSeeds(world), num_lanes=num_lanes, allow_failed="keep")
    healthy = run(spend_parts(), WorldSeeds(world), num_lanes=num_lanes)
    assert table["seed_id"].tolist() == list(range(17))
    assert np.flatnonzero(table.is_failed).tolist() == list(BAD)
    assert [table["error"][seed_id] for seed_id in BAD] == [error, error]
    is_ok = ~table.is_failed
    for name in table.columns:
        np.testing.assert_array_equal(table[name][is_ok], healthy[name][is_ok])
    for name in ("return", "reward/bargain", "component/haste", "left_fraction"):
        assert np.isnan(table[name][list(BAD)]).all()
    assert table.summary()["num_failed"] == 2.0


@failing
def test_failed_rows_are_refused_unless_told_otherwise(parts, error):
    with pytest.raises(EvaluationError, match=f"test must have no failed rows, seed 3 raised {error}") as caught:
        run(parts, WorldSeeds(world_with_bad_seeds()))
    assert type(caught.value.__cause__).__name__ == error.split(":")[0]
    assert "raised by the episode of seed 3" in caught.value.__cause__.__notes__


def test_a_table_of_failed_rows_only_is_a_table():
    world = world_with_bad_seeds()[[3, 11]]
    table = run(spend_parts(simulator=FussySpend()), WorldSeeds(world), allow_failed="keep")
    assert table["status"].tolist() == ["failed", "failed"] and np.isnan(table["reward/haste"]).all()
    assert table.summary() == {"num_episodes": 2.0, "num_failed": 2.0}


class Wild(Policy):
    """Leaves the action space for one seed."""

    def decide(self, reference, internal_state, mask, randomness):
        return Decision(np.where(np.isclose(reference["past"].sum(axis=-1), 0), 1, 7))


def test_what_is_raised_by_lanes_together_and_by_none_apart_is_not_hidden():
    class Crowded(Spend):
        def step(self, state, command):
            if len(state.left) > 1:
                raise ValueError("too many lanes")
            return super().step(state, command)

    for allow_failed in ("keep", "refuse"):
        with pytest.raises(ValueError, match="too many lanes") as caught:
            run(spend_parts(simulator=Crowded()), spend_seeds(8), allow_failed=allow_failed)
        assert "together, by none of them apart" in caught.value.__notes__[0]


def test_an_action_outside_its_space_is_a_failure_of_its_seed():
    with pytest.raises(EvaluationError, match=r"seed 0 raised .*SpaceError: action must lie in \{0, …, 2\}, was 7") as caught:
        run(spend_parts(), spend_seeds(3), Wild())
    assert isinstance(caught.value.__cause__, SpaceError)


class OneRow(Policy):
    def decide(self, reference, internal_state, mask, randomness):
        return Decision(np.ones(1, np.int64))


def test_a_policy_that_answers_with_too_few_rows_is_refused():
    with pytest.raises(EvaluationError, match="a decision must have the 5 rows that it was asked for, had 1"):
        run(spend_parts(), spend_seeds(3), OneRow())


class Steps:
    """Records which seed took which step."""

    def __init__(self) -> None:
        self.seen = []

    def record(self, lanes, transition):
        self.seen += zip(lanes.status.seed_id.tolist(), lanes.status.step.tolist(), transition.reward.tolist(), strict=True)


def test_recorders_see_every_step_of_successful_episodes_once():
    recorder = Steps()
    seeds = WorldSeeds(world_with_bad_seeds())
    table = run(spend_parts(simulator=FussySpend()), seeds, recorders=(recorder,), allow_failed="keep")
    keys = [(seed_id, step) for seed_id, step, _ in recorder.seen]
    is_ok = ~table.is_failed
    assert len(keys) == len(set(keys)) == table["num_steps"][is_ok].sum()
    assert not {seed_id for seed_id, _ in keys} & set(BAD)
    for seed_id in table["seed_id"][is_ok]:
        assert sum(reward for own, _, reward in recorder.seen if own == seed_id) == table["return"][seed_id]


def test_columns_add_up_to_the_closed_form():
    # One price of 2 in the first step, 1 afterwards; half the budget at once, half in the second step.
    prices = np.ones(24)
    prices[:4] = 2.0
    seeds = WorldSeeds(np.concatenate([[8.0], prices])[None])
    table = run(spend_parts(), seeds, SameAction(SpendAction.action_space, 2))
    mean = (4 * 2 + 20 * 1) / 24
    bargain = 0.5 * (mean - 8.0) + 0.5 * (mean - 4.0)  # a step's price is the sum of its four
    assert table["component/bargain"][0] == pytest.approx(bargain, rel=1e-12)
    assert table["component/haste"][0] == 0.5**2 + 0.5**2
    assert table["reward/bargain"][0] == pytest.approx(1.5 * bargain, rel=1e-12)
    assert table["reward/haste"][0] == -0.25 * 0.5
    assert table["return"][0] == pytest.approx(1.5 * bargain - 0.125, rel=1e-12)
    assert (table["num_steps"][0], table["budget"][0], table["left_fraction"][0]) == (2, 8.0, 0.0)
    assert not table["is_truncated"][0]


def test_truncated_is_not_terminated():
    table = run(spend_parts(), spend_seeds(3), SameAction(SpendAction.action_space, 0))
    assert table["is_truncated"].all() and (table["num_steps"] == 6).all()
    assert table.summary()["truncated_fraction"] == 1.0


def test_a_seed_that_stands_there_again_has_other_random_numbers_and_each_visit_its_own_row():
    ids = np.array([4, 2, 4, 4, 0])
    table = run(spend_parts(), spend_seeds(6), RandomActions(SpendAction.action_space), seed_ids=ids)
    assert table["seed_id"].tolist() == ids.tolist()
    alone = run(spend_parts(), spend_seeds(6), RandomActions(SpendAction.action_space))
    assert table["return"][[0, 1, 4]].tolist() == alone["return"][[4, 2, 0]].tolist()
    assert len(set(table["return"][[0, 2, 3]].tolist())) == 3


def test_the_phase_has_random_numbers_of_its_own():
    policy = RandomActions(SpendAction.action_space)
    tables = [evaluate(spend_parts(), policy, spend_seeds(20), RandomStreams(0), phase, 4) for phase in ("a", "b", "a")]
    assert (tables[0]["return"] == tables[2]["return"]).all() and (tables[0]["return"] != tables[1]["return"]).any()


def test_summary_speaks_of_rows_that_have_a_figure_and_counts_those_that_do_not():
    class Sometimes(Spend):
        def metrics(self, state):
            return {"late": np.where(state.budget > 4, 1.0, np.nan)}

    world = random_world(0, 4)
    world[:, 0] = [1.0, 5.0, 6.0, 2.0]
    table = run(spend_parts(simulator=Sometimes()), WorldSeeds(world))
    summary = table.summary()
    assert (summary["late/mean"], summary["late/std"], summary["late/num_missing"]) == (1.0, 0.0, 2.0)
    assert "return/num_missing" not in summary and all(np.isfinite(list(summary.values())))
    assert summary["return/mean"] == pytest.approx(table["return"].mean())


def test_the_frame_has_the_columns_in_their_order():
    frame = run(spend_parts(), spend_seeds(3)).to_frame()
    assert list(frame.columns) == [
        *("seed_id", "status", "error", "num_steps", "return", "is_truncated"),
        *("reward/bargain", "reward/haste", "component/bargain", "component/haste", "left_fraction", "budget"),
    ]
    assert len(frame) == 3


def test_misuse_is_refused():
    with pytest.raises(ConfigError, match=r"seed_ids must lie in \{0, …, 9\}, was 10"):
        run(spend_parts(), spend_seeds(10), seed_ids=np.array([1, 10]))
    with pytest.raises(ConfigError, match="num_lanes must be 1 or more, was 0"):
        run(spend_parts(), spend_seeds(3), num_lanes=0)
    with pytest.raises(KeyError, match="did you mean 'return'"):
        run(spend_parts(), spend_seeds(3))["retrun"]

    class Clash(Spend):
        def metrics(self, state):
            return {"budget": state.budget}

    with pytest.raises(ContractError, match=r"column of the seed set must have a name of its own .*, was 'budget'"):
        run(spend_parts(simulator=Clash()), spend_seeds(3))


def test_no_seeds_give_an_empty_table():
    assert len(run(spend_parts(), spend_seeds(3), seed_ids=np.zeros(0, np.int64))) == 0


def test_a_reward_that_is_not_finite_names_term_seed_and_step():
    class Broken(Bargain):
        def reward(self, outcome, status):
            return np.where(status.step == 2, np.nan, super().reward(outcome, status))

    parts = replace(spend_parts(), reward=WeightedReward({"fine": (Haste(), 1.0), "broken": (Broken(), 1.0)}))
    with pytest.raises(EvaluationError, match="reward term 'broken' must be finite, was nan for seed 0 at step 2"):
        run(parts, spend_seeds(3))


def test_lazily_loaded_seeds_fail_one_by_one():
    class Files:
        def __len__(self):
            return 5

        def __getitem__(self, index):
            if index == 2:
                raise FileNotFoundError("order 2")
            return random_world(index, 1)[0]

    table = run(looped_spend_parts(), SequenceSeedSet(Files()), allow_failed="keep")
    assert table["error"].tolist() == ["", "", "FileNotFoundError: order 2", "", ""]
