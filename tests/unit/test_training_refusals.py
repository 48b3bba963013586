"""What a trainer and a vessel refuse before anything runs."""

import math

import numpy as np
import pytest

from rlcore.foundation.errors import ConfigError
from rlcore.training.callbacks import Callback, MetricsWriter
from rlcore.training.loggers import ConsoleLogger, Logger
from rlcore.training.trainer import Trainer
from tests.training_toy import Spy, WalkSeeds, toy_vessel


def test_equal_names_are_refused():
    with pytest.raises(ConfigError, match=r"names of callbacks must differ, 'Spy' stands 2 times: give each name=… of its own"):
        Trainer(max_iters=1, callbacks=[Spy(), Spy()])
    Trainer(max_iters=1, callbacks=[Spy(), Spy("other")])


@pytest.mark.parametrize("name", ["max_iters", "val_every_n_iters", "concurrency", "fast_dev_run"])
def test_counts_below_one_are_refused(name):
    with pytest.raises(ConfigError, match=f"{name} of the trainer must be 1 or more, was 0"):
        Trainer(**{"max_iters": 1, name: 0})


def test_what_worker_processes_cannot_do_is_refused_before_anything_runs():
    for settings, message in (
        ({"on_worker_death": "sometimes"}, "on_worker_death must be fail or restart, was 'sometimes'"),
        ({"chunk_deadline_seconds": 0.0}, "chunk_deadline_seconds must be positive, was 0.0"),
        ({"finite_env_type": "threads"}, "backend must be one of inline, subproc, dummy, shmem, was 'threads'"),
    ):
        with pytest.raises(ConfigError, match=message):
            Trainer(max_iters=1, **{"finite_env_type": "subproc", **settings})


@pytest.mark.parametrize(("kind", "is_said"), [("inline", True), ("dummy", True), ("subproc", False)])
def test_processes_that_nobody_starts_are_said(caplog, kind, is_said):
    Trainer(max_iters=1, concurrency=2, finite_env_type=kind)
    assert ("concurrency 2 is not used" in caplog.text) == is_said


def test_senseless_combinations_are_refused():
    with pytest.raises(ConfigError, match="something must end the training"):
        Trainer()
    with pytest.raises(ConfigError, match="validation_seeds must hold at least one seed"):
        Trainer(max_iters=1, val_every_n_iters=1).fit(toy_vessel(validation_seeds=None))
    with pytest.raises(ConfigError, match="test_seeds of the vessel must hold at least one seed"):
        Trainer(max_iters=1).test(toy_vessel(test_seeds=WalkSeeds([])))
    with pytest.raises(ConfigError, match="episodes_per_iteration must be 1 or more, was 0"):
        toy_vessel(episodes_per_iteration=0)
    with pytest.raises(ConfigError, match="train_seeds must hold at least one seed"):
        toy_vessel(train_seeds=WalkSeeds([]))


@pytest.mark.parametrize("name", ["max_iters", "val_every_n_iters", "concurrency", "fast_dev_run"])
@pytest.mark.parametrize("value", ["2", 2.5, True])
def test_counts_that_are_no_whole_numbers_are_refused(name, value):
    with pytest.raises(ConfigError, match=f"{name} of the trainer must be a whole number of 1 or more, was {value!r}"):
        Trainer(**{"max_iters": 1, name: value})


def test_counts_of_numpy_are_whole_numbers_too():
    assert Trainer(max_iters=np.int64(2)).fit(toy_vessel()).iteration == 2


@pytest.mark.parametrize("budget", [0.0, -1.0, math.nan, math.inf])
def test_a_budget_that_is_never_or_always_used_up_is_refused(budget):
    with pytest.raises(ConfigError, match="wall_clock_budget_seconds of the trainer must be positive and finite, was"):
        Trainer(wall_clock_budget_seconds=budget)


class WithoutBase(Callback):
    def __init__(self):
        pass


class LoggerWithoutBase(Logger):
    def __init__(self):
        pass


def test_callbacks_and_loggers_that_are_none_are_refused():
    for callback in (WithoutBase(), MetricsWriter, object()):
        with pytest.raises(ConfigError, match=r"every callback must be an object .* super\(\).__init__\(\) called, was"):
            Trainer(max_iters=1, callbacks=[callback])
    for sink in (LoggerWithoutBase(), ConsoleLogger):
        with pytest.raises(ConfigError, match="every logger must be an object made of a class derived from Logger"):
            Trainer(max_iters=1, loggers=[sink])
