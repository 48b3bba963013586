"""Loggers: who is told what (levels), what the console shows, and a logger of one's own."""

import io
import math

import pytest

from rlcore.foundation.errors import ConfigError
from rlcore.training import ConsoleLogger, CsvLogger, Logger, LogLevel, ParquetLogger, TensorBoardLogger, level_of
from rlcore.training.callbacks import Callback
from rlcore.training.checkpoint_writer import CheckpointWriter
from rlcore.training.trainer import Trainer
from tests.training_toy import toy_vessel


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("train/num_failed", LogLevel.CRITICAL),
        ("validation/steps_home/num_missing", LogLevel.CRITICAL),
        ("train/return/mean", LogLevel.INFO),
        ("validation/return/mean", LogLevel.INFO),
        ("validation/far/return/mean", LogLevel.INFO),  # of a further validation set
        ("test/num_episodes", LogLevel.INFO),
        ("train/truncated_fraction", LogLevel.INFO),
        ("train/total_steps", LogLevel.INFO),
        ("train/reward_per_step", LogLevel.INFO),
        ("train/num_steps/mean", LogLevel.PERIODIC),
        ("train/reward/progress/mean", LogLevel.PERIODIC),
        ("train/component/progress/mean", LogLevel.PERIODIC),
        ("train/auxiliary/speed/mean", LogLevel.PERIODIC),
        ("train/steps_home/mean", LogLevel.PERIODIC),
        ("train/update/loss", LogLevel.PERIODIC),
        ("train/return/std", LogLevel.DEBUG),
        ("validation/reward/progress/std", LogLevel.DEBUG),
    ],
)
def test_every_metric_has_a_level_by_name(name, level):
    assert level_of(name) is level


def test_levels_have_the_numbers_that_people_know():
    assert [(level.name, int(level)) for level in LogLevel] == [("DEBUG", 10), ("PERIODIC", 20), ("INFO", 30), ("CRITICAL", 40)]
    with pytest.raises(ValueError, match="25 is not a valid LogLevel"):
        Logger(level=25)


class Keeping(Logger):
    def __init__(self, name="", level=LogLevel.PERIODIC):
        super().__init__(name, level)
        self.metrics, self.columns, self.num_closed = {}, {}, 0

    def log_metrics(self, iteration, metrics):
        self.metrics[iteration] = metrics

    def log_episodes(self, phase, iteration, table):
        self.columns[phase] = list(table.columns)
        assert set(table.figures) <= set(table.columns)

    def close(self):
        self.num_closed += 1


def test_a_logger_takes_its_level_and_those_above():
    loggers = [Keeping(level.name, level) for level in LogLevel]
    trainer = Trainer(max_iters=2, val_every_n_iters=2, loggers=loggers)
    result = trainer.fit(toy_vessel())
    for logger in loggers:
        assert logger.metrics[2] == {name: value for name, value in result.metrics.items() if level_of(name) >= logger.level}
    debug, periodic, info, critical = loggers
    assert debug.metrics[2] == result.metrics  # nothing is lost
    assert [len(one.metrics[2]) for one in loggers] == sorted((len(one.metrics[2]) for one in loggers), reverse=True)
    assert set(periodic.metrics[2]) - set(info.metrics[2]) >= {"train/update/loss", "train/moves/mean"}
    assert {"train/num_failed", "validation/num_failed"} <= set(critical.metrics[2])
    # Of episodes: figures by the level of their mean; which seed it was and how it ended is always there.
    identity = ["seed_id", "status", "error", "is_truncated", "start"]
    assert critical.columns["train"] == identity
    assert set(info.columns["validation"]) == {*identity, "return"}
    assert periodic.columns["train"] == debug.columns["train"] and "reward/progress" in periodic.columns["train"]


@pytest.mark.parametrize("make", [CsvLogger, ParquetLogger, TensorBoardLogger])
def test_the_loggers_that_write_files_have_a_level(tmp_path, make):
    assert make(tmp_path).level is LogLevel.PERIODIC
    assert make(tmp_path, level=LogLevel.CRITICAL).level is LogLevel.CRITICAL


def test_a_logger_is_closed_when_a_training_or_a_test_has_ended():
    logger, vessel = Keeping(), toy_vessel()
    trainer = Trainer(max_iters=2, loggers=[logger])
    trainer.fit(vessel)
    assert logger.num_closed == 1
    trainer.test(vessel)
    assert logger.num_closed == 2


def test_a_test_tells_loggers_what_the_test_showed_and_nothing_twice():
    class Counting(Logger):
        def __init__(self):
            super().__init__("", LogLevel.DEBUG)
            self.told = []

        def log_metrics(self, iteration, metrics):
            self.told += [(iteration, name) for name in metrics]

    logger, vessel = Counting(), toy_vessel()
    trainer = Trainer(max_iters=2, loggers=[logger])
    trainer.fit(vessel)
    result = trainer.test(vessel)
    assert len(set(logger.told)) == len(logger.told)
    assert {name for _, name in logger.told if name.startswith("test/")} == {n for n in result.metrics if n.startswith("test/")}


class BestReturn(Logger):
    """The example of the base class's own text."""

    def reset(self):
        self.best = -math.inf

    def log_metrics(self, iteration, metrics):
        self.best = max(self.best, metrics.get("train/return/mean", -math.inf))

    def state_dict(self):
        return {"best": self.best}

    def load_state_dict(self, state):
        self.best = state["best"]


def test_a_logger_of_ones_own_is_reset_and_continued(tmp_path):
    seen = Keeping()
    logger = BestReturn()
    Trainer(max_iters=3, loggers=[logger, seen], callbacks=[CheckpointWriter(tmp_path, monitor=None)]).fit(toy_vessel())
    returns = [metrics["train/return/mean"] for metrics in seen.metrics.values()]
    assert logger.best == max(returns)
    again = BestReturn()
    Trainer(max_iters=3, loggers=[again]).fit(toy_vessel(), tmp_path / "iteration_000003.ckpt")
    assert again.best == logger.best  # nothing was told, all was restored
    Trainer(max_iters=1, loggers=[again]).fit(toy_vessel())
    assert again.best == returns[0]


def lines_of(told, *, closed=True, **settings):
    """Return what the console shows of metrics by iteration."""
    stream = io.StringIO()
    logger = ConsoleLogger(("a", "b"), stream=stream, **settings)
    for iteration, metrics in told:
        logger.log_metrics(iteration, metrics)
    if closed:
        logger.close()
    return stream.getvalue().splitlines()


def test_console_shows_one_line_per_iteration():
    assert lines_of([(1, {"a": 1.5, "x": 9.0}), (2, {"b": -0.25, "a": 2.0})]) == [
        "[iteration 1]  a 1.5",
        "[iteration 2]  a 2  b -0.25",
    ]


def test_console_shows_the_newest_value_and_the_mean_since_the_line_before():
    told = [(1, {"a": 1.0}), (2, {"a": 2.0, "b": 7.0}), (3, {"a": 6.0}), (4, {"a": 5.0}), (5, {"a": 4.0})]
    assert lines_of(told, every_n_iters=3) == ["[iteration 3]  a 6 (3)  b 7", "[iteration 5]  a 4 (4.5)"]
    assert lines_of(told, every_n_iters=3, closed=False) == ["[iteration 3]  a 6 (3)  b 7"]
    assert lines_of(told[:3], every_n_iters=3) == ["[iteration 3]  a 6 (3)  b 7"]  # nothing waits: no line at the end


def test_console_leaves_out_what_no_iteration_had():
    """A training by steps in which no episode ended has no return to show."""
    assert lines_of([(1, {}), (2, {"b": 1.0}), (3, {}), (4, {"a": 2.0})], every_n_iters=2) == [
        "[iteration 2]  b 1",
        "[iteration 4]  a 2",
    ]


def test_console_shows_by_itself_what_was_earned():
    stream = io.StringIO()
    logger = ConsoleLogger(stream=stream)
    logger.log_metrics(1, {"train/num_steps/mean": 3.0, "train/reward_per_step": 0.5, "train/update/loss": 9.0})
    logger.log_metrics(2, {"train/return/mean": 1.0, "validation/near/return/mean": 2.0, "validation/far/return/mean": 3.0})
    assert stream.getvalue().splitlines() == [
        "[iteration 1]  train/reward_per_step 0.5",
        "[iteration 2]  train/return/mean 1  validation/near/return/mean 2  validation/far/return/mean 3",
    ]


def test_console_shows_a_test_at_once():
    stream = io.StringIO()
    vessel = toy_vessel()
    trainer = Trainer(max_iters=5, loggers=[ConsoleLogger(every_n_iters=3, stream=stream)])
    trainer.fit(vessel)
    trainer.test(vessel)
    lines = stream.getvalue().splitlines()
    assert [line.split("]")[0] for line in lines] == ["[iteration 3", "[iteration 5", "[iteration 5"]
    assert lines[2] == f"[iteration 5]  test/return/mean {trainer.metrics['test/return/mean']:.6g}"


def test_console_goes_on_between_two_lines(tmp_path):
    """Law 8: what waits for the next line travels in the checkpoint."""

    class Dies(Callback):
        def on_iteration_start(self, trainer, vessel):
            if trainer.iteration == 4:
                raise RuntimeError("planted")

    def fit(stream, resume_from=None, callbacks=()):
        logger = ConsoleLogger(every_n_iters=3, stream=stream)
        writer = CheckpointWriter(tmp_path / stream_name, monitor=None)
        Trainer(max_iters=6, loggers=[logger], callbacks=[writer, *callbacks]).fit(toy_vessel(), resume_from)

    stream_name, whole = "whole", io.StringIO()
    fit(whole)
    stream_name, parts = "parts", io.StringIO()
    with pytest.raises(RuntimeError, match="planted"):
        fit(parts, callbacks=[Dies()])
    fit(parts, tmp_path / "parts/iteration_000004.ckpt")
    assert parts.getvalue() == whole.getvalue() and whole.getvalue().count("\n") == 2


def test_senseless_settings_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="every_n_iters of the console logger must be 1 or more, was 0"):
        ConsoleLogger(every_n_iters=0)
    for make in (CsvLogger, ParquetLogger):
        with pytest.raises(ConfigError, match=r"phase must be one of train, validation, test, was 'validate'"):
            make(tmp_path, phases=("train", "validate"))


def test_one_name_is_no_sequence_of_names():
    with pytest.raises(
        ConfigError, match=r"shown of the console logger must be a sequence of names, was 'loss': write \['loss'\]"
    ):
        ConsoleLogger("loss")
    with pytest.raises(ConfigError, match=r"console logger must be a whole number of 1 or more, was 1\.5"):
        ConsoleLogger(every_n_iters=1.5)


@pytest.mark.parametrize("make", [CsvLogger, ParquetLogger])
def test_one_phase_is_no_sequence_of_phases(tmp_path, make):
    with pytest.raises(ConfigError, match="phases must be a sequence of phases, was 'train': write \\['train'\\]"):
        make(tmp_path, "train")
