"""What checkpoints are called, when they are written for the time that has passed, and which pointers lie beside them."""

import re
import shutil
from types import SimpleNamespace

import pytest

from rlcore.foundation.errors import ConfigError
from rlcore.training import checkpoint_writer
from rlcore.training.checkpoint import checkpoints_in, iteration_of, latest_valid_checkpoint, read_checkpoint
from rlcore.training.checkpoint_file_name import CheckpointFileName
from rlcore.training.checkpoint_writer import CheckpointWriter
from rlcore.training.trainer import Trainer
from tests.training_toy import toy_vessel

NAMED = "iteration_{iteration:06d}-{validation/return/mean:.3f}"


def fit(folder, max_iters, *, resume_from=None, every=1, **settings):
    writer = CheckpointWriter(folder, **settings)
    trainer = Trainer(max_iters=max_iters, val_every_n_iters=every, callbacks=[writer])
    result = trainer.fit(toy_vessel(), resume_from)
    return writer, result


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("iteration_{iteration:06d}", "iteration_000012.ckpt"),
        ("iteration_{iteration:06d}-{validation/return/mean:.2f}", "iteration_000012--1.25.ckpt"),
        (
            "iteration_{iteration:06d}-of_{train/reward/a.b/mean:+.1e}",
            "iteration_000012-of_+3.0e+02.ckpt",
        ),  # a nested term's name
        (
            "iteration_{iteration:06d}-return={validation/return/mean:05.1f},i={iteration}",
            "iteration_000012-return=-01.2,i=12.ckpt",
        ),
    ],
)
def test_names_are_made_of_iteration_and_metrics(template, name):
    metrics = {"validation/return/mean": -1.25, "train/reward/a.b/mean": 300.0}
    assert CheckpointFileName(template).render(12, metrics) == name
    assert iteration_of(name) == 12


def test_names_may_hold_the_time_of_writing():
    name = CheckpointFileName("iteration_{iteration:06d}-{time}").render(3, {})
    assert re.fullmatch(r"iteration_000003-20\d{6}T\d{6}\.ckpt", name)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{iteration:03d}", "must be 'iteration_{iteration:06d}', alone or followed by '-' and more, was '{iteration:03d}'"),
        ("iteration_{iteration:06d}{time}", "the newest is found by that number"),  # digits after digits
        ("run/iteration_{iteration:06d}", "alone or followed by"),
        ("iteration_{iteration:06d}-{", "must be a format string, was"),
        ("iteration_{iteration:06d}-{train/return/mean!r}", "conversions, was"),
    ],
)
def test_templates_that_would_not_be_found_again_are_refused(tmp_path, template, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        CheckpointWriter(tmp_path, file_name=template)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{train/reutrn/mean}", r"'train/reutrn/mean' .* must be among .* \(did you mean 'train/return/mean'\?\)"),
        ("{train/return/mean.__class__}", "must be among those of the training so far"),  # no attributes
        ("a/b", r"must give letters, digits and any of '_\.=\+,-', gave '-a/b'"),
        ("{train/return/mean:d}", r"format of 'train/return/mean' .* must fit its value"),
    ],
)
def test_what_cannot_be_a_name_is_an_error_at_the_first_write(tmp_path, template, message):
    with pytest.raises(ConfigError, match=message):
        fit(tmp_path, 5, file_name=f"iteration_{{iteration:06d}}-{template}")
    assert list(tmp_path.iterdir()) == []


def test_files_are_found_kept_pointed_at_and_continued_from(tmp_path):
    writer, _ = fit(tmp_path, 5, file_name=NAMED, keep_last=2)
    kept = [path.name for path in checkpoints_in(tmp_path)]
    assert [iteration_of(name) for name in kept[:2]] == [5, 4]
    for name in kept:
        value = read_checkpoint(tmp_path / name)["trainer"]["metrics"]["validation/return/mean"]
        assert name == f"iteration_{iteration_of(name):06d}-{value:.3f}.ckpt"
    assert writer.latest_path.name == kept[0] and latest_valid_checkpoint(tmp_path).name == kept[0]
    assert (tmp_path / "latest.ckpt").resolve().name == kept[0]
    assert (tmp_path / "best.ckpt").resolve() == writer.best_path.resolve()
    fit(tmp_path / "whole", 7, file_name=NAMED, keep_last=2)
    fit(tmp_path, 7, file_name=NAMED, keep_last=2, resume_from=latest_valid_checkpoint(tmp_path))
    assert names_in(tmp_path / "whole") == [name for name in names_in(tmp_path) if name != "whole"]


def test_a_metric_stands_with_its_newest_value_where_an_iteration_lacks_it(tmp_path):
    """Otherwise the checkpoint at the end of a long training could fail for want of a validation."""
    _, result = fit(tmp_path, 5, every=2, every_n_iters=2, file_name=NAMED, monitor=None)
    assert "validation/return/mean" not in result.metrics
    by_iteration = {iteration_of(path.name): path.name.split("-", 1)[1] for path in checkpoints_in(tmp_path)}
    assert sorted(by_iteration) == [2, 4, 5] and by_iteration[5] == by_iteration[4]
    fit(tmp_path / "parts", 4, every=2, every_n_iters=2, file_name=NAMED, monitor=None)
    again = latest_valid_checkpoint(tmp_path / "parts")
    fit(tmp_path / "parts", 5, every=2, every_n_iters=2, file_name=NAMED, monitor=None, resume_from=again)
    assert names_in(tmp_path / "parts") == [name for name in names_in(tmp_path) if name != "parts"]
    with pytest.raises(ConfigError, match=r"'validation/return/mean' .* that is there when the first checkpoint is written"):
        fit(tmp_path / "early", 5, every=2, file_name=NAMED, monitor=None)


def test_an_iteration_that_is_written_again_under_another_name_leaves_one_file(tmp_path):
    fit(tmp_path, 3, monitor=None)
    fit(tmp_path, 3, monitor=None, resume_from=tmp_path / "iteration_000002.ckpt", file_name="iteration_{iteration:06d}-again")
    assert names_in(tmp_path) == ["iteration_000001.ckpt", "iteration_000002.ckpt", "iteration_000003-again.ckpt", "latest.ckpt"]
    assert (tmp_path / "latest.ckpt").resolve().name == "iteration_000003-again.ckpt"


def test_the_best_keeps_its_name_when_the_training_moves(tmp_path):
    writer, _ = fit(tmp_path / "one", 4, file_name=NAMED, keep_last=1)
    shutil.move(tmp_path / "one", tmp_path / "two")
    moved, _ = fit(tmp_path / "two", 4, file_name=NAMED, keep_last=1, resume_from=tmp_path / "two/latest.ckpt")
    assert moved.best_path.name == writer.best_path.name and moved.best_path.exists()


def test_checkpoints_by_time_begin_at_once_and_count_from_the_last_one(tmp_path, monkeypatch):
    now = 0.0
    monkeypatch.setattr(checkpoint_writer, "time", SimpleNamespace(monotonic=lambda: now))

    class Slow(CheckpointWriter):
        def on_iteration_start(self, trainer, vessel):
            nonlocal now
            now += 10.0  # every iteration takes ten seconds

    writer = Slow(tmp_path, every_n_iters=None, every_seconds=25.0, save_on_end=False, monitor=None)
    Trainer(max_iters=9, callbacks=[writer]).fit(toy_vessel())
    assert [iteration_of(path.name) for path in checkpoints_in(tmp_path)] == [7, 4, 1]
    # Written for another reason, it counts as well: every 4 iterations, or 25 seconds after the last.
    writer = Slow(tmp_path / "both", every_n_iters=4, every_seconds=25.0, save_on_end=False, monitor=None)
    Trainer(max_iters=9, callbacks=[writer]).fit(toy_vessel())
    assert [iteration_of(path.name) for path in checkpoints_in(tmp_path / "both")] == [8, 7, 4, 1]


def test_without_pointers_there_are_none(tmp_path):
    writer, _ = fit(tmp_path, 2, pointers=None)
    assert names_in(tmp_path) == ["iteration_000001.ckpt", "iteration_000002.ckpt"]
    assert writer.latest_path.name == "iteration_000002.ckpt" and writer.best_path is not None


def test_senseless_settings_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="every_seconds of the checkpoint writer must be positive, or None, was 0"):
        CheckpointWriter(tmp_path, every_seconds=0)
    with pytest.raises(ConfigError, match="pointers of the checkpoint writer must be 'link', 'copy' or None, was 'none'"):
        CheckpointWriter(tmp_path, pointers="none")
    with pytest.raises(ConfigError, match="mode must be 'max' or 'min', was 'auto'"):
        CheckpointWriter(tmp_path, mode="auto")
