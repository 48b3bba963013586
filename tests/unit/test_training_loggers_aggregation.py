"""How steps become episodes, and episodes become metrics: every written rule against a value worked out by hand."""

import math

import numpy as np
import pytest
from gymnasium import spaces

from rlcore.contracts import ActionInterpreter, AuxiliaryInfo, Reward, SequenceSeedSet, Simulator, StateInterpreter
from rlcore.environment import SameAction, evaluate, looped_parts
from rlcore.foundation.random_streams import RandomStreams
from rlcore.training import metrics as metric_rules
from rlcore.training.metrics import episode_metrics
from rlcore.training.trainer import Trainer
from tests.training_toy import toy_vessel


class Script(Simulator):
    """An episode that goes as its initial state says: "gains" and "speeds" by step, perhaps a "score", perhaps it is "cut"."""

    def __init__(self, initial):
        self.script, self.now = initial, 0

    def step(self, action):
        if self.script.get("fails_at") == self.now:
            raise ValueError("planted")
        self.now += 1

    def get_state(self):
        return self.script["speeds"][max(self.now - 1, 0)]

    def done(self):
        return self.now == len(self.script["gains"]) and not self.truncated()

    def truncated(self):
        return self.now == len(self.script["gains"]) and self.script.get("cut", False)

    def outcome(self):
        return self.script["gains"][self.now - 1]

    def metrics(self):
        return {"score": self.script["score"]} if "score" in self.script else {}


class Nothing(StateInterpreter):
    observation_space = spaces.Discrete(1)

    def interpret(self, state, status):
        return 0


class Wait(ActionInterpreter):
    action_space = spaces.Discrete(1)

    def interpret(self, state, action, status):
        return None


class Gain(Reward):
    def reward(self, outcome, status):
        return outcome


class StepCost(Reward):
    def reward(self, outcome, status):
        return 1.0


class Speed(AuxiliaryInfo):
    def collect(self, state, status):
        return {"speed": state}


EPISODES = [
    {"gains": [1.0, 2.0], "speeds": [1.0, 3.0], "score": 10.0},  # return 2·3 - 0.5·2 = 5
    {"gains": [4.0], "speeds": [8.0]},  # 2·4 - 0.5 = 7.5
    {"gains": [0.0, 1.0, 0.0], "speeds": [0.0, 0.0, 3.0], "cut": True},  # 2·1 - 1.5 = 0.5
    {"gains": [-1.0, -1.0, 0.0, 0.0], "speeds": [2.0, 2.0, 2.0, 6.0]},  # -4 - 2 = -6
]


def metrics_of(episodes):
    reward = {"gain": (Gain(), 2.0), "cost": (StepCost(), -0.5)}
    parts = looped_parts(Script, Nothing(), Wait(), reward, max_steps=4, auxiliary=Speed())
    policy = SameAction(parts.action_interpreter.action_space, 0)
    seeds = SequenceSeedSet(episodes)
    return episode_metrics("test", evaluate(parts, policy, seeds, RandomStreams(0), "test", 2, allow_failed="keep"))


@pytest.mark.parametrize(
    ("figure", "of_episodes"),
    [
        ("num_steps", [2, 1, 3, 4]),
        ("return", [5, 7.5, 0.5, -6]),
        ("reward/gain", [6, 8, 2, -4]),  # weighted sums over an episode's steps, then over episodes
        ("reward/cost", [-1, -0.5, -1.5, -2]),
        ("component/gain", [3, 4, 1, -2]),  # the same unweighted
        ("component/cost", [2, 1, 3, 4]),
        ("auxiliary/speed", [2, 8, 1, 3]),  # the mean over an episode's steps, then over episodes: not over all steps (2.7)
    ],
)
def test_a_figure_is_the_mean_over_the_episodes(figure, of_episodes):
    metrics = metrics_of(EPISODES)
    mean = sum(of_episodes) / 4
    assert metrics[f"test/{figure}/mean"] == mean
    assert metrics[f"test/{figure}/std"] == pytest.approx(math.sqrt(sum((value - mean) ** 2 for value in of_episodes) / 4))
    assert f"test/{figure}/num_missing" not in metrics


def test_a_figure_that_few_episodes_have_is_the_mean_of_those():
    """D17: 10 in 1 of 4 episodes is 10, and three are said to lack it; QlibRL's figure was 2.5."""
    metrics = metrics_of(EPISODES)
    assert (metrics["test/score/mean"], metrics["test/score/std"], metrics["test/score/num_missing"]) == (10, 0, 3)


def test_counts_by_hand():
    metrics = metrics_of(EPISODES)
    assert (metrics["test/num_episodes"], metrics["test/num_failed"], metrics["test/truncated_fraction"]) == (4, 0, 0.25)


def test_failed_episodes_are_counted_and_take_no_part_in_any_mean():
    metrics = metrics_of([*EPISODES, {"gains": [100.0] * 4, "speeds": [100.0] * 4, "fails_at": 2}])
    assert (metrics["test/num_episodes"], metrics["test/num_failed"], metrics["test/truncated_fraction"]) == (5, 1, 0.25)
    counts = {"test/num_episodes", "test/num_failed"}
    assert {name: value for name, value in metrics_of(EPISODES).items() if name not in counts}.items() <= metrics.items()
    assert metrics["test/return/mean"] == 1.75 and metrics["test/auxiliary/speed/mean"] == 3.5
    only_failed = metrics_of([{"gains": [1.0], "speeds": [1.0], "fails_at": 0}])
    assert only_failed == {"test/num_episodes": 1, "test/num_failed": 1}


def test_the_weighted_terms_add_up_to_the_return():
    metrics = metrics_of(EPISODES)
    assert metrics["test/reward/gain/mean"] + metrics["test/reward/cost/mean"] == metrics["test/return/mean"]


def test_totals_are_sums_over_all_iterations_and_update_figures_are_the_agents():
    vessel = toy_vessel()
    steps, figures = [], []
    learn = vessel.agent.learn

    def watched(rollout):
        steps.append(int(np.sum(rollout.is_alive)))
        figures.append(learn(rollout))
        return figures[-1]

    vessel.agent.learn = watched
    metrics = Trainer(max_iters=3).fit(vessel).metrics
    assert metrics["train/total_steps"] == sum(steps) and metrics["train/total_episodes"] == 24
    assert metrics["train/num_episodes"] == 8  # of the last iteration alone
    assert metrics["train/update/loss"] == figures[-1]["loss"]


def test_the_rules_are_written_down():
    """Each figure that a training shows is spoken of where the rules stand."""
    vessel = toy_vessel()
    result = Trainer(max_iters=1, val_every_n_iters=1).fit(vessel)
    names = {*result.metrics, *metrics_of(EPISODES)}
    given = {"steps_home", "moves", "score", "progress", "effort", "gain", "cost", "speed", "loss"}  # by the task and the agent
    for part in {part for name in names for part in name.split("/")} - given:
        assert part in metric_rules.__doc__, part
