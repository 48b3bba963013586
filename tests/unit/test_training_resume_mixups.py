"""What can be mixed up when a training goes on: another monitor, a checkpoint that is not there, a best that was given up."""

from __future__ import annotations

import enum
import logging

import numpy as np
import pytest

from rlcore.foundation.errors import CheckpointError, ConfigError, ContractError
from rlcore.training.callbacks import Callback, EarlyStopping
from rlcore.training.checkpoint import read_checkpoint
from rlcore.training.checkpoint_writer import CheckpointWriter
from rlcore.training.loggers import CsvLogger
from rlcore.training.trainer import Trainer
from tests.training_toy import TRAIN_STARTS, ToyAgent, WalkSeeds, toy_vessel


class Scored(Callback):
    """Each iteration has these figures of training."""

    def __init__(self, **scores) -> None:
        super().__init__()
        self.scores = scores

    def on_train_end(self, trainer, vessel):
        trainer._publish({f"train/{name}": float(values[trainer.iteration - 1]) for name, values in self.scores.items()})


RISING, FALLING = [1, 2, 3, 4, 5, 6], [96, 95, 94, 93, 92, 91]


def fit(folder, max_iters, judge, **settings):
    vessel = toy_vessel()
    newest = folder / "latest.ckpt"
    callbacks = [Scored(rising=RISING, falling=FALLING), *judge]
    trainer = Trainer(max_iters=max_iters, callbacks=callbacks, **settings)
    return trainer.fit(vessel, newest if newest.exists() else None)


@pytest.mark.parametrize(("monitor", "mode"), [("train/falling", "max"), ("train/rising", "min")])
def test_the_best_by_one_monitor_is_not_taken_for_the_best_by_another(tmp_path, caplog, monitor, mode):
    """By the other monitor every iteration is worse than the one before, so that the first that it judges is its best."""
    first = {"monitor": "train/rising", "mode": "max"}
    fit(tmp_path, 2, [EarlyStopping(**first, patience=9), CheckpointWriter(tmp_path, **first)])
    stopping, writer = EarlyStopping(monitor, mode=mode, patience=9), CheckpointWriter(tmp_path, monitor=monitor, mode=mode)
    with caplog.at_level(logging.WARNING):
        fit(tmp_path, 5, [stopping, writer])
    assert (stopping.best_iteration, stopping.wait) == (3, 2)
    assert writer.best_path == tmp_path / "iteration_000003.ckpt" == (tmp_path / "best.ckpt").resolve()
    assert (
        caplog.text.count(f"judged by train/rising (max) before, and is by {monitor} ({mode}) now: the best is judged anew") == 2
    )


def test_the_same_monitor_goes_on_with_its_best_and_says_nothing(tmp_path, caplog):
    judge = {"monitor": "train/falling", "mode": "max"}
    fit(tmp_path, 2, [EarlyStopping(**judge, patience=9), CheckpointWriter(tmp_path, **judge)])
    stopping, writer = EarlyStopping(**judge, patience=9), CheckpointWriter(tmp_path, **judge)
    fit(tmp_path, 5, [stopping, writer])
    assert (stopping.best_iteration, stopping.wait, writer.best_iteration) == (1, 4, 1)
    assert caplog.text == ""


def test_a_best_by_another_monitor_is_not_pointed_at_until_there_is_a_new_one(tmp_path):
    fit(tmp_path, 1, [CheckpointWriter(tmp_path, monitor="train/rising")])
    fit(tmp_path, 2, [CheckpointWriter(tmp_path, monitor="validation/return/mean", keep_last=1)])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["iteration_000002.ckpt", "latest.ckpt"]


def test_a_mode_without_a_best_begins_with_its_own_worst(tmp_path):
    fit(tmp_path, 1, [CheckpointWriter(tmp_path)])
    writer = CheckpointWriter(tmp_path, monitor="train/falling", mode="min")
    fit(tmp_path, 3, [writer])
    assert writer.best_iteration == 3


class Interrupts(Callback):
    def on_validate_start(self, trainer, vessel):
        if trainer.iteration == 3:
            trainer.interrupt()


def test_the_best_of_an_iteration_that_is_abandoned_is_none(tmp_path):
    """It is in no checkpoint: the best one before it stands."""
    writer = CheckpointWriter(tmp_path, monitor="train/rising")
    result = fit(tmp_path, 5, [writer, Interrupts()], val_every_n_iters=1)
    assert (result.status, result.iteration) == ("terminated", 2)
    assert writer.best_path == tmp_path / "iteration_000002.ckpt" == (tmp_path / "best.ckpt").resolve()


def test_a_checkpoint_that_is_not_there_is_said_as_such(tmp_path):
    fit(tmp_path / "one", 1, [CheckpointWriter(tmp_path / "one", monitor=None)])
    trainer = Trainer(max_iters=2, callbacks=[CheckpointWriter(tmp_path / "one", monitor=None)])
    with pytest.raises(CheckpointError, match=r"none\.ckpt must be readable, was not: No such file or directory"):
        trainer.fit(toy_vessel(), tmp_path / "other" / "none.ckpt")


class Colour(enum.StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "where"),
    [
        (Colour.RED, r"training\.own"),
        ({0.5: 1}, r"training\.own"),
        (np.str_("a"), r"training\.own"),
        ([{"a": Colour.RED}], "own"),
    ],
)
def test_what_no_checkpoint_can_hold_is_refused_before_the_first_iteration(value, where):
    with pytest.raises(ConfigError, match=rf"config of the vessel must be plain data and finite numbers, .*{where}.* was "):
        toy_vessel(config={"training": {"own": value}})


class WithForeignArray(ToyAgent):
    def state_dict(self):
        return {**super().state_dict(), "foreign": np.arange(3.0).astype(">f8")}

    def load_state_dict(self, state):
        super().load_state_dict(state)
        self.foreign = state["foreign"]


def test_an_array_in_the_byte_order_of_another_machine_is_kept_by_its_values(tmp_path):
    Trainer(max_iters=1, callbacks=[CheckpointWriter(tmp_path, monitor=None)]).fit(toy_vessel(WithForeignArray()))
    foreign = read_checkpoint(tmp_path / "latest.ckpt")["vessel"]["agent"]["foreign"]
    assert foreign.tolist() == [0.0, 1.0, 2.0] and foreign.dtype == np.float64


def test_an_array_that_is_no_number_is_still_refused_with_its_place(tmp_path):
    class WithTexts(ToyAgent):
        def state_dict(self):
            return {**super().state_dict(), "texts": np.array(["a"])}

    with pytest.raises(ContractError, match=r"array vessel\.agent\.texts must hold numbers or booleans"):
        Trainer(max_iters=1, callbacks=[CheckpointWriter(tmp_path, monitor=None)]).fit(toy_vessel(WithTexts()))


class LabelledSeeds(WalkSeeds):
    labels = np.array(["a\rb", "c\nd", 'e"f,', "\r\n", "g"], object)

    def describe(self, seed_ids):
        return {"label": self.labels[seed_ids % 5]}


def test_texts_with_line_breaks_of_every_kind_read_back_as_they_were(tmp_path):
    """A continued training writes its rows again: they must be those that were there."""

    def fit_labelled(folder, max_iters):
        newest = folder / "latest.ckpt"
        trainer = Trainer(max_iters=max_iters, loggers=[CsvLogger(folder)], callbacks=[CheckpointWriter(folder, monitor=None)])
        trainer.fit(toy_vessel(train_seeds=LabelledSeeds(TRAIN_STARTS)), newest if newest.exists() else None)
        return (folder / "train_episodes.csv").read_bytes()

    whole = fit_labelled(tmp_path / "whole", 4)
    fit_labelled(tmp_path / "parts", 2)
    assert fit_labelled(tmp_path / "parts", 4) == whole
    assert whole.count(b"a\rb") == whole.count(b'"a\rb"') > 0
