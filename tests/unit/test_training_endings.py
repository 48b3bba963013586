"""How a training ends before its last iteration: budgets, SIGTERM, requests from elsewhere, sinks that cannot close."""

import os
import signal
import threading

import pytest

from rlcore.training.callbacks import Callback
from rlcore.training.checkpoint_writer import CheckpointWriter
from rlcore.training.loggers import Logger
from rlcore.training.trainer import Trainer
from tests.training_toy import Spy, ToyAgent, assert_same, toy_vessel


def test_wall_clock_budget_ends_after_the_iteration_in_progress():
    result = Trainer(wall_clock_budget_seconds=1e-9).fit(toy_vessel())
    assert (result.status, result.iteration) == ("out_of_time", 0)

    class Slow(Callback):
        def on_train_start(self, trainer, vessel):
            threading.Event().wait(0.3)

    spy = Spy()
    result = Trainer(wall_clock_budget_seconds=0.2, callbacks=[Slow(), spy]).fit(toy_vessel())
    assert (result.status, result.iteration) == ("out_of_time", 1)
    assert spy.seen[-2:] == [("iteration_end", 1), ("fit_end", 1)]


def terminate_in_the_third_update(agent):
    if agent.num_updates == 2:
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(100):
            threading.Event().wait(0.01)
        pytest.fail("SIGTERM did not cut through the update")


def test_sigterm_abandons_the_iteration_and_the_last_checkpoint_stands(tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    writer, spy = CheckpointWriter(tmp_path, monitor=None), Spy()
    result = Trainer(max_iters=5, callbacks=[writer, spy]).fit(
        toy_vessel(ToyAgent(before_learning=terminate_in_the_third_update))
    )
    assert result.status == "terminated"
    assert result.reason == "asked to stop: iteration 3 was abandoned, the last checkpoint stands"
    assert result.iteration == 2 and result.num_episodes == 16
    assert writer.latest_path == tmp_path / "iteration_000002.ckpt"
    assert sorted(path.name for path in tmp_path.glob("*2.ckpt")) == ["iteration_000002.ckpt"]
    assert not (tmp_path / "iteration_000003.ckpt").exists()
    assert spy.seen[-1] == ("fit_end", 2)
    assert signal.getsignal(signal.SIGTERM) is before
    continued = toy_vessel()
    Trainer(max_iters=5).fit(continued, writer.latest_path)
    whole = toy_vessel()
    Trainer(max_iters=5).fit(whole)
    assert_same(continued.state_dict(), whole.state_dict())


def test_sigterm_with_worker_processes_leaves_none_behind():
    import multiprocessing

    agent = ToyAgent(before_learning=terminate_in_the_third_update)
    trainer = Trainer(max_iters=5, finite_env_type="subproc", concurrency=1)
    assert trainer.fit(toy_vessel(agent)).status == "terminated"
    assert multiprocessing.active_children() == []


def test_sigterm_does_not_cut_through_a_callback():
    done = []

    class Working(Callback):
        def on_iteration_end(self, trainer, vessel):
            os.kill(os.getpid(), signal.SIGTERM)
            threading.Event().wait(0.01)
            done.append(trainer.iteration)

    result = Trainer(max_iters=3, callbacks=[Working()]).fit(toy_vessel())
    assert done == [1] and (result.status, result.iteration) == ("terminated", 1)


def test_a_second_sigterm_does_not_cut_through_the_clean_up_of_the_first():
    class Terminating(Callback):
        def on_fit_end(self, trainer, vessel):
            os.kill(os.getpid(), signal.SIGTERM)
            seen.append(trainer.status)

    seen = []
    result = Trainer(max_iters=5, callbacks=[Terminating()]).fit(
        toy_vessel(ToyAgent(before_learning=terminate_in_the_third_update))
    )
    assert (seen, result.status) == (["terminated"], "terminated")


def test_sigterm_when_the_training_is_over_goes_to_whoever_handled_it_before():
    """It is not swallowed: a program that was asked to end does not go on with what comes after the training."""

    class Terminating(Callback):
        def on_fit_end(self, trainer, vessel):
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGTERM)
            seen.append((trainer.status, trainer.iteration))

    seen = []
    before = signal.signal(signal.SIGTERM, lambda *_: seen.append("the one before"))
    try:
        result = Trainer(max_iters=2, callbacks=[Terminating()]).fit(toy_vessel())
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (result.status, seen) == ("completed", [("completed", 2), "the one before"])


def test_in_another_thread_interrupt_does_what_sigterm_does():
    results = []
    trainer = Trainer(max_iters=10**6)
    thread = threading.Thread(target=lambda: results.append(trainer.fit(toy_vessel())))
    thread.start()
    while trainer.iteration < 2:
        threading.Event().wait(0.005)
    trainer.interrupt()
    thread.join(20)
    assert results[0].status == "terminated" and results[0].iteration >= 2


def test_an_interruption_before_a_training_ends_that_one_and_no_other():
    trainer = Trainer(max_iters=2)
    trainer.interrupt()
    assert [trainer.fit(toy_vessel()).status for _ in range(2)] == ["terminated", "completed"]
    trainer.interrupt()
    trainer.interrupt()
    assert [trainer.fit(toy_vessel()).status for _ in range(2)] == ["terminated", "completed"]


def test_a_logger_that_cannot_close_keeps_nobody_from_ending():
    ends = []

    class Closing(Logger):
        def close(self):
            ends.append(self.name)
            if self.name == "a":
                raise RuntimeError("planted")

    class Ending(Callback):
        def on_fit_end(self, trainer, vessel):
            ends.append("fit")

    with pytest.raises(RuntimeError, match="planted"):
        Trainer(max_iters=1, loggers=[Closing("a"), Closing("b")], callbacks=[Ending()]).fit(toy_vessel())
    assert ends == ["a", "b", "fit"]
