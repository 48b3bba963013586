"""Early stopping, checkpoints and metric files: each rule by hand."""

import logging
import math
import os
from types import SimpleNamespace

import pytest

from rlcore.foundation.errors import ConfigError
from rlcore.training.callbacks import EarlyStopping, MetricsWriter
from rlcore.training.checkpoint import latest_valid_checkpoint, read_checkpoint
from rlcore.training.checkpoint_writer import CheckpointWriter
from rlcore.training.csv_table import CsvTable
from rlcore.training.trainer import Trainer
from tests.training_toy import WalkSeeds, assert_same, toy_vessel

SCORE = "validation/return/mean"


def fit_with_scores(scores, callback, *, every=1):
    """Run a real training in which validation after iteration i shows ``scores[i - 1]`` (None: the metric is absent)."""

    class Scored(Trainer):
        def _publish(self, metrics):
            if SCORE in metrics:
                score = scores[self.iteration - 1]
                metrics = {**metrics, SCORE: score} if score is not None else {k: v for k, v in metrics.items() if k != SCORE}
            super()._publish(metrics)

    trainer = Scored(max_iters=len(scores), val_every_n_iters=every, callbacks=[callback])
    vessel = toy_vessel()
    return trainer.fit(vessel), vessel


@pytest.mark.parametrize(
    ("scores", "settings", "stops_after", "best"),
    [
        ([1, 2, 2, 3], {}, 3, (2, 2)),  # patience 0: the first without improvement
        ([1, 2, 2, 3], {"patience": 1}, 3, (2, 2)),  # the same as 0
        ([1, 2, 2, 3, 3, 3], {"patience": 2}, 6, (3, 4)),
        ([5, 4, 3, 3, 2], {"mode": "min"}, 4, (3, 3)),
        ([1.0, 1.4, 1.6, 1.7, 2.1], {"min_delta": 0.5, "patience": 2}, 5, (1.6, 3)),
        ([1.0, 1.4, 1.5, 9.0], {"min_delta": -0.5, "patience": 2}, 3, (1.0, 1)),  # not more than by 0.5
        ([1, 2, 3, 9, 9], {"baseline": 5, "patience": 3}, 3, (3, 3)),  # better, but never better than the baseline
        ([1, 2, 9, 9, 9, 9], {"baseline": 5, "patience": 3}, 6, (9, 3)),
        ([1], {"baseline": 5}, None, (1, 1)),  # never at the first validation
        ([1, None, None, 1, 9], {"patience": 2}, None, (9, 5)),  # nothing is judged by a number that is not there
        ([-math.inf, 1, 1], {"patience": 2}, None, (1, 2)),
    ],
)
def test_early_stopping_by_hand(scores, settings, stops_after, best):
    stopping = EarlyStopping(SCORE, **settings)
    result, _ = fit_with_scores(scores, stopping)
    assert (result.status, result.iteration) == (("early_stopped", stops_after) if stops_after else ("completed", len(scores)))
    assert (stopping.best, stopping.best_iteration) == best


def test_early_stopping_watches_validation_and_says_what_it_watched():
    """D16: not the training reward, and the message names the monitored metric."""
    assert EarlyStopping().monitor == "validation/return/mean"
    result, _ = fit_with_scores([2, 1], EarlyStopping())
    assert result.reason == "validation/return/mean did not improve in 1 validations; best 2 after iteration 1"


def test_a_missing_metric_is_said_with_the_nearest_name(caplog):
    with caplog.at_level(logging.WARNING):
        Trainer(max_iters=1, val_every_n_iters=1, callbacks=[EarlyStopping("validation/returns/mean")]).fit(toy_vessel())
    assert (
        "'validation/returns/mean' is not among the metrics of this iteration (did you mean 'validation/return/mean'?)"
        in caplog.text
    )


def test_early_stopping_without_validation_is_refused():
    with pytest.raises(ConfigError, match="val_every_n_iters must be set to stop early by validation/return/mean, was None"):
        Trainer(max_iters=1, callbacks=[EarlyStopping()]).fit(toy_vessel())
    with pytest.raises(ConfigError, match="patience of early stopping must be 0 or more, was -1"):
        EarlyStopping(patience=-1)


def test_a_metric_of_training_is_judged_after_every_iteration_and_needs_no_validation():
    class Scored(Trainer):
        def _publish(self, metrics):
            super()._publish({**metrics, "train/return/mean": [3.0, 5.0, 4.0, 4.5, 5.0, 9.0][self.iteration - 1]})

    stopping = EarlyStopping("train/return/mean", patience=3)
    result = Scored(max_iters=6, callbacks=[stopping]).fit(toy_vessel())
    assert (result.status, result.iteration) == ("early_stopped", 5)
    assert result.reason == "train/return/mean did not improve in 3 iterations; best 5 after iteration 2"
    # With validations in between it is judged no more often.
    result = Scored(max_iters=6, val_every_n_iters=1, callbacks=[EarlyStopping("train/return/mean", patience=3)]).fit(
        toy_vessel()
    )
    assert result.iteration == 5


def test_the_best_by_a_metric_of_training_is_kept(tmp_path):
    class Scored(Trainer):
        def _publish(self, metrics):
            super()._publish({**metrics, "train/update/loss": [3.0, 1.0, 2.0, 4.0][self.iteration - 1]})

    writer = CheckpointWriter(tmp_path, keep_last=1, monitor="train/update/loss", mode="min")
    Scored(max_iters=4, callbacks=[writer]).fit(toy_vessel())
    assert files(tmp_path) == [2, 4] and writer.best == 1.0


def test_one_of_several_validation_sets_is_watched(tmp_path):
    """Each set has its own metrics; early stopping and the best checkpoint follow the one they name."""

    class Scored(Trainer):
        def _publish(self, metrics):
            scores = {"near": [1.0, 2.0, 3.0, 4.0, 5.0], "far": [2.0, 3.0, 1.0, 1.0, 9.0]}
            for name, by_iteration in scores.items():
                if f"validation/{name}/return/mean" in metrics:
                    metrics = {**metrics, f"validation/{name}/return/mean": by_iteration[self.iteration - 1]}
            super()._publish(metrics)

    def fit(name):
        writer = CheckpointWriter(tmp_path / name, monitor=f"validation/{name}/return/mean")
        stopping = EarlyStopping(f"validation/{name}/return/mean", patience=2, name="stopping")
        vessel = toy_vessel(validation_seeds={"near": WalkSeeds([1, -1]), "far": WalkSeeds([5, -6])})
        return Scored(max_iters=5, val_every_n_iters=1, callbacks=[stopping, writer]).fit(vessel), writer

    result, writer = fit("far")
    assert (result.status, result.iteration, writer.best_iteration) == ("early_stopped", 4, 2)
    result, writer = fit("near")
    assert (result.status, result.iteration, writer.best_iteration) == ("completed", 5, 5)


def test_a_mode_that_is_none_is_refused():
    with pytest.raises(ConfigError, match="mode must be 'max' or 'min', was 'maximum'"):
        EarlyStopping(mode="maximum")


def test_best_weights_are_put_back_at_the_end():
    _, best = fit_with_scores([1, 9], EarlyStopping())
    _, restored = fit_with_scores([1, 9, 5, 4], EarlyStopping(patience=2, restore_best_weights=True))
    assert_same(restored.agent.state_dict(), best.agent.state_dict())
    _, last = fit_with_scores([1, 9, 5, 4], EarlyStopping(patience=2))
    with pytest.raises(AssertionError):
        assert_same(last.agent.state_dict(), best.agent.state_dict())


def files(folder):
    return sorted(int(path.stem.removeprefix("iteration_")) for path in folder.glob("iteration_*.ckpt"))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"every_n_iters": 3, "save_on_end": False}, [3, 6]),  # D12, Q7: after 3 and 6, where validation with n = 3 is too
        ({"every_n_iters": 3}, [3, 6, 7]),
        ({"every_n_iters": None}, [7]),
        ({"every_n_iters": None, "save_on_end": False}, []),
        ({"keep_last": 2}, [6, 7]),
        ({}, [1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_which_iterations_are_kept(tmp_path, settings, expected):
    Trainer(max_iters=7, callbacks=[CheckpointWriter(tmp_path, monitor=None, **settings)]).fit(toy_vessel())
    assert files(tmp_path) == expected
    for iteration in expected:
        assert read_checkpoint(tmp_path / f"iteration_{iteration:06d}.ckpt")["iteration"] == iteration


def test_the_best_by_validation_is_never_dropped(tmp_path):
    writer = CheckpointWriter(tmp_path, every_n_iters=4, keep_last=1, save_on_end=False)
    fit_with_scores([1, 5, 3, 4, 2, 1, 0, 0], writer)
    assert files(tmp_path) == [2, 8]
    assert writer.best_path == tmp_path / "iteration_000002.ckpt" and writer.best == 5
    assert read_checkpoint(tmp_path / "best.ckpt")["iteration"] == 2
    assert read_checkpoint(tmp_path / "latest.ckpt")["iteration"] == 8
    writer = CheckpointWriter(tmp_path / "min", mode="min", keep_last=1)
    fit_with_scores([3, 1, 2], writer)
    assert files(tmp_path / "min") == [2, 3] and writer.best_path.name == "iteration_000002.ckpt"


def test_the_test_can_run_on_the_best_weights_not_the_last(tmp_path):
    """D16: which agent is tested is said, and the best is at hand."""
    writer = CheckpointWriter(tmp_path)
    _, vessel = fit_with_scores([1, 9, 5], writer)
    Trainer(max_iters=1).test(vessel, writer.best_path)
    _, best = fit_with_scores([1, 9], EarlyStopping())
    assert_same(vessel.agent.state_dict(), best.agent.state_dict())


@pytest.mark.parametrize("pointers", ["link", "copy"])
def test_pointers_hold_for_a_relative_folder_and_after_a_move(tmp_path, monkeypatch, pointers):
    """Q6, D13: a relative folder must not give a dangling link."""
    monkeypatch.chdir(tmp_path)
    Trainer(max_iters=2, callbacks=[CheckpointWriter("run/checkpoints", monitor=None, pointers=pointers)]).fit(toy_vessel())
    (tmp_path / "run").rename(tmp_path / "moved")
    monkeypatch.chdir("/")
    latest = tmp_path / "moved/checkpoints/latest.ckpt"
    assert read_checkpoint(latest)["iteration"] == 2
    assert latest.is_symlink() == (pointers == "link")
    if pointers == "link":
        assert os.readlink(latest) == "iteration_000002.ckpt"  # noqa: PTH115  # the text of the link itself
    assert latest_valid_checkpoint(latest.parent).name == "iteration_000002.ckpt"


def test_a_new_training_does_not_mix_with_an_old_one(tmp_path):
    def callbacks():
        return [MetricsWriter(tmp_path / "metrics"), CheckpointWriter(tmp_path, monitor=None)]

    Trainer(max_iters=2, callbacks=callbacks()).fit(toy_vessel())
    before = (tmp_path / "metrics/train.csv").read_bytes()
    with pytest.raises(ConfigError, match=r"folder of checkpoints must be empty for a new training, .* held 2: continue from"):
        Trainer(max_iters=2, callbacks=callbacks()).fit(toy_vessel())
    assert (tmp_path / "metrics/train.csv").read_bytes() == before


def test_what_a_kill_left_undone_is_done_at_the_next_start(tmp_path):
    def trainer(max_iters):
        return Trainer(max_iters=max_iters, callbacks=[CheckpointWriter(tmp_path, monitor=None, keep_last=1)])

    trainer(2).fit(toy_vessel())
    (tmp_path / "iteration_000001.ckpt").write_bytes((tmp_path / "iteration_000002.ckpt").read_bytes())  # not dropped yet
    (tmp_path / ".iteration_000003.ckpt.x1y2").write_bytes(b"half")
    (tmp_path / "latest.ckpt").unlink()  # not pointed yet
    trainer(2).fit(toy_vessel(), tmp_path / "iteration_000002.ckpt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["iteration_000002.ckpt", "latest.ckpt"]


def test_senseless_settings_are_refused(tmp_path):
    for name in ("every_n_iters", "keep_last"):
        with pytest.raises(ConfigError, match=f"{name} of the checkpoint writer must be 1 or more, was 0"):
            CheckpointWriter(tmp_path, **{name: 0})


def test_metrics_writer_writes_a_row_per_iteration(tmp_path):
    import pandas

    trainer = Trainer(max_iters=5, val_every_n_iters=2, callbacks=[MetricsWriter(tmp_path)])
    result = trainer.fit(toy_vessel())
    train = pandas.read_csv(tmp_path / "train.csv", float_precision="round_trip")
    validation = pandas.read_csv(tmp_path / "validation.csv", float_precision="round_trip")
    assert train["iteration"].tolist() == [1, 2, 3, 4, 5]
    assert validation["iteration"].tolist() == [2, 4]
    assert all(name == "iteration" or name.startswith("train/") for name in train)
    assert {name: train[name].iloc[-1] for name in result.metrics} == result.metrics


def test_csv_table_gains_columns_and_is_cut_back_to_what_it_was(tmp_path):
    table = CsvTable(tmp_path / "t.csv")
    table.append(1, [{"a": 0.1, "b": "x,y"}])
    at_one = table.path.read_bytes()
    table.append(2, [{"b": "z", "c": 3}, {"a": 1e-300}])
    assert table.path.read_text() == 'iteration,a,b,c\n1,0.1,"x,y",\n2,,z,3\n2,1e-300,,\n'
    with table.path.open("ab") as stream:
        stream.write(b"2,0.5,ha")  # the process was killed here
    again = CsvTable(tmp_path / "t.csv")
    again.cut_after(1, 3)
    assert table.path.read_bytes() == at_one
    again.append(2, [{"c": 3}])
    assert table.path.read_text() == 'iteration,a,b,c\n1,0.1,"x,y",\n2,,,3\n'
    again.cut_after(0, 0)
    assert not table.path.exists()


def test_csv_table_goes_on_after_a_kill_between_rows(tmp_path):
    CsvTable(tmp_path / "t.csv").append(1, [{"a": 1}])
    CsvTable(tmp_path / "t.csv").append(2, [{"a": 2}])
    assert (tmp_path / "t.csv").read_text() == "iteration,a\n1,1\n2,2\n"


def test_early_stopping_state_is_what_a_checkpoint_needs():
    """Q9, D13: nothing that was loaded is wiped by ``on_fit_start``."""
    stopping = EarlyStopping(SCORE, patience=3)
    fit_with_scores([5, 1], stopping)
    loaded = EarlyStopping(SCORE, patience=3)
    loaded.load_state_dict(stopping.state_dict())
    loaded.on_fit_start(SimpleNamespace(val_every_n_iters=1), None)
    assert (loaded.wait, loaded.best, loaded.best_iteration) == (1, 5, 1)


@pytest.mark.parametrize("name", ["min_delta", "baseline"])
def test_what_nothing_is_better_than_is_refused(name):
    with pytest.raises(ConfigError, match=f"{name} of early stopping must be finite, was nan"):
        EarlyStopping(**{name: math.nan})


def test_counts_that_are_no_whole_numbers_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"patience of early stopping must be a whole number of 0 or more, was 1\.5"):
        EarlyStopping(patience=1.5)
    for name in ("every_n_iters", "keep_last"):
        with pytest.raises(ConfigError, match=f"{name} of the checkpoint writer must be a whole number of 1 or more, was '3'"):
            CheckpointWriter(tmp_path, **{name: "3"})
    with pytest.raises(ConfigError, match="every_seconds of the checkpoint writer must be positive, or None, was nan"):
        CheckpointWriter(tmp_path, every_seconds=math.nan)
