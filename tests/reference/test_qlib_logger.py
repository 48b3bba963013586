"""QlibRL's cases for its loggers (tests/rl/test_logger.py), re-expressed as ours.

There a simulator logs through its environment; here it returns auxiliary information and metrics, which become columns of the
episode table, and the loggers write what stands there.
"""

from __future__ import annotations

import io
import re

import numpy as np
import pandas as pd
import pytest
import torch

from rlcore.contracts import AuxiliaryInfo, SequenceSeedSet
from rlcore.environment import build_backend, evaluate, looped_parts
from rlcore.environment.random_actions import RandomActions
from rlcore.foundation.random_streams import RandomStreams
from rlcore.training.loggers import ConsoleLogger, CsvLogger, close_all, send_episodes, send_metrics
from rlcore.training.metrics import episode_metrics
from tests.qlib_tasks import NUM_EPISODES, Creeping, Free, Push, ShowPlace, Unused, chatty_parts, planned


@pytest.mark.parametrize("kind", ["dummy", "shmem", "subproc"])
def test_console_and_csv_tell_every_episode(kind, tmp_path):
    """Corrected: means are over what is there (D17), every episode has its row, and figures are checked, not only their form."""
    stream = io.StringIO()
    shown = ("test/return/mean", "test/auxiliary/a/mean", "test/c/mean")
    loggers = [ConsoleLogger(shown, stream=stream), CsvLogger(tmp_path, ("test",))]
    with build_backend(kind, 2, chunk_deadline_seconds=120) as backend:
        policy, seeds = RandomActions(Unused.action_space), SequenceSeedSet(range(NUM_EPISODES))
        table = evaluate(chatty_parts(), policy, seeds, RandomStreams(0), "test", 4, backend=backend)
    send_episodes(loggers, "test", 0, table)
    send_metrics(loggers, 0, episode_metrics("test", table))
    close_all(loggers)
    plans = [planned(initial) for initial in range(NUM_EPISODES)]
    a, c = np.array([a.mean() for a, _ in plans]), np.array([c.mean() for _, c in plans])
    earned = np.array([42.0 * len(a) for a, _ in plans])

    rows = pd.read_csv(next(tmp_path.glob("test*.csv")))
    assert len(rows) == NUM_EPISODES and rows["seed_id"].tolist() == list(range(NUM_EPISODES))
    np.testing.assert_allclose(rows["auxiliary/a"], a, rtol=1e-15)
    np.testing.assert_array_equal(rows["c"], c)
    np.testing.assert_array_equal(rows["return"], earned)
    assert not [name for name in rows.columns if name.startswith("auxiliary/b")]  # an array is no figure

    lines = stream.getvalue().splitlines()
    assert len(lines) == 1
    told = re.fullmatch(
        r"\[iteration 0\] {2}test/return/mean (\S+) {2}test/auxiliary/a/mean (\S+) {2}test/c/mean (\S+)", lines[0]
    )
    np.testing.assert_allclose([float(figure) for figure in told.groups()], [earned.mean(), a.mean(), c.mean()], rtol=1e-5)


class Foreign(AuxiliaryInfo):
    """A tensor and an array without axes, as other libraries return numbers."""

    def collect(self, state, status):
        return {"test_a": torch.tensor(233.0), "test_b": np.array(200), "place": state}


def test_numbers_of_any_library_reach_the_file(tmp_path):
    """The same: 20 seeds, 20 rows, figures that are given as tensors or arrays, and observations that grow with the seed."""
    parts = looped_parts(Creeping, ShowPlace(), Push(), Free(), max_steps=1000, auxiliary=Foreign())
    policy, seeds, logger = RandomActions(Push.action_space), SequenceSeedSet(range(20)), CsvLogger(tmp_path, ("test",))
    with build_backend("shmem", 1, chunk_deadline_seconds=120) as backend:
        table = evaluate(parts, policy, seeds, RandomStreams(0), "test", 4, backend=backend)
    send_episodes([logger], "test", 0, table)
    close_all([logger])
    frame = pd.read_csv(next(tmp_path.glob("test*.csv")))
    assert len(frame) == 20
    assert (frame["auxiliary/test_a"] == 233.0).all() and (frame["auxiliary/test_b"] == 200.0).all()
    assert (np.diff(frame["auxiliary/place"]) > 0).all()  # QlibRL's rows come in any order: it compares the halves only
    # 0.51 is reached by steps of 0.04 at most, and of 0.02 in the mean.
    assert frame["num_steps"].min() >= 13 and 20 < frame["num_steps"].mean() < 34
    assert (frame["return"] == 0.0).all()
