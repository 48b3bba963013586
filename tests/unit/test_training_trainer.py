"""The trainer's lifecycle: order of hooks, seeds, splits, limits, metrics, and independence of what must not matter."""

import io
import math

import numpy as np
import pytest

from rlcore.foundation.errors import ContractError
from rlcore.training.callbacks import AFTER_CHECKPOINT, CHECKPOINT, Callback, MetricsWriter
from rlcore.training.checkpoint_writer import CheckpointWriter
from rlcore.training.loggers import ConsoleLogger, CsvLogger, Logger
from rlcore.training.trainer import Trainer
from tests.training_toy import HOOKS, TRAIN_STARTS, Spy, ToyAgent, WalkSeeds, assert_same, toy_vessel


def test_hooks_come_in_order_and_see_the_number_of_finished_iterations():
    spy = Spy()
    result = Trainer(max_iters=2, val_every_n_iters=2, callbacks=[spy]).fit(toy_vessel())
    first = [("iteration_start", 0), ("train_start", 0), ("train_end", 1), ("iteration_end", 1)]
    second = [("iteration_start", 1), ("train_start", 1), ("train_end", 2)]
    validation = [("validate_start", 2), ("validate_end", 2), ("iteration_end", 2)]
    assert spy.seen == [("fit_start", 0), *first, *second, *validation, ("fit_end", 2)]
    assert (result.status, result.iteration) == ("completed", 2)


def test_hooks_by_steps_and_with_several_validation_sets_are_the_same():
    """QlibRL's hooks, one by one, once each: validation is one validation, however many sets it has."""
    counting = {"episodes_per_iteration": None, "steps_per_iteration": 16}
    sets = {"near": WalkSeeds([1]), "far": WalkSeeds([4, -4])}
    spy = Spy()
    trainer = Trainer(max_iters=1, val_every_n_iters=1, callbacks=[spy])
    vessel = toy_vessel(validation_seeds=sets, **counting)
    trainer.fit(vessel)
    trainer.test(vessel)
    before = ["fit_start", "iteration_start", "train_start"]
    after = ["train_end", "validate_start", "validate_end", "iteration_end", "fit_end", "test_start", "test_end"]
    assert spy.seen == [(name, 0) for name in before] + [(name, 1) for name in after]
    assert sorted(f"on_{name}" for name, _ in spy.seen) == sorted(HOOKS)


def test_loggers_are_closed_before_the_last_hook():
    """Whoever hands files on at the end (a tracking server) finds them whole."""
    seen = []

    class Closing(Logger):
        def log_metrics(self, iteration, metrics):
            seen.append("metrics")

        def close(self):
            seen.append("close")

    class Handing(Callback):
        def on_fit_end(self, trainer, vessel):
            seen.append("fit_end")

        def on_test_end(self, trainer, vessel):
            seen.append("test_end")

    trainer = Trainer(max_iters=1, callbacks=[Handing()], loggers=[Closing()])
    vessel = toy_vessel()
    trainer.fit(vessel)
    trainer.test(vessel)
    assert seen == ["metrics", "close", "fit_end", "metrics", "close", "test_end"]


def test_callbacks_run_by_order_then_as_listed():
    seen = []

    class Noting(Callback):
        def on_iteration_end(self, trainer, vessel):
            seen.append(self.name)

    class After(Noting):
        order = AFTER_CHECKPOINT

    class Writes(Noting):
        order = CHECKPOINT

    Trainer(max_iters=1, callbacks=[After("d"), Writes("c"), Noting("a"), Noting("b")]).fit(toy_vessel())
    assert seen == ["a", "b", "c", "d"]


def test_every_training_seed_is_used_once_before_any_again_and_every_episode_is_finished():
    """Q22: episodes in flight are not thrown away, so that short ones are not favoured."""
    seeds = WalkSeeds(TRAIN_STARTS)
    vessel = toy_vessel(train_seeds=seeds, episodes_per_iteration=11, num_lanes=4)
    learnt = []

    class Watching(ToyAgent):
        def learn(self, rollout):
            learnt.append(rollout)
            return super().learn(rollout)

    vessel.agent = Watching()
    Trainer(max_iters=3).fit(vessel)
    assert sorted(seeds.taken) == sorted(list(range(11)) * 3)
    passes = [seeds.taken[start : start + 11] for start in (0, 11, 22)]
    assert all(sorted(one) == list(range(11)) for one in passes) and passes[0] != passes[1]
    for rollout in learnt:
        ends = (rollout.terminated | rollout.truncated) & rollout.is_alive
        assert (ends.sum(axis=0) == 1).all()
        assert sorted(rollout.seed_id[0]) == list(range(11))


def test_fit_never_touches_the_test_split_and_test_touches_every_seed_once():
    vessel = toy_vessel()
    trainer = Trainer(max_iters=2, val_every_n_iters=1)
    trainer.fit(vessel)
    assert vessel.test_seeds.taken == []
    assert vessel.validation_seeds.taken == list(range(5)) * 2
    result = trainer.test(vessel)
    assert vessel.test_seeds.taken == [0, 1, 2]
    assert result.table["seed_id"].tolist() == [0, 1, 2]


def test_validation_reports_and_a_fresh_trainer_can_test():
    """D18: validate and test return what they saw; a trainer that never fitted can test."""
    spy = Spy()
    trainer = Trainer(max_iters=1, callbacks=[spy])
    result = trainer.test(toy_vessel())
    assert spy.seen == [("test_start", 0), ("test_end", 0)]
    assert result.metrics == trainer.metrics
    assert result.metrics["test/num_episodes"] == 3.0
    assert trainer.iteration == 0


def test_evaluation_changes_nothing_in_training():
    states = []
    for every in (None, 1, 3):
        vessel = toy_vessel()
        trainer = Trainer(max_iters=4, val_every_n_iters=every)
        trainer.fit(vessel)
        if every == 3:
            trainer.test(vessel)
        states.append(vessel.state_dict())
    assert_same(states[0], states[1])
    assert_same(states[0], states[2])


def test_losing_the_law_of_evaluation_would_be_noticed():
    """The planted violation: an evaluation policy that counts as an update."""

    class Leaky(ToyAgent):
        def evaluation_policy(self):
            self.num_updates += 1
            return super().evaluation_policy()

    states = []
    for every in (None, 1):
        vessel = toy_vessel(Leaky())
        Trainer(max_iters=3, val_every_n_iters=every).fit(vessel)
        states.append(vessel.state_dict())
    with pytest.raises(AssertionError):
        assert_same(states[0], states[1])


def test_worker_processes_change_nothing(tmp_path):
    outcomes = []
    for kind, concurrency in (("inline", 1), ("subproc", 2)):
        vessel = toy_vessel()
        trainer = Trainer(max_iters=2, val_every_n_iters=1, finite_env_type=kind, concurrency=concurrency)
        result = trainer.fit(vessel)
        outcomes.append((vessel.state_dict(), result.metrics, trainer.test(vessel).metrics))
    assert_same(outcomes[0], outcomes[1])


def test_metrics_add_up_by_hand():
    """Weighted components of every episode add up to the return; a figure that some lack is a mean of those that have it."""
    tables = {}

    class Keeping(Logger):
        def log_episodes(self, phase, iteration, table):
            tables[phase] = table

    metrics = Trainer(max_iters=1, val_every_n_iters=1, loggers=[Keeping()]).fit(toy_vessel()).metrics
    for phase, count in (("train", 8), ("validation", 5)):
        table = tables[phase]
        assert len(table) == metrics[f"{phase}/num_episodes"] == count
        parts = metrics[f"{phase}/reward/progress/mean"] + metrics[f"{phase}/reward/effort/mean"]
        assert parts == pytest.approx(metrics[f"{phase}/return/mean"], abs=1e-12)
        assert metrics[f"{phase}/reward/effort/mean"] == pytest.approx(-0.125 * np.mean(table["moves"]), abs=1e-12)
        home = [steps for steps in table["steps_home"] if not math.isnan(steps)]  # D17: not over the episodes that lack it
        assert metrics[f"{phase}/steps_home/mean"] == pytest.approx(sum(home) / len(home))
        assert metrics.get(f"{phase}/steps_home/num_missing", 0) == count - len(home)
    assert math.isfinite(metrics["train/update/loss"])


def test_training_counters_count_training_only():
    """D17: validation episodes are not training episodes."""
    result = Trainer(max_iters=2, val_every_n_iters=1).fit(toy_vessel())
    assert result.num_episodes == 16 == result.metrics["train/total_episodes"]
    assert result.num_steps == result.metrics["train/total_steps"]


def test_metrics_of_an_iteration_without_validation_hold_no_old_ones():
    result = Trainer(max_iters=3, val_every_n_iters=2).fit(toy_vessel())
    assert not [name for name in result.metrics if name.startswith("validation/")]


def test_an_update_that_diverges_stops_before_it_reaches_a_checkpoint(tmp_path):
    class Diverging(ToyAgent):
        def learn(self, rollout):
            return {**super().learn(rollout), "entropy": math.nan if self.num_updates == 2 else 1.0}

    with pytest.raises(ContractError, match="figure 'entropy' of the agent's update must be finite, was nan"):
        Trainer(max_iters=3, callbacks=[CheckpointWriter(tmp_path, monitor=None)]).fit(toy_vessel(Diverging()))
    assert sorted(path.name for path in tmp_path.glob("iter*")) == ["iteration_000001.ckpt"]


def test_the_callers_lists_stay_the_callers():
    """Q12, D18: a trainer adds nothing to what it is given, and two trainers do not share."""
    loggers, callbacks = [ConsoleLogger(stream=io.StringIO())], [Spy()]
    for _ in range(2):
        Trainer(max_iters=1, loggers=loggers, callbacks=callbacks).fit(toy_vessel())
    assert len(loggers) == len(callbacks) == 1


def test_a_trainer_can_fit_twice_and_begins_anew(tmp_path):
    trainer = Trainer(max_iters=2, val_every_n_iters=1, callbacks=[MetricsWriter(tmp_path)])
    results, files = [], []
    for _ in range(2):
        results.append(trainer.fit(toy_vessel()))
        files.append((tmp_path / "train.csv").read_bytes())
    assert results[0].metrics == results[1].metrics and results[1].iteration == 2
    assert files[0] == files[1]


def test_fast_dev_run_takes_the_first_seeds_and_so_many_episodes():
    vessel = toy_vessel()
    trainer = Trainer(max_iters=2, val_every_n_iters=1, fast_dev_run=2)
    result = trainer.fit(vessel)
    trainer.test(vessel)
    assert result.num_episodes == 4
    assert set(vessel.train_seeds.taken) == {0, 1} and len(vessel.train_seeds.taken) == 4
    assert vessel.validation_seeds.taken == [0, 1, 0, 1]
    assert vessel.test_seeds.taken == [0, 1]
    assert vessel.agent.num_updates == 2
    # More than there are: all of them.
    Trainer(max_iters=1, fast_dev_run=10**6).test(toy_vessel())


def test_a_failing_seed_of_training_is_named():
    vessel = toy_vessel(train_seeds=WalkSeeds([1, 2, 40]))  # 40 lies outside the observation space
    with pytest.raises(Exception, match="observation must lie in") as caught:
        Trainer(max_iters=1).fit(vessel)
    assert "raised by the episode of seed 2" in caught.value.__notes__


def test_console_logger_writes_one_line_per_iteration():
    stream = io.StringIO()
    trainer = Trainer(max_iters=2, val_every_n_iters=2, loggers=[ConsoleLogger(stream=stream)])
    trainer.fit(toy_vessel())
    first, second = stream.getvalue().splitlines()
    assert first.startswith("[iteration 1]  train/return/mean ") and "validation" not in first
    assert second.startswith("[iteration 2]  train/return/mean ")
    assert f"validation/return/mean {trainer.metrics['validation/return/mean']:.6g}" in second


def test_csv_logger_writes_one_row_per_episode(tmp_path):
    import pandas

    trainer = Trainer(max_iters=2, val_every_n_iters=2, loggers=[CsvLogger(tmp_path)])
    vessel = toy_vessel()
    trainer.fit(vessel)
    for _ in range(2):
        result = trainer.test(vessel)
    train = pandas.read_csv(tmp_path / "train_episodes.csv")
    assert train["iteration"].tolist() == [1] * 8 + [2] * 8
    assert np.array_equal(pandas.read_csv(tmp_path / "validation_episodes.csv")["start"], [1, -1, 2, -5, 3])
    test = pandas.read_csv(tmp_path / "test_episodes.csv", float_precision="round_trip")
    assert test["return"].tolist() == result.table["return"].tolist()
