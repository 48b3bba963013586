"""QlibRL's cases for its trainer (tests/rl/test_trainer.py), re-expressed as ours.

The task: whoever always says 0 is right. How long an episode takes is decided by its seed; there it is drawn from the global
generator, and the policy sees noise.
"""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rlcore.agents.build_agent import build_agent
from rlcore.agents.on_policy_specs import PPOSpec
from rlcore.agents.specs import MLPSpec
from rlcore.contracts import ActionInterpreter, Reward, SequenceSeedSet, Simulator, StateInterpreter
from rlcore.environment import looped_parts
from rlcore.foundation.lanes import map_lanes
from rlcore.training.callbacks import Callback, EarlyStopping
from rlcore.training.checkpoint import read_checkpoint
from rlcore.training.checkpoint_writer import CheckpointWriter
from rlcore.training.trainer import Trainer
from rlcore.training.vessel import TrainingVessel

torch.set_num_threads(1)


class SayZero(Simulator):
    """Ends after one to four steps; right is who says 0 in the last."""

    def __init__(self, initial):
        self.length = 1 + int(np.random.default_rng(initial).binomial(3, 0.4))
        self.taken = self.said = self.accuracy = 0

    def step(self, action):
        self.taken += 1
        self.said, self.accuracy = action, 100 * (action == 0)

    def get_state(self):
        return {"accuracy": self.accuracy, "said": self.said}

    def done(self):
        return self.taken == self.length

    def metrics(self):
        return {"accuracy": self.accuracy}


class AsItIs(StateInterpreter):
    observation_space = spaces.Dict({"accuracy": spaces.Discrete(200), "said": spaces.Discrete(2)})

    def interpret(self, state, status):
        return state


class Say(ActionInterpreter):
    action_space = spaces.Discrete(2)

    def interpret(self, state, action, status):
        return int(action)


class RightAtTheEnd(Reward):
    def reward(self, outcome, status):
        return outcome["accuracy"] / 100 if status.is_done else 0.0


def zero_vessel(episodes_per_iteration=500, learning_rate=1e-2):
    parts = looped_parts(SayZero, AsItIs(), Say(), RightAtTheEnd(), max_steps=4)
    spec = PPOSpec(network=MLPSpec(sizes=(16,)), learning_rate=learning_rate, discount=1.0, batch_size=256, num_repeats=10)
    spaces_of = parts.state_interpreter.observation_space, parts.action_interpreter.action_space
    agent = build_agent(spec, *spaces_of, parts.state_interpreter, root_seed=0, device="cpu")
    return TrainingVessel(
        parts,
        agent,
        SequenceSeedSet(range(100)),
        SequenceSeedSet(range(10), "validation"),
        SequenceSeedSet(range(10), "test"),
        episodes_per_iteration=episodes_per_iteration,
        num_lanes=50,
        root_seed=0,
    )


def test_ten_iterations_learn_the_task():
    """The same, in a worker process; and the test is right in every episode, where QlibRL asks for 60 of 100."""
    trainer = Trainer(max_iters=10, finite_env_type="subproc", concurrency=1)
    vessel = zero_vessel()
    fitted = trainer.fit(vessel)
    assert (fitted.status, fitted.iteration, fitted.num_episodes) == ("completed", 10, 5000)
    assert trainer.metrics["train/accuracy/mean"] == pytest.approx(100 * trainer.metrics["train/return/mean"], abs=1e-4)
    assert trainer.metrics["train/accuracy/mean"] > 80
    tested = trainer.test(vessel)
    assert tested.metrics["test/accuracy/mean"] == 100.0 and len(tested.table) == 10


def test_a_trial_run_takes_so_many_episodes():
    """The same, in a worker process; a trial takes the first seeds, where QlibRL draws them from the global generator."""
    trainer = Trainer(max_iters=2, fast_dev_run=2, finite_env_type="shmem")
    assert trainer.fit(zero_vessel()).num_episodes == 4
    assert multiprocessing.active_children() == []  # D20
    assert trainer.test(zero_vessel()).table["seed_id"].tolist() == [0, 1]
    assert multiprocessing.active_children() == []


class Remember(Callback):
    """What each validation said, and the weights that it spoke of."""

    def __init__(self):
        super().__init__()
        self.said, self.weights = [], []

    def on_validate_end(self, trainer, vessel):
        self.said.append(trainer.metrics["validation/return/mean"])
        self.weights.append(map_lanes(np.array, _weights(vessel)))


def _weights(vessel):
    return {name: parameter.detach().numpy() for name, parameter in vessel.agent.model.named_parameters()}


def test_early_stopping_ends_at_the_second_validation_and_restores_the_best():
    """Corrected (E): QlibRL's case asks for the number of iterations only and never looks whether the best weights came back."""
    remember = Remember()
    stopping = EarlyStopping("validation/return/mean", restore_best_weights=True)
    trainer = Trainer(max_iters=10, val_every_n_iters=1, finite_env_type="dummy", callbacks=[remember, stopping])
    vessel = zero_vessel(learning_rate=3e-2)
    fitted = trainer.fit(vessel)
    assert remember.said[0] == 1.0  # the first 500 episodes suffice, so that nothing can be better
    assert (fitted.status, fitted.iteration) == ("early_stopped", 2)
    assert trainer.metrics["validation/accuracy/mean"] > 30
    best, last = remember.weights
    assert any((best[name] != last[name]).any() for name in best)
    map_lanes(np.testing.assert_array_equal, _weights(vessel), best)


def test_checkpoints_are_written_pointed_to_and_continued(tmp_path, monkeypatch):
    """Corrected: the pointer holds for a relative folder too (Q6, D13), and what goes on ends in the same bits (Q11)."""
    monkeypatch.chdir(tmp_path)
    vessel = zero_vessel(episodes_per_iteration=100)
    Trainer(max_iters=2, callbacks=[CheckpointWriter(Path("kept"), every_n_iters=1, monitor=None)]).fit(vessel)
    monkeypatch.chdir("/")
    kept = tmp_path / "kept"
    first, second = kept / "iteration_000001.ckpt", kept / "iteration_000002.ckpt"
    assert first.exists() and second.exists()
    assert (kept / "latest.ckpt").is_symlink() and (kept / "latest.ckpt").samefile(second)

    content = read_checkpoint(first)
    assert (content["iteration"], content["trainer"]["num_episodes"]) == (1, 100)

    again = zero_vessel(episodes_per_iteration=100)
    fitted = Trainer(max_iters=2).fit(again, ckpt_path=first)
    assert (fitted.iteration, fitted.num_episodes) == (2, 200)
    map_lanes(np.testing.assert_array_equal, _weights(again), _weights(vessel))
