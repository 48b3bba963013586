"""QlibRL's cases for its queue of seeds (tests/rl/test_data_queue.py), re-expressed as ours.

There a thread fills a queue that sleeps, and whichever process is quickest takes the next seed. Here a seed is a number, cut into
fixed chunks: who runs a chunk changes nothing. ``test_pytorch_dataloader`` has no counterpart: it tests torch alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
from gymnasium import spaces

from rlcore.contracts import ActionInterpreter, Reward, SequenceSeedSet, Simulator, StateInterpreter
from rlcore.environment import build_backend, evaluate, looped_parts
from rlcore.environment.random_actions import SameAction
from rlcore.foundation.random_streams import RandomStreams

NUM_FRAMES = 100


class Frames:
    """A collection that is loaded lazily: item i is a frame of i + 1 rows."""

    def __len__(self):
        return NUM_FRAMES

    def __getitem__(self, index):
        assert 0 <= index < NUM_FRAMES
        return pd.DataFrame(np.random.default_rng(index).integers(0, 100, (index + 1, 4)), columns=list("ABCD"))


class ReadFrame(Simulator):
    """One step reads the whole frame."""

    def __init__(self, initial):
        self.frame, self.is_read = initial, False

    def step(self, action):
        self.is_read = True

    def get_state(self):
        return len(self.frame)

    def done(self):
        return self.is_read

    def metrics(self):
        return {"rows": len(self.frame), "sum": int(self.frame.to_numpy().sum())}


class NumRows(StateInterpreter):
    observation_space = spaces.Discrete(NUM_FRAMES, start=1)

    def interpret(self, state, status):
        return state


class Read(ActionInterpreter):
    action_space = spaces.Discrete(1)

    def interpret(self, state, action, status):
        return action


class OneForRows(Reward):
    def reward(self, outcome, status):
        return float(outcome)


def frame_parts():
    return looped_parts(ReadFrame, NumRows(), Read(), OneForRows(), max_steps=1)


def test_three_workers_share_one_pass():
    """Corrected: order and split are fixed (D19), nothing waits or sleeps (Q15), and workers are spawned, not forked (D21)."""
    seeds, policy = SequenceSeedSet(Frames()), SameAction(Read.action_space, 0)
    with build_backend("subproc", 3, chunk_deadline_seconds=60) as backend:
        table = evaluate(frame_parts(), policy, seeds, RandomStreams(0), "test", 7, backend=backend)
    assert table["seed_id"].tolist() == list(range(NUM_FRAMES))  # each once, and in order, not only as a set
    assert table["rows"].tolist() == list(range(1, NUM_FRAMES + 1))
    assert table["sum"].tolist() == [int(frame.to_numpy().sum()) for frame in map(Frames().__getitem__, range(NUM_FRAMES))]


CRASH = """
    import psutil
    from rlcore.environment import build_backend, evaluate
    from rlcore.environment.random_actions import SameAction
    from rlcore.contracts import SequenceSeedSet
    from rlcore.foundation.random_streams import RandomStreams
    from tests.reference.test_qlib_data_queue import Frames, Read, frame_parts

    if __name__ == "__main__":
        policy, number = SameAction(Read.action_space, 0), 0
        backend = build_backend("subproc", 2, chunk_deadline_seconds=60)  # and nobody closes it
        while True:
            evaluate(frame_parts(), policy, SequenceSeedSet(Frames()), RandomStreams(number), "train", 20, backend=backend)
            number += 1
            if number == NUM_PASSES:
                print(*(child.pid for child in psutil.Process().children(recursive=True)), flush=True)
                raise ValueError("the program crashed")
"""


@pytest.mark.parametrize("num_passes", [1, 3], ids=["finite", "infinite"])
def test_a_crash_ends_the_process_and_its_workers(num_passes):
    """Corrected: QlibRL's two cases assert nothing. Here the error is shown, the exit code tells, no process is left (D20)."""
    root = Path(__file__).parents[2]
    program = textwrap.dedent(CRASH).replace("NUM_PASSES", str(num_passes))
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 1 and "ValueError: the program crashed" in ended.stderr, ended.stderr
    pids = [int(pid) for pid in ended.stdout.split()]
    assert len(pids) >= 2
    deadline = time.monotonic() + 20
    while any(_is_there(pid) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _is_there(pid):
    try:
        return "multiprocessing" in " ".join(psutil.Process(pid).cmdline())  # the number may be somebody else's by now
    except psutil.Error:
        return False
