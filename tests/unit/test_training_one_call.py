"""``train`` and ``backtest``: one call each does what vessel, trainer and evaluation do, no more and no less."""

import math

import numpy as np
import pandas
import pytest

from rlcore.agents.build_agent import build_agent
from rlcore.agents.on_policy_specs import PPOSpec
from rlcore.agents.saved_policy import load_policy
from rlcore.agents.specs import MLPSpec
from rlcore.contracts import SequenceSeedSet
from rlcore.environment import RandomActions, SameAction
from rlcore.foundation.errors import CheckpointError, ConfigError, EvaluationError
from rlcore.training import (
    CheckpointWriter,
    CsvLogger,
    EarlyStopping,
    Logger,
    LogLevel,
    Trainer,
    TrainingVessel,
    backtest,
    latest_valid_checkpoint,
    train,
)
from rlcore.training.checkpoint import read_checkpoint
from tests.training_toy import HOVER_STARTS, ToyAgent, WalkSeeds, assert_same, hover_parts, walk_parts

SPEC = PPOSpec(network=MLPSpec(sizes=(8,)), learning_rate=0.01, discount=0.9, batch_size=16, num_repeats=2)
STARTS = [1, -2, 3, -4, 5]


def train_walk(**changes):
    settings = {"root_seed": 3, "num_lanes": 4, "episodes_per_iteration": 8, "max_iters": 3, **changes}
    agent = settings.pop("agent", SPEC)
    return train(walk_parts(), agent, settings.pop("initial_states", WalkSeeds(STARTS)), **settings)


def test_train_is_vessel_and_trainer_in_one_call():
    trained = train_walk(validation_states=WalkSeeds([1, -1]), val_every_n_iters=2)
    parts = walk_parts()
    spaces = parts.state_interpreter.observation_space, parts.action_interpreter.action_space
    agent = build_agent(SPEC, *spaces, parts.state_interpreter, root_seed=3, device="cpu")
    vessel = TrainingVessel(
        parts, agent, WalkSeeds(STARTS), WalkSeeds([1, -1]), num_lanes=4, episodes_per_iteration=8, root_seed=3
    )
    result = Trainer(max_iters=3, val_every_n_iters=2).fit(vessel)
    assert_same(trained.agent.state_dict(), agent.state_dict())
    assert (trained.fit.status, trained.fit.metrics) == ("completed", result.metrics)


def test_train_goes_on_from_a_checkpoint_with_everything(tmp_path):
    def fit(folder, max_iters, **settings):
        callbacks = [CheckpointWriter(folder), EarlyStopping(patience=9)]
        return train_walk(
            max_iters=max_iters, callbacks=callbacks, validation_states=WalkSeeds([1]), val_every_n_iters=1, **settings
        )

    whole = fit(tmp_path / "whole", 4)
    fit(tmp_path / "parts", 2)
    parts = fit(tmp_path / "parts", 4, resume_from=latest_valid_checkpoint(tmp_path / "parts"))
    assert_same(parts.agent.state_dict(), whole.agent.state_dict())
    assert parts.fit.metrics == whole.fit.metrics
    with pytest.raises(CheckpointError, match=r"training\.num_lanes: 4 there, 2 here"):
        fit(tmp_path / "other", 4, num_lanes=2, resume_from=latest_valid_checkpoint(tmp_path / "parts"))


def test_initial_states_may_be_any_sequence():
    class Lazy:
        """``__len__`` and ``__getitem__`` are enough."""

        def __len__(self):
            return len(HOVER_STARTS)

        def __getitem__(self, index):
            return HOVER_STARTS[index]

    settings = {"root_seed": 1, "num_lanes": 2, "episodes_per_iteration": 4, "max_iters": 1}
    trained = [train(hover_parts(), SPEC, states, **settings) for states in (HOVER_STARTS, np.array(HOVER_STARTS), Lazy())]
    for one in trained[1:]:
        assert_same(one.agent.state_dict(), trained[0].agent.state_dict())


def test_train_by_steps_with_several_validation_sets():
    trained = train(
        hover_parts(),
        SPEC,
        HOVER_STARTS,
        root_seed=1,
        num_lanes=2,
        steps_per_iteration=20,
        max_iters=2,
        validation_states={"near": [0.1], "far": [3.0, -3.0]},
        val_every_n_iters=2,
    )
    assert trained.fit.num_steps == 40
    metrics = trained.fit.metrics
    assert (metrics["validation/near/num_episodes"], metrics["validation/far/num_episodes"]) == (1, 2)


def test_an_agent_of_ones_own_is_trained_as_it_is():
    agent = ToyAgent()
    assert train_walk(agent=agent).agent is agent and agent.num_updates == 3


def test_limits_and_trials_reach_the_trainer():
    assert train_walk(max_iters=None, wall_clock_budget_seconds=1e-9).fit.status == "out_of_time"
    assert train_walk(fast_dev_run=2).fit.num_episodes == 6
    with pytest.raises(ConfigError, match="something must end the training"):
        train_walk(max_iters=None)
    with pytest.raises(ConfigError, match="exactly one of episodes_per_iteration and steps_per_iteration must be given"):
        train_walk(steps_per_iteration=8)


def test_backtest_gives_one_row_for_each_initial_state_in_order():
    trained = train_walk()
    seeds = WalkSeeds([2, -6, 4, 2])
    table = backtest(walk_parts(), trained.agent, seeds, root_seed=0, num_lanes=3)
    assert table["seed_id"].tolist() == [0, 1, 2, 3] and table["start"].tolist() == [2, -6, 4, 2]
    assert seeds.taken == [0, 1, 2, 3]
    trained.vessel.test_seeds = WalkSeeds([2, -6, 4, 2])
    tested = Trainer(max_iters=1).test(trained.vessel).table
    for name, column in table.columns.items():
        np.testing.assert_array_equal(column, tested[name], err_msg=name)


def test_backtest_takes_agents_saved_policies_and_any_policy(tmp_path):
    trained = train_walk()
    trained.agent.save_policy(tmp_path / "policy.pt")
    starts = WalkSeeds([1, -3, 5, 6])
    by_agent = backtest(walk_parts(), trained.agent, starts, root_seed=0, num_lanes=2)
    by_file = backtest(walk_parts(), load_policy(tmp_path / "policy.pt"), starts, root_seed=0, num_lanes=2)
    np.testing.assert_array_equal(by_agent["return"], by_file["return"])
    space = walk_parts().action_interpreter.action_space
    left = backtest(walk_parts(), SameAction(space, 0), starts, root_seed=0, num_lanes=2)
    # Always -1: home from 1 and 5 in as many steps, from 6 in the last of six; from -3 six places further away.
    np.testing.assert_allclose(left["return"], [1 - 0.125, -6 - 0.75, 5 - 0.625, 6 - 0.75])
    random = [backtest(walk_parts(), RandomActions(space), starts, root_seed=root, num_lanes=2)["return"] for root in (1, 1, 2)]
    assert random[0].tolist() == random[1].tolist() != random[2].tolist()


def test_backtest_tells_loggers_and_workers_change_nothing(tmp_path):
    class Keeping(Logger):
        def log_metrics(self, iteration, metrics):
            self.told = (iteration, metrics)

    keeping, agent = Keeping(level=LogLevel.DEBUG), ToyAgent()
    tables = [
        backtest(
            walk_parts(), agent, WalkSeeds(STARTS), root_seed=0, num_lanes=2, loggers=[keeping, CsvLogger(tmp_path)], **where
        )
        for where in ({}, {"finite_env_type": "subproc", "concurrency": 2})
    ]
    np.testing.assert_array_equal(tables[0]["return"], tables[1]["return"])
    written = pandas.read_csv(tmp_path / "test_episodes.csv", float_precision="round_trip")
    assert written["return"].tolist() == tables[1]["return"].tolist()
    iteration, metrics = keeping.told
    assert iteration == 0 and metrics["test/return/mean"] == tables[1]["return"].mean()


def test_backtest_refuses_or_keeps_what_fails():
    agent, starts = ToyAgent(), WalkSeeds([1, 40, 2])  # 40 lies outside the observation space
    with pytest.raises(EvaluationError, match="test must have no failed rows, seed 1 raised"):
        backtest(walk_parts(), agent, starts, root_seed=0, num_lanes=2)
    table = backtest(walk_parts(), agent, starts, root_seed=0, num_lanes=2, allow_failed="keep")
    assert table["status"].tolist() == ["ok", "failed", "ok"] and math.isnan(table["return"][1])


def test_backtest_changes_nothing_in_the_agent():
    trained = train_walk()
    before = trained.agent.state_dict()
    backtest(
        hover_parts(),
        SameAction(hover_parts().action_interpreter.action_space, 1),
        SequenceSeedSet([0.5]),
        root_seed=0,
        num_lanes=1,
    )
    backtest(walk_parts(), trained.agent, WalkSeeds(STARTS), root_seed=0, num_lanes=2)
    assert_same(trained.agent.state_dict(), before)


def test_the_best_checkpoint_takes_the_place_of_the_last_agent(tmp_path):
    writer = CheckpointWriter(tmp_path, monitor="train/return/mean", mode="min")  # so that the best is not the last
    trained = train_walk(max_iters=4, callbacks=[writer])
    assert writer.best_path != writer.latest_path
    last = trained.agent.state_dict()
    trained.load(writer.best_path)
    assert_same(trained.agent.state_dict(), read_checkpoint(writer.best_path)["vessel"]["agent"])
    trained.load(writer.latest_path)
    assert_same(trained.agent.state_dict(), last)
    other = train_walk(root_seed=4, max_iters=1)
    with pytest.raises(CheckpointError, match=r"training\.root_seed: 3 there, 4 here"):
        other.load(writer.best_path)


def test_validation_states_that_nobody_would_look_at_are_refused():
    with pytest.raises(ConfigError, match="val_every_n_iters must be given with validation_states, was None"):
        train_walk(validation_states=[1, -1])


def test_loggers_of_a_backtest_may_come_one_by_one():
    told = []

    class Telling(Logger):
        def log_episodes(self, phase, iteration, table):
            told.append("episodes")

        def log_metrics(self, iteration, metrics):
            told.append("metrics")

        def close(self):
            told.append("close")

    policy = SameAction(walk_parts().action_interpreter.action_space, 0)
    backtest(walk_parts(), policy, WalkSeeds(STARTS), root_seed=0, num_lanes=2, loggers=(one for one in [Telling()]))
    assert told == ["episodes", "metrics", "close"]


def test_a_trial_says_all_that_a_whole_training_says(tmp_path):
    """A script that runs through with fast_dev_run runs through without."""
    writer = CheckpointWriter(tmp_path, monitor="train/return/mean")
    trained = train_walk(fast_dev_run=2, callbacks=[writer])
    trained.load(writer.best_path)
    for trainer in (Trainer(max_iters=4, fast_dev_run=2), Trainer(max_iters=4)):
        assert trainer.fit(trained.vessel, writer.latest_path).num_episodes == 8
    with pytest.raises(ConfigError, match="fast_dev_run must be"):
        train_walk(fast_dev_run=0)
