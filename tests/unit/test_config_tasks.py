"""Experiments on tasks of one's own: how a file describes one, what is refused in which words, and what it becomes."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from flows.cli.experiments import shipped_experiments
from flows.cli.init import TASK_EXPERIMENT_TEXT, TASK_PLUGIN
from rlcore.config.build import build_task, build_vessel
from rlcore.config.estimate import estimate
from rlcore.config.loading import load_experiment, make_registry, parse_experiment
from rlcore.config.task_experiment import TaskExperiment
from rlcore.environment import EnvWrapper, SameAction, evaluate
from rlcore.foundation.errors import ConfigError, DataError
from rlcore.foundation.random_streams import RandomStreams

# A task given whole: three lanes' worth of arithmetic, no one-episode parts. Reaching the target in one step pays 1.
WHOLE_TASK = """\
from typing import Literal
import numpy as np
from gymnasium import spaces
from pydantic import Field
from rlcore.config import Task, TaskSeeds, TaskSpec, field_class
from rlcore.contracts import (
    LaneActionInterpreter, LaneReward, LaneSimulator, LaneStateInterpreter, LaneStep, SequenceSeedSet, WeightedReward,
)
from rlcore.environment import EnvironmentParts


class Guess(LaneSimulator):
    max_steps = 1
    def start(self, seeds):
        return np.array([int(seed) for seed in seeds])
    def view(self, state):
        return state
    def step(self, state, command):
        ended = np.ones(len(state), bool)
        return LaneStep(state, (state == command).astype(float), ended, np.zeros(len(state), bool))


class Shown(LaneStateInterpreter):
    observation_space = spaces.Discrete(2)
    def interpret(self, view, status):
        return view


class Guessed(LaneActionInterpreter):
    action_space = spaces.Discrete(2)
    def interpret(self, view, action, status):
        return action


class Right(LaneReward):
    def reward(self, outcome, status):
        return outcome


class GuessSpec(TaskSpec):
    '''Say what is shown.'''
    kind: Literal["guess"]
    count: int = Field(4, json_schema_extra=field_class("data"))

    def build(self, space_checks):
        parts = EnvironmentParts(Guess(), Shown(), Guessed(), WeightedReward({"right": (Right(), 1.0)}), None, space_checks)
        seeds = SequenceSeedSet([position % 2 for position in range(self.count)])
        return Task(parts, TaskSeeds(seeds, seeds, seeds))


def register(registry):
    registry.register("task", "guess", GuessSpec)
"""


# Beside a task of which everything else stands in another plugin: how far home was from where each step ended.
AUXILIARY = """\
from typing import Literal
from rlcore.config import EpisodeAuxiliarySpec
from rlcore.contracts import AuxiliaryInfo

class Distance(AuxiliaryInfo):
    def collect(self, state, status):
        return {"distance": abs(state)}

class DistanceSpec(EpisodeAuxiliarySpec):
    '''How far home is.'''
    kind: Literal["distance"]
    def build(self, shape):
        return Distance()

def register(registry):
    registry.register("auxiliary", "distance", DistanceSpec)
"""

# A term that is made of two.
NESTED = """\
from typing import Literal
from rlcore.config import EpisodeRewardSpec
from rlcore.contracts import Reward

class Constant(Reward):
    def __init__(self, value):
        self.value = value
    def reward(self, outcome, status):
        return self.value

class TollSpec(EpisodeRewardSpec):
    '''What the road and the bridge take.'''
    kind: Literal["toll"]
    def build(self, shape):
        return {"road": (Constant(-1.0), 2.0), "bridge": (Constant(-4.0), 0.5)}

def register(registry):
    registry.register("reward", "toll", TollSpec)
"""


def load(file: Path, *overrides: str) -> TaskExperiment:
    experiment = load_experiment(file, overrides)
    assert isinstance(experiment, TaskExperiment)
    return experiment


def refusal(file: Path, *overrides: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_experiment(file, overrides)
    return str(caught.value)


def test_a_file_becomes_parts_and_seed_sets(file: Path) -> None:
    task = build_task(load(file, "task.simulator.wall=12"))
    assert task.parts.reward.weights == {"arrival": 1.0, "effort": 0.05}
    assert task.parts.simulator.max_steps == 30
    assert not isinstance(task.seeds.validation, dict)
    assert list(task.seeds.validation.take(np.arange(2))) == [-9, 6]  # type: ignore[union-attr]  # one set


def test_other_parts_know_the_simulator(file: Path) -> None:
    """The walls stand once in the file; the observation is scaled by them: at the wall it is -1 or 1, its bounds."""
    experiment = load(file, "task.simulator.wall=40", "task.seeds.train={kind: values, initial_states: [40, -20]}")
    task = build_task(experiment)
    environment = EnvWrapper(task.parts, task.seeds.train)
    seen = {float(environment.reset(seed=seed)[0][0]) for seed in range(20)}
    assert seen == {1.0, -0.5}


def test_a_task_can_be_given_whole_and_for_lanes(file: Path, tmp_path: Path) -> None:
    (tmp_path / "guess_task.py").write_text(WHOLE_TASK)
    experiment = load(file, f"plugins=[{tmp_path / 'guess_task.py'}]", "task={kind: guess, count: 6}")
    assert experiment.fields("data") == {"task.count": 6}
    task = build_task(experiment)
    assert (len(task.seeds.train), task.parts.space_checks) == (6, "all_episodes")
    # Half of the seeds show 0 and pay for the answer 0.
    table = evaluate(
        task.parts, SameAction(task.parts.action_interpreter.action_space, 0), task.seeds.test, RandomStreams(0), "test", 4
    )
    assert table.summary()["return/mean"] == 0.5


def test_a_term_may_be_made_of_several(file: Path, tmp_path: Path) -> None:
    (tmp_path / "toll.py").write_text(NESTED)
    plugins = f"plugins=[{tmp_path / TASK_PLUGIN}, {tmp_path / 'toll.py'}]"
    task = build_task(load(file, plugins, "task.reward.toll={kind: toll, weight: 0.1}", "task.seeds.test.initial_states=[3]"))
    assert task.parts.reward.weights == {"arrival": 1.0, "effort": 0.05, "toll.road": 0.2, "toll.bridge": 0.05}
    action = SameAction(task.parts.action_interpreter.action_space, 0)
    summary = evaluate(task.parts, action, task.seeds.test, RandomStreams(0), "test", 1).summary()
    # Three steps home; each pays 0.05 of effort, 0.1 · 2 · 1 to the road and 0.1 · 0.5 · 4 to the bridge.
    paid = {name: summary[f"reward/{name}/mean"] for name in ("arrival", "effort", "toll.road", "toll.bridge")}
    assert paid == pytest.approx({"arrival": 1.0, "effort": -0.15, "toll.road": -0.6, "toll.bridge": -0.6})
    assert summary["return/mean"] == pytest.approx(-0.35)


def test_auxiliary_figures_stand_in_the_episode_table(file: Path, tmp_path: Path) -> None:
    (tmp_path / "distance_info.py").write_text(AUXILIARY)
    plugins = f"plugins=[{tmp_path / TASK_PLUGIN}, {tmp_path / 'distance_info.py'}]"
    seeds = "task.seeds.test.initial_states=[3, -3]"
    task = build_task(load(file, plugins, "task.auxiliary={kind: distance}", "task.max_steps=3", seeds))
    table = evaluate(
        task.parts, SameAction(task.parts.action_interpreter.action_space, 0), task.seeds.test, RandomStreams(0), "test", 2
    )
    # Always a step to the left: from 3 over 2 and 1 to 0, from -3 over -4 and -5 to -6.
    assert list(table["auxiliary/distance"]) == [1.0, 5.0]


@pytest.mark.parametrize("key", ["market", "orders", "split", "execution", "observation", "action", "reward"])
def test_the_two_forms_are_never_mixed(file: Path, key: str) -> None:
    file.write_text(f"{TASK_EXPERIMENT_TEXT}\n{key}: {{kind: something}}\n")
    line = TASK_EXPERIMENT_TEXT.count("\n") + 2
    assert refusal(file).startswith(f"{file} line {line}: {key} must not stand beside task, stood there")


def test_an_override_that_mixes_the_forms_is_named() -> None:
    with pytest.raises(ConfigError, match=r"--set task.kind=parts: market must not stand beside task|market must not stand"):
        load_experiment(shipped_experiments()["demo"], ["task.kind=parts"])


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("task.simulator.wal=3", "task.simulator.wal must be a known key, is none (did you mean 'wall'?)"),
        ("task.observation.kind=current_step", "task.observation.kind must be 'position', was 'current_step'"),
        (
            "task.reward.arrival.kind=arival",
            "task.reward.arrival.kind must be one of arrival, effort, was 'arival' (did you mean 'arrival'?)",
        ),
        (
            "task.seeds.validation={near: {kind: integers, first: 1.5, count: 2}}",
            "task.seeds.validation.near.first must be a whole number, was 1.5",
        ),
        (
            "task.seeds.validation={near: {kind: intgers, count: 2}}",
            "task.seeds.validation.near.kind must be one of values, integers, rows, was 'intgers' (did you mean 'integers'?)",
        ),
        ("task.seeds.validation={}", "task.seeds.validation must hold at least 1, was {}"),
        (
            "task.seeds.validation.count=1",
            "task.seeds.validation.count must be a known key, is none: known here are kind, initial_states",
        ),
        ("task.kind=walk", "task.kind must be 'parts', was 'walk'"),
        ("task.max_steps=0", "task.max_steps must be at least 1, was 0"),
        ("task.at_max_steps=stop", "task.at_max_steps must be 'fail' or 'truncate', was 'stop'"),
        ("evaluation.baselines=[twap]", "evaluation.baselines must be a known key, is none: known here are lanes"),
    ],
)
def test_what_does_not_fit_is_named_with_rule_and_value(file: Path, override: str, expected: str) -> None:
    assert refusal(file, override) == f"--set {override}: {expected}"


def test_without_a_plugin_it_is_said_where_parts_come_from(file: Path) -> None:
    message = refusal(file, "plugins=[]")
    assert "task.simulator must be of a kind that a plugin registers, and none is registered: name the plugin's file" in message
    assert len(message.splitlines()) == 5  # simulator, observation, action, two rewards


def test_a_part_for_the_other_form_is_refused_and_says_what_it_could_derive_from(tmp_path: Path) -> None:
    text = WHOLE_TASK.replace('register("task", "guess"', 'register("reward", "guess"')
    (tmp_path / "misplaced_task.py").write_text(text)
    with pytest.raises(ConfigError, match="must be a class derived from RewardSpec or EpisodeRewardSpec, was"):
        make_registry_and_forms(tmp_path / "misplaced_task.py")


def make_registry_and_forms(plugin: Path) -> None:
    from rlcore.config.forms import ExperimentForms

    ExperimentForms(make_registry([str(plugin)]))


def test_seeds_can_be_written_counted_or_read(file: Path, tmp_path: Path) -> None:
    pd.DataFrame({"start": [3, -4], "name": ["a", "b"]}).to_csv(tmp_path / "starts.csv", index=False)
    experiment = load(
        file,
        "task.seeds.train={kind: integers, first: -2, count: 3}",
        f"task.seeds.test={{kind: rows, path: {tmp_path / 'starts.csv'}}}",
    )
    seeds = build_task(experiment).seeds
    assert list(seeds.train.take(np.arange(3))) == [-2, -1, 0]
    assert list(seeds.test.take(np.array([1, 0]))) == [{"start": -4, "name": "b"}, {"start": 3, "name": "a"}]


@pytest.mark.parametrize(("content", "expected"), [(None, "No such file"), ("a,b\n", "must hold at least one row")])
def test_rows_that_are_not_there_are_refused(file: Path, tmp_path: Path, content: str | None, expected: str) -> None:
    if content is not None:
        (tmp_path / "starts.csv").write_text(content)
    experiment = load(file, f"task.seeds.test={{kind: rows, path: {tmp_path / 'starts.csv'}}}")
    with pytest.raises(DataError, match=expected):
        build_task(experiment)


def test_several_validation_sets_go_by_their_names(file: Path) -> None:
    near, far = "near: {kind: values, initial_states: [1, 2]}", "far: {kind: values, initial_states: [9, 10]}"
    experiment = load(file, f"task.seeds.validation={{{near}, {far}}}")
    task = build_task(experiment)
    vessel = build_vessel(experiment, task.parts, task.seeds, seed=0)
    assert {phase: len(seeds) for phase, seeds in vessel.validation_sets.items()} == {"validation/near": 2, "validation/far": 2}
    assert parse_experiment(experiment.to_plain()).to_plain() == experiment.to_plain()


@pytest.mark.parametrize(
    ("override", "moved"),
    [
        ("task.seeds.test.initial_states=[1]", "data"),
        ("task.simulator.wall=11", "training"),
        ("task.reward.effort.weight=0.1", "training"),
        ("task.at_max_steps=fail", "training"),
        ("evaluation.lanes=3", "evaluation"),
    ],
)
def test_a_change_moves_the_digest_of_its_class_alone(file: Path, override: str, moved: str) -> None:
    before, after = load(file), load(file, override)
    classes = ("data", "training", "budget", "evaluation", "runtime")
    assert [name for name in classes if before.digest(name) != after.digest(name)] == [moved]  # type: ignore[arg-type]


def test_it_survives_pickling_and_plain_data(file: Path) -> None:
    experiment = load(file)
    for copy in (pickle.loads(pickle.dumps(experiment)), parse_experiment(experiment.to_plain())):
        assert isinstance(copy, TaskExperiment)
        assert copy.to_plain() == experiment.to_plain()


def test_an_estimate_runs_the_task_itself(file: Path) -> None:
    # From wall to wall, and nobody arrives in 30 steps: the trial's episodes all have 30 steps.
    cost = estimate(load(file, "task.seeds.train={kind: values, initial_states: [200]}", "task.simulator.wall=200"))
    assert cost is not None
    assert (cost.num_trainings, cost.steps_per_iteration) == (3, 64 * 30)
    stepwise = ["training.episodes_per_iteration=null", "training.steps_per_iteration=640", "training.lanes=16"]
    by_steps = estimate(load(file, *stepwise))
    assert by_steps is not None
    assert by_steps.steps_per_iteration == 640
