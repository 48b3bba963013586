"""The vessel: training by steps of lanes that go on, and several validation sets."""

import io
import math
from collections import Counter

import numpy as np
import pytest

from rlcore.environment.backends import InlineBackend, collect_episodes
from rlcore.environment.rollout import Passage
from rlcore.environment.seed_sampling import training_draw
from rlcore.foundation.errors import CheckpointError, ConfigError
from rlcore.training.callbacks import EarlyStopping, MetricsWriter
from rlcore.training.checkpoint_writer import CheckpointWriter
from rlcore.training.loggers import ConsoleLogger, CsvLogger, Logger
from rlcore.training.trainer import Trainer
from tests.training_toy import LogitPolicy, ToyAgent, WalkSeeds, assert_same, hover_vessel, toy_vessel

STEPS = {"episodes_per_iteration": None, "steps_per_iteration": 24, "num_lanes": 2, "num_groups": 3}


class Unlearning(ToyAgent):
    """Never changes its mind, so that episodes can be compared with those of another driver."""

    def __init__(self):
        super().__init__()
        self.rollouts = []

    def learn(self, rollout):
        self.rollouts.append(rollout)
        return {}


def episodes_of(tables):
    columns = ("seed_id", "num_steps", "return", "moves")
    return [row for table in tables for row in zip(*(table[name].tolist() for name in columns), strict=True)]


@pytest.mark.parametrize("num_groups", [1, 3])
def test_episodes_by_steps_are_the_whole_episodes_of_the_same_seeds(num_groups):
    """Q22: lanes go on; no episode is thrown away, none is cut at an iteration's end, none comes twice."""
    vessel = toy_vessel(Unlearning(), **{**STEPS, "num_groups": num_groups})
    backend = InlineBackend()
    seen = Counter(episodes_of(vessel.collect(backend).table for _ in range(6)))
    count = 40
    seed_id, visit = training_draw(7, len(vessel.train_seeds), 0, count)
    passage = Passage(vessel.streams, "train", 4)
    whole = collect_episodes(backend, vessel.parts, vessel.agent.training_policy(), vessel.train_seeds, seed_id, visit, passage)
    rows = zip(
        seed_id.tolist(), whole.num_steps.tolist(), whole.episode_return.tolist(), whole.metrics["moves"].tolist(), strict=True
    )
    assert seen.total() > 12 and not seen - Counter(rows)


def test_counters_count_steps_and_the_episodes_that_ended():
    tables = []

    class Keeping(Logger):
        def log_episodes(self, phase, iteration, table):
            tables.append(table)

    agent = Unlearning()
    result = Trainer(max_iters=4, loggers=[Keeping()]).fit(toy_vessel(agent, **STEPS))
    assert (result.num_steps, result.metrics["train/total_steps"]) == (96, 96.0)
    ended = sum(int((rollout.terminated | rollout.truncated).sum()) for rollout in agent.rollouts)
    assert result.num_episodes == result.metrics["train/total_episodes"] == sum(map(len, tables)) == ended > 4
    assert [rollout.reward.shape for rollout in agent.rollouts] == [(4, 6)] * 4
    assert result.metrics["train/num_episodes"] == len(tables[-1])
    assert result.metrics["train/reward_per_step"] == pytest.approx(agent.rollouts[-1].reward.sum() / 24)


def test_iterations_in_which_no_episode_ends_are_iterations(tmp_path):
    """An episode takes seven iterations: six of seven show no figure of an episode, and nothing minds."""
    shown = io.StringIO()
    stopping = EarlyStopping("train/return/mean", patience=2, min_delta=1e9)
    writer = CheckpointWriter(tmp_path / "checkpoints", monitor="train/reward_per_step")
    trainer = Trainer(
        max_iters=20,
        val_every_n_iters=1,
        callbacks=[stopping, writer, MetricsWriter(tmp_path / "metrics")],
        loggers=[ConsoleLogger(stream=shown), CsvLogger(tmp_path / "episodes")],
    )
    agent = Unlearning()
    result = trainer.fit(hover_vessel(agent, steps_per_iteration=2, num_groups=1))
    lines = shown.getvalue().splitlines()
    assert [number for number, line in enumerate(lines, 1) if "train/return/mean" in line] == [7, 14]
    # Early stopping saw two figures: one wait of two.
    assert (result.status, result.iteration, result.num_episodes, stopping.num_judgements) == ("completed", 20, 4, 2)
    assert result.metrics["train/num_episodes"] == 0.0 and "train/return/mean" not in result.metrics
    assert all(math.isfinite(value) for value in result.metrics.values())
    means = [float(rollout.reward.mean()) for rollout in agent.rollouts]
    assert writer.best_iteration == 1 + int(np.argmax(means))
    episodes = (tmp_path / "episodes/train_episodes.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in episodes[1:]] == ["7", "7", "14", "14"]
    assert len((tmp_path / "metrics/train.csv").read_text().splitlines()) == 21


def test_exactly_one_way_of_counting_and_what_fits_it():
    with pytest.raises(ConfigError, match="exactly one of episodes_per_iteration and steps_per_iteration must be given"):
        toy_vessel(steps_per_iteration=8)
    with pytest.raises(ConfigError, match="exactly one of episodes_per_iteration and steps_per_iteration must be given"):
        toy_vessel(episodes_per_iteration=None)
    for steps, remedy in ((25, "take 24 or 30"), (5, "take 6"), (0, "take 6"), (-6, "take 6")):
        with pytest.raises(ConfigError, match=rf"multiple of num_lanes × num_groups = 2 × 3 = 6, was {steps}: {remedy}$"):
            toy_vessel(**{**STEPS, "steps_per_iteration": steps})
    with pytest.raises(ConfigError, match="num_groups must be 1 or more, was 0"):
        toy_vessel(**{**STEPS, "num_groups": 0})
    with pytest.raises(ConfigError, match="num_groups must be 1 with episodes_per_iteration, was 2"):
        toy_vessel(num_groups=2)


class Interrupting(Unlearning):
    """Is interrupted at its fifth decision, once."""

    num_decisions = 0

    def training_policy(self):
        agent, plain = self, super().training_policy()

        class Policy(LogitPolicy):
            def decide(self, *asked):
                agent.num_decisions += 1
                if agent.num_decisions == 5:
                    raise KeyboardInterrupt
                return plain.decide(*asked)

        return Policy(self.layer, is_greedy=False)


def test_an_interrupted_collection_is_taken_up_where_it_began():
    """One-episode simulators move in place: those that had moved are replayed."""
    ends = []
    for agent in (Unlearning(), Interrupting()):
        vessel, collected = hover_vessel(agent), []
        while len(collected) < 3:
            try:
                collected.append(vessel.collect(InlineBackend()))
            except KeyboardInterrupt:
                assert len(collected) == 0  # the fifth decision lies in the first collection, before its second group
        ends.append(([one.rollout.reward for one in collected], vessel.state_dict()["lanes"]))
    assert_same(ends[0], ends[1])


def test_fast_dev_run_by_steps_takes_so_many_steps_of_every_lane():
    vessel = toy_vessel(**STEPS)
    result = Trainer(max_iters=2, fast_dev_run=2).fit(vessel)
    assert result.num_steps == 2 * 2 * 6
    assert set(vessel.train_seeds.taken) == {0, 1}


A, B = [1, -1, 2], [5, -5, 3, 4]


def two_sets(**changes):
    return toy_vessel(**{"validation_seeds": {"near": WalkSeeds(A), "far": WalkSeeds(B)}, **changes})


def test_each_validation_set_has_figures_of_its_own():
    """The policy of an evaluation draws nothing: a set among several shows what it shows alone."""
    told = []

    class Listening(Logger):
        def log_episodes(self, phase, iteration, table):
            told.append((phase, iteration, len(table)))

    metrics = Trainer(max_iters=2, val_every_n_iters=2, loggers=[Listening()]).fit(two_sets()).metrics
    for name, starts in (("near", A), ("far", B)):
        alone = Trainer(max_iters=2, val_every_n_iters=2).fit(toy_vessel(validation_seeds=WalkSeeds(starts))).metrics
        expected = {key: value for key, value in alone.items() if key.startswith("validation/")}
        found = {key.replace(f"/{name}", "", 1): value for key, value in metrics.items() if key.startswith(f"validation/{name}/")}
        assert found == expected
    assert told == [("train", 1, 8), ("train", 2, 8), ("validation/near", 2, 3), ("validation/far", 2, 4)]


def test_any_validation_set_can_be_monitored(tmp_path):
    monitor = "validation/far/return/mean"
    writer = CheckpointWriter(tmp_path, monitor=monitor)
    seen = []

    class Listening(Logger):
        def log_metrics(self, iteration, metrics):
            seen.append(metrics[monitor])

    stopping = EarlyStopping(monitor, patience=3, min_delta=1e9)
    result = Trainer(max_iters=9, val_every_n_iters=1, callbacks=[writer, stopping], loggers=[Listening()]).fit(two_sets())
    assert (result.status, result.iteration) == ("early_stopped", 4)
    assert writer.best_iteration == 1 + int(np.argmax(seen))
    assert result.reason.startswith(f"{monitor} did not improve in 3 validations")


def test_several_sets_are_shortened_and_are_part_of_the_config(tmp_path):
    vessel = two_sets()
    Trainer(max_iters=1, val_every_n_iters=1, fast_dev_run=2).fit(vessel)
    assert [vessel.validation_seeds[name].taken for name in ("near", "far")] == [[0, 1], [0, 1]]
    writer = CheckpointWriter(tmp_path, monitor=None)
    Trainer(max_iters=1, callbacks=[writer]).fit(two_sets())
    other = two_sets(validation_seeds={"near": WalkSeeds(A), "far": WalkSeeds([9])})
    with pytest.raises(CheckpointError) as caught:
        Trainer(max_iters=2).fit(other, writer.latest_path)
    assert "data.validation_seeds.far" in str(caught.value) and "near" not in str(caught.value)
    with pytest.raises(
        CheckpointError,
        match=r"data\.train_seeds.* data\.validation_seeds\.far.*training\.episodes_per_iteration: 8 there, 2 here",
    ):
        Trainer(max_iters=2, fast_dev_run=2).fit(two_sets(), writer.latest_path)


def test_validation_sets_that_cannot_be_told_apart_or_run_are_refused():
    for name in ("", "a/b", "a b"):
        with pytest.raises(ConfigError, match="names of validation sets must be letters, digits"):
            toy_vessel(validation_seeds={name: WalkSeeds(A)})
    for seeds, where in (({}, ""), ({"near": WalkSeeds(A), "far": WalkSeeds([])}, " for validation/far")):
        with pytest.raises(ConfigError, match=f"validation_seeds must hold at least one seed, held none{where}: set"):
            Trainer(max_iters=1, val_every_n_iters=1).fit(toy_vessel(validation_seeds=seeds))


@pytest.mark.parametrize("counting", [{}, STEPS], ids=["episodes", "steps"])
def test_validation_sets_change_nothing_in_training(counting):
    """T34: the same bits with none, one and two sets."""
    states = []
    for seeds in (None, WalkSeeds(A), {"near": WalkSeeds(A), "far": WalkSeeds(B)}):
        vessel = toy_vessel(validation_seeds=seeds, **counting)
        Trainer(max_iters=3, val_every_n_iters=None if seeds is None else 1).fit(vessel)
        states.append(vessel.state_dict())
    assert_same(states[0], states[1])
    assert_same(states[0], states[2])


@pytest.mark.parametrize("name", ["num_lanes", "root_seed", "episodes_per_iteration", "steps_per_iteration", "num_groups"])
@pytest.mark.parametrize("value", [6.5, "6", True])
def test_counts_that_are_no_whole_numbers_are_refused(name, value):
    steps = {} if name in ("num_lanes", "root_seed", "episodes_per_iteration") else STEPS
    with pytest.raises(ConfigError, match=f"{name} must be a whole number.*, was {value!r}"):
        toy_vessel(**{**steps, name: value})


@pytest.mark.parametrize("value", [np.ones(2), math.nan, object(), [1.0, math.inf]])
def test_a_config_that_checkpoints_cannot_be_compared_by_is_refused_at_once(value):
    with pytest.raises(ConfigError, match=r"config of the vessel must be plain data and finite numbers, training\.fee\.x was"):
        toy_vessel(config={"training": {"fee": {"x": value}}})


def test_names_of_validation_sets_are_text():
    with pytest.raises(ConfigError, match=r"names of validation sets must be letters.*, was 1"):
        toy_vessel(validation_seeds={1: WalkSeeds([1])})
