"""Law 4 under hardship: 10,000 seeds over 1, 2 and 5 workers with random delays, crashes and poisoned seeds."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from rlcore.environment.backends import InlineBackend, SubprocBackend
from rlcore.environment.evaluation import evaluate
from rlcore.environment.random_actions import RandomActions
from rlcore.foundation.random_streams import RandomStreams, hash_key, key_generator
from tests.environment_hazards import DyingOnceSpend, bad_world, end_process
from tests.environment_toys import SpendAction, spend_parts

NUM_SEEDS, NUM_LANES, NUM_CRASHES = 10_000, 16, 6
POLICY = RandomActions(SpendAction.action_space)
KILLER, RAISER, *CRASHING = key_generator(7, "hardship").permutation(NUM_SEEDS)[: NUM_CRASHES + 2].tolist()


class HardSpend(DyingOnceSpend):
    """Sleeps now and then; one seed always kills, one always raises, some crash the first time."""

    def step(self, state, command):
        delay = hash_key(7, "delay", state.left.view(np.int64), state.prices[:, 0].view(np.int64)) % np.uint64(2000)
        if (delay < 4).any():
            time.sleep(float(delay.min() + 1) / 1000)
        return super().step(state, command)

    def meet(self, position):
        if position == KILLER:
            end_process("kill")
        if position == RAISER:
            raise ValueError("a bad number")
        super().meet(position)


def table_of(backend, parts):
    seeds = bad_world(NUM_SEEDS, KILLER, RAISER, *CRASHING)
    return evaluate(parts, POLICY, seeds, RandomStreams(2), "test", NUM_LANES, allow_failed="keep", backend=backend)


@pytest.fixture(scope="module")
def calm():
    """The same seeds where nothing goes wrong, in this process."""
    return table_of(InlineBackend(), spend_parts())


@pytest.fixture(scope="module")
def tables():
    """What any number of workers gave."""
    return []


@pytest.mark.filterwarnings("ignore:worker process:RuntimeWarning")
@pytest.mark.parametrize("num_workers", [1, 2, 5])
def test_every_seed_has_exactly_one_row_whatever_happens(num_workers, calm, tables, tmp_path: Path):
    with SubprocBackend(num_workers, on_worker_death="restart", chunk_deadline_seconds=120) as backend:
        table = table_of(backend, spend_parts(simulator=HardSpend(tmp_path)))
    assert table["seed_id"].tolist() == list(range(NUM_SEEDS))
    assert sorted(int(path.name) for path in tmp_path.iterdir()) == sorted(CRASHING)  # each did crash a worker
    assert np.flatnonzero(table.is_failed).tolist() == sorted([KILLER, RAISER])
    assert table["error"][KILLER].endswith(f"must survive seed {KILLER}, 3 have not: the last ended with signal SIGKILL")
    assert table["error"][RAISER] == "ValueError: a bad number"
    tables.append(table)
    for name in table.columns:
        np.testing.assert_array_equal(table[name], tables[0][name], strict=True)
    # All the rest has the bits of calm weather.
    is_ok = ~table.is_failed
    for name in calm.columns:
        np.testing.assert_array_equal(table[name][is_ok], calm[name][is_ok], strict=True)
