"""Laws 5 to 7, inside a step, and the report: each holds on a small task, and its check finds a planted violation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlcore.contracts import LaneStep, StateInterpreter, WeightedReward
from rlcore.environment.conformance import (
    LawError,
    check_components_add_up,
    check_finished_lanes_frozen,
    check_parts,
    check_truthful_spaces,
)
from tests.environment_toys import (
    Bargain,
    CrowdedSpend,
    Haste,
    Spend,
    SpendAction,
    SpendObservation,
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


# Law 5


@few
@given(world=worlds, form=forms, root=roots)
def test_components_add_up(world, form, root):
    assert check_components_add_up(form(), WorldSeeds(world), root=root).verdict == "holds"


class BonusReward(WeightedReward):
    """Planted: a bonus that no component shows."""

    def total(self, components):
        return WeightedReward.total(self, components) + 0.01


class TiredBargain(Bargain):
    """Planted: pays less each time it is asked."""

    asked = 0

    def reward(self, outcome, status):
        self.asked += 1
        return super().reward(outcome, status) / self.asked


@pytest.mark.parametrize(
    ("reward", "what"),
    [
        (BonusReward({"bargain": (Bargain(), 1.0), "haste": (Haste(), -1.0)}), "reward of a step must be Σ weight × component"),
        (WeightedReward({"bargain": (TiredBargain(), 1.0)}), "must depend on outcome and status alone"),
    ],
)
def test_planted_reward_that_does_not_add_up_is_found(reward, what):
    with pytest.raises(LawError, match=f"components add up: .*{what}"):
        check_components_add_up(spend_parts(reward=reward), spend_seeds())


# Law 6


@few
@given(world=worlds, form=forms, root=roots)
def test_spaces_are_truthful(world, form, root):
    assert check_truthful_spaces(form(), WorldSeeds(world), root=root).verdict == "holds"


class LateObservation(SpendObservation):
    """Planted: compressed, and wrong in the last lane only, where the engine's sampling does not look."""

    is_compressing = True

    def expand(self, reference):
        left = reference["left"].copy()
        if len(left) > 1:
            left[-1] = 2.0
        return {**reference, "left": left}


class DoubleObservation(SpendObservation):
    """Planted: float64 where float32 is declared."""

    def interpret(self, view, status):
        return {**super().interpret(view, status), "past": view.past}


class ForgetfulObservation(SpendObservation):
    """Planted: a random number in the observation."""

    def interpret(self, view, status):
        return {**super().interpret(view, status), "left": np.random.default_rng().uniform(size=len(view.left))}


class OpenObservation(SpendObservation):
    """Planted: not a number."""

    def interpret(self, view, status):
        return {**super().interpret(view, status), "left": np.where(view.step > 1, np.nan, view.left)}


class PickyAction(SpendAction):
    """Planted: declares an action that it refuses."""

    action_space = spaces.Discrete(4)

    def interpret(self, view, action, status):
        if (action == 3).any():
            raise ValueError("no such fraction")
        return super().interpret(view, action, status)


class EmptyMask(SpendAction):
    """Planted: in the end nothing is allowed."""

    def mask(self, view, status):
        return np.repeat((view.step < 2)[:, None], 3, axis=1)


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"state_interpreter": LateObservation()}, r"observation\['left'\] must lie in \[0.0, 1.0\], was 2.0"),
        ({"state_interpreter": DoubleObservation()}, r"observation\['past'\] must be of its space's type float32, was float64"),
        ({"state_interpreter": ForgetfulObservation()}, "interpret must give the observation that the policy reads"),
        ({"state_interpreter": OpenObservation()}, r"observation\['left'\] must lie in \[0.0, 1.0\], was nan"),
        ({"action_interpreter": PickyAction()}, "every action of the space must be accepted, .* ValueError: no such fraction"),
        ({"action_interpreter": EmptyMask()}, ".*must leave at least one action possible"),
    ],
)
def test_planted_untruth_about_a_space_is_found(changed, what):
    with pytest.raises(LawError, match=f"truthful spaces: {what}"):
        check_truthful_spaces(spend_parts(**changed), spend_seeds())


class WideOnceObservation(StateInterpreter):
    observation_space = spaces.Box(0.0, 0.5, (), np.float64)

    def interpret(self, state, status):
        return state["left"]


def test_planted_untruth_of_one_episode_parts_is_found():
    parts = looped_spend_parts(state_interpreter=WideOnceObservation())
    verdict = {result.law: result.verdict for result in check_parts(parts, spend_seeds()).results}
    assert verdict["truthful spaces"] == "violated"


# Law 7


@few
@given(world=worlds, form=forms, root=roots)
def test_finished_lanes_are_frozen(world, form, root):
    assert check_finished_lanes_frozen(form(), WorldSeeds(world), root=root).verdict == "holds"


class MutatingSpend(Spend):
    """Planted: changes the state that it was given."""

    def step(self, state, command):
        stepped = super().step(state, command)
        state.left[:] = stepped.state.left
        return stepped


class BufferedMetrics(Spend):
    """Planted: metrics come from the last call, not from the state."""

    last = 0.0

    def step(self, state, command):
        stepped = super().step(state, command)
        self.last += float(stepped.state.paid.sum())
        return stepped

    def metrics(self, state):
        return {"paid": np.full(len(state.left), self.last)}


class EndlessSpend(Spend):
    """Planted: says max_steps and goes on."""

    def step(self, state, command):
        stepped = super().step(state, command)
        never = np.zeros(len(state.left), bool)
        return replace(stepped, terminated=never, truncated=never, state=replace(stepped.state, step=state.step * 0))


class IntegerFlags(Spend):
    """Planted: flags that are numbers."""

    def step(self, state, command):
        stepped = super().step(state, command)
        return LaneStep(stepped.state, stepped.outcome, stepped.terminated.astype(np.int64), stepped.truncated.astype(np.int64))


class LosingSpend(Spend):
    """Planted: does not start what is small."""

    def start(self, seeds):
        return super().start(seeds[seeds[:, 0] > 3])


@pytest.mark.parametrize(
    ("simulator", "what"),
    [
        (MutatingSpend(), r"the state before a step must stay as it is, changed: state\."),
        (BufferedMetrics(), r"a finished lane must stay as it is, changed: metrics\['paid'\]"),
        (EndlessSpend(), "every episode must end within max_steps = 6"),
        (IntegerFlags(), "terminated of the simulator must be bool"),
        (LosingSpend(), "start must give one lane for each of 10 seeds"),
    ],
)
def test_planted_change_of_a_frozen_state_is_found(simulator, what):
    with pytest.raises(LawError, match=f"frozen lanes: {what}"):
        check_finished_lanes_frozen(spend_parts(simulator=simulator), spend_seeds())


# The report


def test_the_report_names_every_law_once_with_its_verdict():
    seeds = spend_seeds()
    report = check_parts(spend_parts(), seeds, perturb_future=spend_perturbed(seeds.world), balance=spend_balance)
    assert [result.law for result in report.results] == [
        "truthful spaces",
        "lane independence",
        "frozen lanes",
        "no look-ahead",
        "conservation",
        "exactly once",
        "components add up",
    ]
    assert {result.verdict for result in report.results} == {"holds"}
    report.raise_if_violated()


def test_the_report_collects_violations_and_goes_on():
    parts = spend_parts(simulator=CrowdedSpend(), reward=BonusReward({"bargain": (Bargain(), 1.0)}))
    report = check_parts(parts, spend_seeds())
    assert {result.law for result in report.violations} == {"lane independence", "components add up"}
    with pytest.raises(LawError, match=r"lane independence: violated .*; components add up: violated"):
        report.raise_if_violated()
    assert "conservation: not checked (the task offers no balance" in str(report)
