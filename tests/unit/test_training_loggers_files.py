"""Episodes in CSV and parquet files: the same rows, typed; continued trainings leave the files of those never interrupted."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas
import pytest

from rlcore.environment.episode_table import EpisodeTable
from rlcore.foundation.errors import ContractError
from rlcore.training import CheckpointWriter, CsvLogger, ParquetLogger, Trainer, latest_valid_checkpoint
from rlcore.training.callbacks import Callback
from rlcore.training.csv_table import CsvTable
from rlcore.training.episode_files import EpisodeFiles
from rlcore.training.parquet_table import ParquetTable
from tests import training_toy
from tests.training_toy import WalkSeeds, toy_vessel


class Dies(Callback):
    """As a kill does: nothing is closed."""

    def __init__(self, at):
        super().__init__()
        self._at = at

    def on_iteration_start(self, trainer, vessel):
        if trainer.iteration == self._at:
            raise RuntimeError("planted")


def fit(folder, max_iters, *, resumed=False, dies_at=None, seeds=None, every=1):
    loggers = [CsvLogger(folder), ParquetLogger(folder)]
    callbacks = [CheckpointWriter(folder / "checkpoints", every_n_iters=every, monitor=None)]
    if dies_at is not None:
        callbacks.append(Dies(dies_at))
    vessel = toy_vessel(**({} if seeds is None else {"validation_seeds": seeds}))
    trainer = Trainer(max_iters=max_iters, val_every_n_iters=2, loggers=loggers, callbacks=callbacks)
    trainer.fit(vessel, latest_valid_checkpoint(folder / "checkpoints") if resumed else None)
    return trainer, vessel


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def test_parquet_holds_every_episode_with_types(tmp_path):
    trainer, vessel = fit(tmp_path, 4)
    for _ in range(2):
        result = trainer.test(vessel)
    train = pandas.read_parquet(tmp_path / "train_episodes.parquet")
    assert train["iteration"].tolist() == [1] * 8 + [2] * 8 + [3] * 8 + [4] * 8
    assert train["is_truncated"].dtype == bool and train["num_steps"].dtype == np.int64 and train["return"].dtype == float
    assert set(train["status"]) == {"ok"} and train["steps_home"].isna().any()
    validation = pandas.read_parquet(tmp_path / "validation_episodes.parquet")
    assert validation["iteration"].tolist() == [2] * 5 + [4] * 5 and validation["start"].tolist() == [1, -1, 2, -5, 3] * 2
    test = pandas.read_parquet(tmp_path / "test_episodes.parquet")  # of the second test alone
    assert test["return"].tolist() == result.table["return"].tolist() and len(test) == 3
    assert not list(tmp_path.glob("*.parts"))


def test_a_test_by_a_fresh_trainer_stands_at_iteration_0_and_leaves_the_training_alone(tmp_path):
    _, vessel = fit(tmp_path, 2)
    before = contents(tmp_path)
    for _ in range(2):
        Trainer(max_iters=1, loggers=[CsvLogger(tmp_path), ParquetLogger(tmp_path)]).test(vessel)
    after = contents(tmp_path)
    assert before.items() <= after.items()
    assert after.keys() - before.keys() == {"test_episodes.csv", "test_episodes.parquet"}
    assert pandas.read_parquet(tmp_path / "test_episodes.parquet")["iteration"].tolist() == [0, 0, 0]


def test_both_kinds_of_files_say_the_same(tmp_path):
    fit(tmp_path, 3)
    for phase in ("train", "validation"):
        csv = pandas.read_csv(tmp_path / f"{phase}_episodes.csv", float_precision="round_trip", keep_default_na=True)
        parquet = pandas.read_parquet(tmp_path / f"{phase}_episodes.parquet")
        assert list(csv) == list(parquet)
        pandas.testing.assert_frame_equal(csv.fillna({"error": ""}), parquet, check_dtype=False)


@pytest.mark.parametrize("dies_at", [3, 4, 5])
@pytest.mark.parametrize("every", [1, 2])
def test_a_continued_training_ends_with_the_same_bytes(tmp_path, dies_at, every):
    """Q19: files go on where the checkpoint stands, as if nothing had happened; later rows are taken back."""
    fit(tmp_path / "whole", 6, every=every)
    with pytest.raises(RuntimeError, match="planted"):
        fit(tmp_path / "parts", 6, dies_at=dies_at, every=every)
    assert list((tmp_path / "parts").glob("*.parts"))
    fit(tmp_path / "parts", 6, resumed=True, every=every)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")
    assert {"train_episodes.parquet", "validation_episodes.parquet", "train_episodes.csv"} <= contents(tmp_path / "whole").keys()


class KillsItself(Callback):
    def on_validate_end(self, trainer, vessel):
        if trainer.iteration == 4:
            os.kill(os.getpid(), signal.SIGKILL)


def run_until_killed(folder):
    """The child process: its rows of iterations 3 and 4 are younger than its last checkpoint."""
    callbacks = [CheckpointWriter(folder / "checkpoints", every_n_iters=2, monitor=None), KillsItself()]
    Trainer(max_iters=6, val_every_n_iters=2, loggers=[CsvLogger(folder), ParquetLogger(folder)], callbacks=callbacks).fit(
        toy_vessel()
    )


def test_a_kill_9_loses_nothing_that_was_handed_over(tmp_path):
    fit(tmp_path / "whole", 6, every=2)
    root = Path(training_toy.__file__).parent.parent
    code = f"import sys; sys.path[:0] = {[str(root), str(Path(__file__).parent)]!r}; import test_training_loggers_files as t; "
    code += f"t.run_until_killed(t.Path({str(tmp_path / 'parts')!r}))"
    killed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    rows = pandas.read_parquet(tmp_path / "parts/train_episodes.parquet.parts")
    assert sorted(rows["iteration"].unique()) == [1, 2, 3, 4]
    fit(tmp_path / "parts", 6, every=2, resumed=True)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")


def test_a_finished_training_that_goes_on_ends_with_the_same_bytes(tmp_path):
    fit(tmp_path / "whole", 6)
    for max_iters in (1, 3, 6):
        fit(tmp_path / "parts", max_iters, resumed=max_iters > 1)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")


def test_rows_of_a_training_in_progress_can_be_read(tmp_path):
    with pytest.raises(RuntimeError, match="planted"):
        fit(tmp_path, 6, dies_at=3)
    frame = pandas.read_parquet(tmp_path / "train_episodes.parquet.parts")
    assert sorted(frame["iteration"]) == [1] * 8 + [2] * 8 + [3] * 8


def test_a_kill_between_joining_and_deleting_the_parts_loses_and_doubles_nothing(tmp_path):
    with pytest.raises(RuntimeError, match="planted"):
        fit(tmp_path, 3, dies_at=3 - 1)
    parts = tmp_path / "train_episodes.parquet.parts"
    shutil.copytree(parts, tmp_path / "kept")
    table = ParquetTable(tmp_path / "train_episodes.parquet")
    table.close()
    joined = table.path.read_bytes()
    shutil.copytree(tmp_path / "kept", parts)  # as if the process had been killed before they were deleted
    (parts / ".000000003.parquet.x1y2").write_bytes(b"half")  # and while one was written
    again = ParquetTable(table.path)
    again.append(3, [{"return": 1.0}])
    again.close()
    assert pandas.read_parquet(table.path)["iteration"].tolist() == [1] * 8 + [2] * 8 + [3]
    again.cut_after(2, table.num_columns)
    assert table.path.read_bytes() == joined


def test_a_new_training_replaces_the_files_of_another(tmp_path):
    fit(tmp_path / "one", 4)
    shutil.copytree(tmp_path / "one", tmp_path / "two", ignore=shutil.ignore_patterns("checkpoints"))
    fit(tmp_path / "two", 1)
    assert pandas.read_parquet(tmp_path / "two/train_episodes.parquet")["iteration"].tolist() == [1] * 8
    assert not (tmp_path / "two/validation_episodes.parquet").exists()  # no validation yet
    assert not (tmp_path / "two/validation_episodes.csv").exists()


def test_several_validation_sets_have_a_file_each_and_are_cut_back(tmp_path):
    def sets():
        return {"near": WalkSeeds([1, -1]), "far": WalkSeeds([5, -5, 6])}

    fit(tmp_path / "whole", 4, seeds=sets())
    with pytest.raises(RuntimeError, match="planted"):
        fit(tmp_path / "parts", 4, seeds=sets(), dies_at=3)
    fit(tmp_path / "parts", 4, seeds=sets(), resumed=True)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")
    assert pandas.read_parquet(tmp_path / "whole/validation_far_episodes.parquet")["start"].tolist() == [5, -5, 6] * 2
    assert pandas.read_csv(tmp_path / "whole/validation_near_episodes.csv")["iteration"].tolist() == [2, 2, 4, 4]


def test_a_validation_that_came_after_the_checkpoint_is_taken_back(tmp_path):
    with pytest.raises(RuntimeError, match="planted"):
        fit(tmp_path / "parts", 4, dies_at=2)
    checkpoint = tmp_path / "parts/checkpoints/iteration_000001.ckpt"
    assert (tmp_path / "parts/validation_episodes.csv").exists()
    loggers = [CsvLogger(tmp_path / "parts"), ParquetLogger(tmp_path / "parts")]
    Trainer(max_iters=1, val_every_n_iters=2, loggers=loggers).fit(toy_vessel(), checkpoint)
    assert not list((tmp_path / "parts").glob("validation*"))


def test_phases_that_are_not_asked_for_are_left_alone(tmp_path):
    logger = ParquetLogger(tmp_path, phases=("validation",))
    Trainer(max_iters=2, val_every_n_iters=2, loggers=[logger]).fit(toy_vessel())
    assert [path.name for path in tmp_path.iterdir()] == ["validation_episodes.parquet"]


def table_of(**columns):
    return EpisodeTable({"seed_id": np.arange(2), **{name: np.asarray(column) for name, column in columns.items()}}, ())


@pytest.mark.parametrize("make", [CsvLogger, ParquetLogger])
def test_columns_that_come_later_are_added_and_cut_off_again(tmp_path, make):
    logger = make(tmp_path)
    logger.log_episodes("train", 1, table_of(price=[1.5, 2.5]))
    state = logger.state_dict()
    logger.close()
    (path,) = tmp_path.iterdir()
    at_one = path.read_bytes()
    logger.log_episodes(
        "train", 2, table_of(price=[1.0, np.nan], day=np.array(["2026-12-01"] * 2, "datetime64[ns]"), who=["a", "b"])
    )
    logger.close()
    frame = pandas.read_csv(path) if path.suffix == ".csv" else pandas.read_parquet(path)
    assert list(frame) == ["iteration", "seed_id", "price", "day", "who"]
    assert frame["day"].isna().tolist() == [True, True, False, False]
    logger.load_state_dict(state)
    logger.close()
    assert path.read_bytes() == at_one


def test_an_iteration_without_episodes_writes_nothing(tmp_path):
    logger = ParquetLogger(tmp_path)
    logger.log_episodes("train", 1, EpisodeTable({"seed_id": np.zeros(0, int)}, ()))
    logger.close()
    assert list(tmp_path.iterdir()) == []


def test_a_column_that_would_hide_the_iteration_is_refused(tmp_path):
    files = EpisodeFiles(tmp_path, ("train",), "parquet", ParquetTable)
    with pytest.raises(ContractError, match="must not be called 'iteration' to be written to a file: rename it"):
        files.append("train", 1, table_of(iteration=[1, 2]))


@pytest.mark.parametrize("make", [CsvTable, ParquetTable])
@pytest.mark.parametrize("resumed", [True, False])
def test_what_a_kill_left_half_written_goes_at_the_next_start(tmp_path, make, resumed):
    path = tmp_path / "train.table"
    make(path).append(1, [{"a": 1}])
    (tmp_path / ".train.table.ab_c12x9").write_bytes(b"half")
    (tmp_path / ".train.table.kept").write_bytes(b"somebody else's")
    again = make(path)
    if resumed:
        again.cut_after(1, 2)
    else:
        again.clear()
        again.append(1, [{"a": 2}])
    assert not (tmp_path / ".train.table.ab_c12x9").exists() and (tmp_path / ".train.table.kept").exists()


@pytest.mark.parametrize("closed_between", [True, False])
def test_a_column_whose_types_do_not_go_together_becomes_text(tmp_path, closed_between):
    logger = ParquetLogger(tmp_path)
    logger.log_episodes("train", 1, table_of(tag=[1, 2], price=[1, 2], flag=[True, False]))
    if closed_between:
        logger.close()
    logger.log_episodes("train", 2, table_of(tag=np.array(["a", "b"]), price=[1.5, np.nan], flag=[3, 4]))
    logger.log_episodes("train", 3, table_of(tag=np.array([5, "mixed"], object), price=[2, 3], flag=[True, False]))
    logger.close()
    frame = pandas.read_parquet(tmp_path / "train_episodes.parquet")
    assert frame["tag"].tolist() == ["1", "2", "a", "b", "5", "mixed"]
    assert frame["price"].tolist()[:3] == [1.0, 2.0, 1.5] and frame["price"].dtype == float  # numbers stay numbers
    assert frame["flag"].tolist() == ["True", "False", "3", "4", "True", "False"]
