"""TensorBoard's own reader sees every metric once per iteration, whatever interrupted the training."""

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rlcore.training import CheckpointWriter, Logger, LogLevel, TensorBoardLogger, Trainer, latest_valid_checkpoint
from rlcore.training.callbacks import Callback
from tests.training_toy import toy_vessel


class Keeping(Logger):
    def __init__(self):
        super().__init__("keeping", LogLevel.DEBUG)
        self.told = {}

    def log_metrics(self, iteration, metrics):
        for name, value in metrics.items():
            self.told.setdefault(name, []).append((iteration, pytest.approx(value, rel=1e-6)))  # TensorBoard keeps single floats


class Dies(Callback):
    def __init__(self, at):
        super().__init__()
        self._at = at

    def on_iteration_start(self, trainer, vessel):
        if trainer.iteration == self._at:
            raise RuntimeError("planted")


def seen_by_tensorboard(folder):
    reader = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    reader.Reload()
    return {tag: [(event.step, event.value) for event in reader.Scalars(tag)] for tag in reader.Tags()["scalars"]}


def fit(folder, max_iters, *, resumed=False, dies_at=None, every=2, level=LogLevel.DEBUG, loggers=()):
    callbacks = [CheckpointWriter(folder / "checkpoints", every_n_iters=every, monitor=None)]
    if dies_at is not None:
        callbacks.append(Dies(dies_at))
    own = TensorBoardLogger(folder / "events", level=level)
    trainer = Trainer(max_iters=max_iters, val_every_n_iters=2, loggers=[own, *loggers], callbacks=callbacks)
    vessel = toy_vessel()
    trainer.fit(vessel, latest_valid_checkpoint(folder / "checkpoints") if resumed else None)
    return trainer, vessel


def test_every_metric_is_a_scalar_of_its_name_and_the_step_is_the_iteration(tmp_path):
    keeping = Keeping()
    trainer, vessel = fit(tmp_path, 4, loggers=[keeping])
    trainer.test(vessel)
    seen = seen_by_tensorboard(tmp_path / "events")
    assert seen == keeping.told
    assert [step for step, _ in seen["validation/return/mean"]] == [2, 4]
    assert [step for step, _ in seen["test/return/mean"]] == [4]
    assert [step for step, _ in seen["train/update/loss"]] == [1, 2, 3, 4]


def test_only_its_level_and_above_is_written(tmp_path):
    fit(tmp_path, 1, level=LogLevel.INFO)
    seen = seen_by_tensorboard(tmp_path / "events")
    assert "train/return/mean" in seen and "train/num_failed" in seen
    assert not {"train/return/std", "train/update/loss"} & seen.keys()


@pytest.mark.parametrize("dies_at", [2, 3, 5])
def test_a_continued_training_shows_no_step_twice_and_none_is_lost(tmp_path, dies_at):
    fit(tmp_path / "whole", 6)
    with pytest.raises(RuntimeError, match="planted"):
        fit(tmp_path / "parts", 6, dies_at=dies_at)
    fit(tmp_path / "parts", 6, resumed=True)
    assert seen_by_tensorboard(tmp_path / "parts/events") == seen_by_tensorboard(tmp_path / "whole/events")
    for _ in range(2):  # nothing more to do: nothing changes
        fit(tmp_path / "parts", 6, resumed=True)
    assert seen_by_tensorboard(tmp_path / "parts/events") == seen_by_tensorboard(tmp_path / "whole/events")


def test_without_the_restart_mark_steps_would_show_twice(tmp_path, monkeypatch):
    """The planted violation."""
    monkeypatch.setattr(TensorBoardLogger, "load_state_dict", lambda self, state: self._open(2))
    with pytest.raises(RuntimeError, match="planted"):
        fit(tmp_path, 6, dies_at=5)
    fit(tmp_path, 6, resumed=True)
    steps = [step for step, _ in seen_by_tensorboard(tmp_path / "events")["train/return/mean"]]
    assert steps == [1, 2, 3, 4, 5, 5, 6]


def test_half_a_record_at_the_end_of_a_killed_file_costs_nothing(tmp_path):
    fit(tmp_path / "whole", 6)
    with pytest.raises(RuntimeError, match="planted"):
        fit(tmp_path / "parts", 6, dies_at=5)
    (path,) = (tmp_path / "parts/events").iterdir()
    path.write_bytes(path.read_bytes()[:-7])  # killed while it wrote iteration 5
    fit(tmp_path / "parts", 6, resumed=True)
    assert seen_by_tensorboard(tmp_path / "parts/events") == seen_by_tensorboard(tmp_path / "whole/events")


def test_a_new_training_deletes_the_events_of_another_and_nothing_else(tmp_path):
    fit(tmp_path, 4)
    fit(tmp_path, 5, resumed=True)
    foreign = tmp_path / "events/events.out.tfevents.123.host"
    foreign.write_bytes(b"")
    Trainer(max_iters=1, loggers=[TensorBoardLogger(tmp_path / "events")]).fit(toy_vessel())
    assert sorted(path.name for path in (tmp_path / "events").iterdir()) == [
        "events.out.tfevents.000001.fillwright",
        foreign.name,
    ]
    assert [step for step, _ in seen_by_tensorboard(tmp_path / "events")["train/return/mean"]] == [1]


def test_a_test_by_a_fresh_trainer_adds_to_what_the_training_wrote(tmp_path):
    _, vessel = fit(tmp_path, 2)
    before = seen_by_tensorboard(tmp_path / "events")
    metrics = Trainer(max_iters=1, loggers=[TensorBoardLogger(tmp_path / "events")]).test(vessel).metrics
    after = seen_by_tensorboard(tmp_path / "events")
    assert before.items() <= after.items()
    assert after["test/return/mean"] == [(0, pytest.approx(metrics["test/return/mean"], rel=1e-6))]
