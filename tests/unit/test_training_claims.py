"""Who may write where: one training at a time in a folder, none over another's files, and what cannot be is said at the start."""

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rlcore.foundation.errors import ConfigError
from rlcore.training import CsvLogger, MetricsWriter, ParquetLogger, TensorBoardLogger
from rlcore.training.callbacks import AFTER_CHECKPOINT, CHECKPOINT, Callback, EarlyStopping
from rlcore.training.checkpoint import checkpoints_in, iteration_of, read_checkpoint
from rlcore.training.checkpoint_writer import CheckpointWriter
from rlcore.training.claims import lock_path
from rlcore.training.trainer import Trainer
from tests import training_toy
from tests.training_toy import WalkSeeds, assert_same, toy_vessel

WRITERS = {
    "checkpoints": lambda folder: {"callbacks": [CheckpointWriter(folder, monitor=None)]},
    "metrics": lambda folder: {"callbacks": [MetricsWriter(folder)]},
    "csv": lambda folder: {"loggers": [CsvLogger(folder)]},
    "parquet": lambda folder: {"loggers": [ParquetLogger(folder)]},
    "tensorboard": lambda folder: {"loggers": [TensorBoardLogger(folder)]},
}


def roots(folder):
    return {path.name: read_checkpoint(path)["config"]["training"]["root_seed"] for path in checkpoints_in(folder)}


class Meanwhile(Callback):
    """Does something in the middle of a training."""

    def __init__(self, action):
        super().__init__()
        self._action = action

    def on_iteration_start(self, trainer, vessel):
        self._action()


@pytest.mark.parametrize("kind", WRITERS)
def test_a_second_training_in_one_folder_is_refused_before_it_touches_anything(tmp_path, kind):
    messages = []

    def second():
        before = sorted(tmp_path.iterdir())
        with pytest.raises(
            ConfigError, match="must be written by one training or test at a time, another that is still running"
        ) as told:
            Trainer(max_iters=1, **WRITERS[kind](tmp_path)).fit(toy_vessel(root_seed=9))
        messages.append(str(told.value))
        assert sorted(tmp_path.iterdir()) == before

    settings = WRITERS[kind](tmp_path)
    callbacks = [*settings.pop("callbacks", []), Meanwhile(second)]
    Trainer(max_iters=2, callbacks=callbacks, **settings).fit(toy_vessel())
    assert len(messages) == 2 and str(tmp_path) in messages[0]
    assert not list(tmp_path.glob(".*"))  # nothing is left behind


@pytest.mark.parametrize("kind", ["checkpoints", "csv"])
def test_a_claim_ends_with_a_training_that_fails(tmp_path, kind):
    def fail():
        raise RuntimeError("planted")

    settings = WRITERS[kind](tmp_path)
    failing = [*settings.pop("callbacks", []), Meanwhile(fail)]
    with pytest.raises(RuntimeError, match="planted"):
        Trainer(max_iters=1, callbacks=failing, **settings).fit(toy_vessel())
    Trainer(max_iters=1, **WRITERS[kind](tmp_path)).fit(toy_vessel())


def test_a_claim_ends_with_its_process_however_that_ends(tmp_path):
    root = Path(training_toy.__file__).parent.parent
    code = f"""if True:
        import os, sys
        sys.path.insert(0, {str(root)!r})
        from rlcore.training.claims import claimed
        from rlcore.training.callbacks import MetricsWriter
        from pathlib import Path
        with claimed([MetricsWriter(Path({str(tmp_path)!r}))], ["train"]):
            os.kill(os.getpid(), 9)
    """
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == -signal.SIGKILL
    assert lock_path(tmp_path / "train.csv").exists()
    Trainer(max_iters=1, callbacks=[MetricsWriter(tmp_path)]).fit(toy_vessel())
    assert not lock_path(tmp_path / "train.csv").exists()


def test_a_file_system_without_locks_is_told_of(tmp_path, monkeypatch, caplog):
    def refuse(*given):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("rlcore.foundation.file_locks.fcntl.flock", refuse)
    Trainer(max_iters=1, callbacks=[MetricsWriter(tmp_path)]).fit(toy_vessel())
    assert "cannot be locked (No locks available): nothing keeps a second one from writing there" in caplog.text


@pytest.mark.parametrize("kind", WRITERS)
def test_two_of_one_training_do_not_write_to_one_folder(tmp_path, kind):
    (what, [one]), (_, [other]) = (next(iter(WRITERS[kind](tmp_path / place).items())) for place in ("x", "x"))
    one.name, other.name = "one", "other"
    with pytest.raises(ConfigError, match=r"must be written by one callback or logger, was claimed by 'one' and 'other'"):
        Trainer(max_iters=1, **{what: [one, other]}).fit(toy_vessel())


def test_two_loggers_may_share_a_folder_where_they_write_other_files(tmp_path):
    loggers = [CsvLogger(tmp_path, ("train",), name="a"), CsvLogger(tmp_path, ("validation",), name="b"), ParquetLogger(tmp_path)]
    Trainer(max_iters=1, val_every_n_iters=1, loggers=loggers, callbacks=[CheckpointWriter(tmp_path)]).fit(toy_vessel())
    assert (tmp_path / "train_episodes.csv").exists() and (tmp_path / "validation_episodes.csv").exists()


def test_a_training_does_not_go_on_over_the_checkpoints_of_another(tmp_path):
    for name, root, max_iters in (("a", 7, 3), ("b", 9, 5)):
        callbacks = [CheckpointWriter(tmp_path / name / "checkpoints", monitor=None), MetricsWriter(tmp_path / name)]
        Trainer(max_iters=max_iters, callbacks=callbacks).fit(toy_vessel(root_seed=root))
    before, table = roots(tmp_path / "b/checkpoints"), (tmp_path / "b/train.csv").read_bytes()
    writers = [CheckpointWriter(tmp_path / "b/checkpoints", keep_last=1, monitor=None), MetricsWriter(tmp_path / "b")]
    with pytest.raises(ConfigError, match=r"must be empty, or hold the checkpoint to continue from, .* held 5 others than"):
        Trainer(max_iters=4, callbacks=writers).fit(toy_vessel(), tmp_path / "a/checkpoints/latest.ckpt")
    assert roots(tmp_path / "b/checkpoints") == before and (tmp_path / "b/train.csv").read_bytes() == table


@pytest.mark.parametrize("pointers", ["link", "copy"])
def test_a_training_goes_on_in_an_empty_folder_and_in_a_copy_of_its_own(tmp_path, pointers):
    def fit(folder, max_iters, resume_from=None):
        writer = CheckpointWriter(folder, monitor=None, pointers=pointers)
        return Trainer(max_iters=max_iters, callbacks=[writer]).fit(toy_vessel(), resume_from)

    fit(tmp_path / "a", 2)
    shutil.copytree(tmp_path / "a", tmp_path / "copy", symlinks=True)
    for folder, start in (("empty", "a/latest.ckpt"), ("copy", "a/iteration_000001.ckpt"), ("a", "copy/iteration_000002.ckpt")):
        assert fit(tmp_path / folder, 3, tmp_path / start).iteration == 3
        assert (tmp_path / folder / "iteration_000003.ckpt").exists()


class Stops(Callback):
    def on_iteration_end(self, trainer, vessel):
        if trainer.iteration == 3:
            trainer.stop("early_stopped", "enough")


@pytest.mark.parametrize("place", [CHECKPOINT, AFTER_CHECKPOINT])
def test_what_stops_after_the_checkpoint_was_due_still_has_one_at_the_end(tmp_path, place):
    def fit(folder, max_iters, *more, resume_from=None):
        # The best weights are put back at the end; the checkpoint is of the training, not of what came after.
        stopping = EarlyStopping(patience=99, restore_best_weights=True)
        writer = CheckpointWriter(folder, every_n_iters=10, monitor=None)
        trainer = Trainer(max_iters=max_iters, val_every_n_iters=1, callbacks=[stopping, writer, *more])
        return trainer.fit(toy_vessel(), resume_from)

    late = type("Late", (Stops,), {"order": place})()
    assert fit(tmp_path / "late", 9, late).status == "early_stopped"
    fit(tmp_path / "limit", 3)
    assert [iteration_of(path.name) for path in checkpoints_in(tmp_path / "late")] == [3]
    stopped, limited = (read_checkpoint(tmp_path / name / "latest.ckpt") for name in ("late", "limit"))
    assert_same(stopped["vessel"], limited["vessel"])
    # Taken up and stopped at once, nothing is written again.
    before = checkpoints_in(tmp_path / "late")[0].stat().st_mtime_ns
    fit(tmp_path / "late", 3, resume_from=tmp_path / "late/latest.ckpt")
    assert checkpoints_in(tmp_path / "late")[0].stat().st_mtime_ns == before


@pytest.mark.parametrize("make", [CsvLogger, ParquetLogger])
def test_a_new_training_leaves_files_of_other_names_alone(tmp_path, make):
    suffix = "csv" if make is CsvLogger else "parquet"
    others = [tmp_path / f"{name}_episodes.{suffix}" for name in ("train_before_the_fix", "validation_old", "validation_near")]
    for path in others:
        path.write_text("precious")
    sets = {"near": WalkSeeds([1]), "far": WalkSeeds([5])}
    Trainer(max_iters=1, val_every_n_iters=1, loggers=[make(tmp_path)]).fit(toy_vessel(validation_seeds=sets))
    assert [path.read_bytes() == b"precious" for path in others] == [True, True, False]  # near is a set of its own


@pytest.mark.parametrize("kind", WRITERS)
def test_a_file_where_a_folder_should_be_is_said_at_the_start(tmp_path, kind):
    (tmp_path / "file").write_text("x")

    def never():
        pytest.fail("began to train")

    settings = WRITERS[kind](tmp_path / "file")
    callbacks = [*settings.pop("callbacks", []), Meanwhile(never)]
    with pytest.raises(ConfigError, match=r"folder .*file must be one to write in, was not: File exists"):
        Trainer(max_iters=1, callbacks=callbacks, **settings).fit(toy_vessel())


@pytest.mark.parametrize(("more", "message"), [("../../x", "must give letters"), ("a" * 300, "at most 200 characters")])
def test_names_that_no_file_can_have_are_refused_at_once(tmp_path, more, message):
    with pytest.raises(ConfigError, match=message):
        CheckpointWriter(tmp_path, file_name=f"iteration_{{iteration:06d}}-{more}")


def test_a_full_disk_names_the_file_and_leaves_nothing_half_done(tmp_path, monkeypatch):
    def full(*given):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("rlcore.foundation.atomic_files.os.fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*iteration_000001\.ckpt'"):
        Trainer(max_iters=1, callbacks=[CheckpointWriter(tmp_path, monitor=None)]).fit(toy_vessel())
    monkeypatch.undo()
    monkeypatch.setattr("rlcore.training.checkpoint_writer.shutil.copyfile", lambda _, to: (to.write_bytes(b"half"), full()))
    with pytest.raises(OSError, match="No space left"):
        Trainer(max_iters=1, callbacks=[CheckpointWriter(tmp_path, monitor=None, pointers="copy")]).fit(toy_vessel())
    assert [path.name for path in tmp_path.iterdir()] == ["iteration_000001.ckpt"]
