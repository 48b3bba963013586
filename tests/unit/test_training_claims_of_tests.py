"""A test and a backtest write files too: one at a time, and beside a training that is still running."""

from __future__ import annotations

from contextlib import contextmanager

import pandas
import pytest

from rlcore.foundation.errors import ConfigError
from rlcore.training import CheckpointWriter, CsvLogger, MetricsWriter, ParquetLogger, TensorBoardLogger, backtest
from rlcore.training.callbacks import Callback
from rlcore.training.trainer import Trainer
from tests.training_toy import ToyAgent, WalkSeeds, toy_vessel, walk_parts

LOGGERS = {"csv": CsvLogger, "parquet": ParquetLogger}


class Meanwhile(WalkSeeds):
    """Does something while its episodes run."""

    def __init__(self, starts, action) -> None:
        super().__init__(starts)
        self._action = action

    def take(self, seed_ids):
        self._action()
        return super().take(seed_ids)


def by_trainer(seeds, **settings):
    return Trainer(max_iters=1, **settings).test(toy_vessel(test_seeds=seeds)).table


def by_backtest(seeds, loggers):
    return backtest(walk_parts(), ToyAgent(), seeds, root_seed=0, num_lanes=4, loggers=loggers)


@contextmanager
def refused():
    with pytest.raises(ConfigError, match=r"test_episodes.* must be written by one training or test at a time, another that is"):
        yield


@pytest.mark.parametrize("kind", LOGGERS)
@pytest.mark.parametrize("first", [by_trainer, by_backtest])
@pytest.mark.parametrize("second", [by_trainer, by_backtest])
def test_a_second_test_into_one_folder_is_refused_before_it_runs(tmp_path, kind, first, second):
    taken = []

    def meanwhile():
        seeds = WalkSeeds([5])
        with refused():
            second(seeds, loggers=[LOGGERS[kind](tmp_path)])
        taken.append(seeds.taken)

    table = first(Meanwhile([1, -2, 3], meanwhile), loggers=[LOGGERS[kind](tmp_path)])
    assert taken == [[]]
    read = {"csv": pandas.read_csv, "parquet": pandas.read_parquet}[kind]
    assert read(tmp_path / f"test_episodes.{kind}")["start"].tolist() == table["start"].tolist() == [1, -2, 3]
    assert not list(tmp_path.glob(".*"))
    second(WalkSeeds([5]), loggers=[LOGGERS[kind](tmp_path)])  # when the first is over


def test_two_loggers_of_one_test_do_not_write_one_file(tmp_path):
    for run in (by_trainer, by_backtest):
        with pytest.raises(ConfigError, match=r"must be written by one callback or logger, was claimed by 'one' and 'other'"):
            run(WalkSeeds([1]), loggers=[CsvLogger(tmp_path, name="one"), CsvLogger(tmp_path, name="other")])


class TestsInBetween(Callback):
    """Tests while the training that it belongs to is running, by the same trainer and by another."""

    __test__ = False

    def __init__(self, others) -> None:
        super().__init__()
        self._others = others

    def on_validate_end(self, trainer, vessel):
        trainer.test(vessel)
        Trainer(max_iters=1, **self._others()).test(vessel)


def test_a_test_beside_a_training_that_is_running_disturbs_nobody(tmp_path):
    def writers(*more):
        loggers = [kind(tmp_path) for kind in (CsvLogger, ParquetLogger, TensorBoardLogger)]
        callbacks = [MetricsWriter(tmp_path), CheckpointWriter(tmp_path, monitor=None), *more]
        return {"loggers": loggers, "callbacks": callbacks}

    Trainer(max_iters=2, val_every_n_iters=1, **writers(TestsInBetween(writers))).fit(toy_vessel())
    assert len(pandas.read_csv(tmp_path / "train_episodes.csv")) == 16
    assert len(pandas.read_parquet(tmp_path / "test_episodes.parquet")) == 3


def test_a_logger_that_has_no_business_with_tests_claims_nothing(tmp_path):
    def meanwhile():
        by_backtest(WalkSeeds([5]), loggers=[CsvLogger(tmp_path, ["train"])])

    by_backtest(Meanwhile([1], meanwhile), loggers=[CsvLogger(tmp_path)])
    assert pandas.read_csv(tmp_path / "test_episodes.csv")["start"].tolist() == [1]
