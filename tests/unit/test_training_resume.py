"""The resume law: ``fit(6) == fit(3) + resume(3)``, to the bit, with everything that takes part; and that a breach is noticed."""

import io
import logging

import pytest
import torch

from rlcore.foundation.errors import CheckpointError
from rlcore.training import resume
from rlcore.training.callbacks import Callback, EarlyStopping, MetricsWriter
from rlcore.training.checkpoint import latest_valid_checkpoint, read_checkpoint
from rlcore.training.checkpoint_writer import CheckpointWriter
from rlcore.training.loggers import ConsoleLogger, CsvLogger
from rlcore.training.parquet_logger import ParquetLogger
from rlcore.training.trainer import Trainer
from tests.training_agents import CHOOSING, agent_for
from tests.training_toy import ToyAgent, WalkSeeds, assert_same, toy_vessel, walk_parts

KINDS = ["toy", *CHOOSING]


def agent_of(kind):
    return ToyAgent() if kind == "toy" else agent_for(kind, walk_parts())


def run(folder, max_iters, *, kind="toy", resumed=False, agent=None, extra=(), **settings):
    """Fit with everything that has state; returns the result, the vessel's state and the trainer."""
    callbacks = [
        MetricsWriter(folder / "metrics"),
        EarlyStopping(patience=4, restore_best_weights=True),
        CheckpointWriter(folder / "checkpoints", keep_last=2),
        *extra,
    ]
    loggers = [
        CsvLogger(folder / "episodes"),
        ParquetLogger(folder / "episodes"),
        ConsoleLogger(every_n_iters=4, stream=io.StringIO()),  # holds figures back, across a checkpoint too
    ]
    trainer = Trainer(max_iters=max_iters, val_every_n_iters=2, callbacks=callbacks, loggers=loggers, **settings)
    vessel = toy_vessel(agent or agent_of(kind))
    path = latest_valid_checkpoint(folder / "checkpoints") if resumed else None
    assert (path is not None) == resumed
    return trainer.fit(vessel, path), vessel, trainer


def assert_same_end(one, other):
    """The last checkpoints, the kept files and every written file are the same."""
    for part in ("metrics", "episodes"):
        names = sorted(path.name for path in (one / part).iterdir())
        assert names == sorted(path.name for path in (other / part).iterdir())
        for name in names:
            assert (one / part / name).read_bytes() == (other / part / name).read_bytes(), name
    names = sorted(path.name for path in (one / "checkpoints").iterdir())
    assert names == sorted(path.name for path in (other / "checkpoints").iterdir())
    for name in names:
        assert_same(read_checkpoint(one / "checkpoints" / name), read_checkpoint(other / "checkpoints" / name), name)


@pytest.mark.parametrize("kind", KINDS)
def test_a_continued_training_ends_like_one_that_was_never_interrupted(tmp_path, kind):
    whole, whole_vessel, whole_trainer = run(tmp_path / "whole", 6, kind=kind)
    run(tmp_path / "parts", 3, kind=kind)
    parts, parts_vessel, parts_trainer = run(tmp_path / "parts", 6, kind=kind, resumed=True)
    assert_same_end(tmp_path / "whole", tmp_path / "parts")
    assert_same(whole_vessel.state_dict(), parts_vessel.state_dict())  # the best weights, put back
    assert (whole.status, whole.iteration, whole.num_episodes) == ("completed", 6, 48)
    assert_same(whole.metrics, parts.metrics)
    assert (parts.num_episodes, parts.num_steps, parts.is_resume_exact) == (48, whole.num_steps, True)
    assert_same(whole_trainer.test(whole_vessel).metrics, parts_trainer.test(parts_vessel).metrics)


@pytest.mark.parametrize("kind", CHOOSING)
def test_learning_moves_the_parameters_so_that_equality_says_something(tmp_path, kind):
    run(tmp_path, 6, kind=kind)
    before, after = (read_checkpoint(tmp_path / f"checkpoints/iteration_00000{n}.ckpt")["vessel"] for n in (5, 6))
    with pytest.raises(AssertionError):
        assert_same(before, after)


@pytest.mark.parametrize("kind", CHOOSING)
def test_evaluation_changes_nothing_in_training(kind):
    """Exploration, lagged networks, running statistics and replay stay where training put them."""
    states = []
    for every in (None, 1):
        vessel = toy_vessel(agent_of(kind))
        trainer = Trainer(max_iters=3, val_every_n_iters=every)
        trainer.fit(vessel)
        if every is not None:
            trainer.test(vessel)
        states.append(vessel.state_dict())
    assert_same(*states)


def test_a_training_may_be_continued_many_times_and_in_worker_processes(tmp_path):
    run(tmp_path / "whole", 5)
    run(tmp_path / "parts", 1)
    for max_iters in (2, 4):
        run(tmp_path / "parts", max_iters, resumed=True)
    run(tmp_path / "parts", 5, resumed=True, finite_env_type="shmem", concurrency=2)
    assert_same_end(tmp_path / "whole", tmp_path / "parts")


class ForgetsOptimiser(ToyAgent):
    """The planted violation: the optimiser's state is dropped (Q11)."""

    def load_state_dict(self, state):
        super().load_state_dict({**state, "optimiser": self.optimiser.state_dict()})


class ForgetsMemory(ToyAgent):
    def load_state_dict(self, state):
        super().load_state_dict({**state, "memory": self.memory})


class DrawsGlobally(ToyAgent):
    """Randomness that no checkpoint holds."""

    def learn(self, rollout):
        with torch.no_grad():
            self.layer.bias += 0.01 * torch.rand(3)
        return super().learn(rollout)


@pytest.mark.parametrize("agent_class", [ForgetsOptimiser, ForgetsMemory, DrawsGlobally])
def test_a_breach_of_the_law_is_noticed(tmp_path, agent_class):
    run(tmp_path / "whole", 6, agent=agent_class())
    run(tmp_path / "parts", 3, agent=agent_class())
    run(tmp_path / "parts", 6, agent=agent_class(), resumed=True)
    with pytest.raises(AssertionError):
        assert_same_end(tmp_path / "whole", tmp_path / "parts")


def test_a_finished_training_goes_on_when_it_may_take_more_iterations(tmp_path):
    """Q8, D13: no stop is restored; the same limit again does nothing."""
    run(tmp_path, 3)
    again, _, _ = run(tmp_path, 3, resumed=True)
    assert (again.status, again.iteration) == ("completed", 3)
    more, _, _ = run(tmp_path, 5, resumed=True)
    assert (more.status, more.iteration) == ("completed", 5)


def test_a_training_that_stopped_early_stays_stopped_unless_given_patience(tmp_path):
    def fit(max_iters, patience, resumed):
        stopping = EarlyStopping(patience=patience, min_delta=1e9)  # nothing improves that much
        trainer = Trainer(max_iters=max_iters, val_every_n_iters=1, callbacks=[stopping, CheckpointWriter(tmp_path)])
        return trainer.fit(toy_vessel(), latest_valid_checkpoint(tmp_path) if resumed else None)

    assert (fit(9, 2, False).status, fit(9, 2, True).status) == ("early_stopped", "early_stopped")
    assert fit(9, 2, True).iteration == 3
    assert fit(9, 5, True).iteration == 6


def test_early_stopping_counts_on_across_a_continuation(tmp_path):
    """Q9, D13: wait and best are restored, and ``on_fit_start`` does not wipe them."""

    def fit(max_iters, resumed):
        stopping = EarlyStopping(patience=4, min_delta=1e9)
        trainer = Trainer(max_iters=max_iters, val_every_n_iters=1, callbacks=[stopping, CheckpointWriter(tmp_path)])
        return trainer.fit(toy_vessel(), latest_valid_checkpoint(tmp_path) if resumed else None)

    fit(3, False)
    result = fit(9, True)
    assert (result.status, result.iteration) == ("early_stopped", 5)  # the first, and four without improvement


class Counting(Callback):
    def __init__(self, name):
        super().__init__(name)
        self.count = 0

    def reset(self):
        self.count = 0

    def on_train_end(self, trainer, vessel):
        self.count += 1

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]


def test_callbacks_may_come_and_go_and_change_places(tmp_path, caplog):
    """Q10: states belong to names, not to places; what is new begins anew."""
    run(tmp_path, 2, extra=[Counting("a"), Counting("b"), Counting("gone")])
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        new, b, a = Counting("new"), Counting("b"), Counting("a")
        run(tmp_path, 3, resumed=True, extra=[new, b, a])
    assert (new.count, a.count, b.count) == (1, 3, 3)
    assert "callback 'new' is not in the checkpoint: it begins anew" in caplog.text
    assert "the checkpoint's callback 'gone' takes no part any more" in caplog.text


def test_a_damaged_newest_checkpoint_costs_one_iteration_and_no_bit(tmp_path, caplog):
    run(tmp_path / "whole", 6)
    run(tmp_path / "parts", 4)
    newest = tmp_path / "parts/checkpoints/iteration_000004.ckpt"
    newest.write_bytes(newest.read_bytes()[:-100])
    _, _, trainer = run(tmp_path / "parts", 6, resumed=True)
    assert trainer.resumed_from.name == "iteration_000003.ckpt" and "iteration_000004.ckpt" in caplog.text
    assert_same_end(tmp_path / "whole", tmp_path / "parts")
    with pytest.raises(CheckpointError, match="half-written"):
        newest.write_bytes(b"FWCKPT01" + bytes(50))
        Trainer(max_iters=6).fit(toy_vessel(), newest)


def test_another_config_is_refused_before_anything_is_touched(tmp_path):
    run(tmp_path, 2)
    path = latest_valid_checkpoint(tmp_path / "checkpoints")
    other = toy_vessel(num_lanes=5, train_seeds=WalkSeeds([1, 2]), config={"training": {"learning_rate": 0.1}})
    before = other.state_dict()
    with pytest.raises(CheckpointError) as caught:
        Trainer(max_iters=3, callbacks=[MetricsWriter(tmp_path / "metrics")]).fit(other, path)
    message = str(caught.value)
    assert "training.num_lanes: 4 there, 5 here" in message
    assert "data.train_seeds" in message and "training.learning_rate: '(absent)' there, 0.1 here" in message
    assert "validation_seeds" not in message
    assert_same(other.state_dict(), before)
    assert (tmp_path / "metrics/train.csv").read_text().count("\n") == 3
    changed_budget = Trainer(
        max_iters=3, val_every_n_iters=1, wall_clock_budget_seconds=60, concurrency=2, finite_env_type="dummy"
    )
    assert changed_budget.fit(toy_vessel(), path).iteration == 3


def test_statistics_that_are_missing_are_an_error(tmp_path):
    """T32, T36: no policy goes on, or is judged, with a fresh mean and deviation in place of those it was trained with."""
    run(tmp_path, 2, kind="ppo")
    path = latest_valid_checkpoint(tmp_path / "checkpoints")
    content = read_checkpoint(path)
    model = content["vessel"]["agent"]["model"]
    statistics = [name for name in model if name.endswith(("mean", "variance", "count"))]
    assert len(statistics) >= 3
    for name in statistics:
        rest = {key: value for key, value in model.items() if key != name}
        state = {**content["vessel"], "agent": {**content["vessel"]["agent"], "model": rest}}
        with pytest.raises(CheckpointError, match=f"must fit the agent.s spec and spaces, does not: (?s:.*){name}"):
            toy_vessel(agent_of("ppo")).load_state_dict(state)


def test_other_versions_or_threads_warn_and_mark_the_run(tmp_path, caplog, monkeypatch):
    run(tmp_path, 2)
    torch.set_num_threads(2)
    try:
        with caplog.at_level(logging.WARNING):
            inexact, _, _ = run(tmp_path, 3, resumed=True)
    finally:
        torch.set_num_threads(1)
    assert not inexact.is_resume_exact
    assert "is not exact to the bit: num_threads: '1' there, '2' here" in caplog.text
    still, _, _ = run(tmp_path, 5, resumed=True)
    assert not still.is_resume_exact  # once inexact, always
    run(tmp_path / "code", 2)
    monkeypatch.setattr(resume, "code_fingerprint", lambda: "another")
    monkeypatch.setattr("rlcore.training.vessel.code_fingerprint", lambda: "another")
    assert not run(tmp_path / "code", 3, resumed=True)[0].is_resume_exact


def test_loading_leaves_the_callers_state_alone(tmp_path):
    run(tmp_path, 2)
    path = latest_valid_checkpoint(tmp_path / "checkpoints")
    content, same = read_checkpoint(path), read_checkpoint(path)
    for kind in ("vessel",):
        vessel = toy_vessel()
        vessel.load_state_dict(content[kind])
        Trainer(max_iters=1).fit(vessel)
        assert_same(content, same)
