"""``make chaos``: fifty kills -9 of trainings at random moments, ten of worker processes: the end is always the same bits."""

import time

import numpy as np
import pytest

from tests.training_kills import KillServer, assert_same_end, kill_server

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]

NUM_KILLS = {"ppo_by_episodes": 15, "dqn_by_steps": 13, "named_set_by_steps": 12, "ppo_in_workers": 10}
NUM_WORKER_KILLS = {"ppo_in_workers": 5, "episodes_in_workers": 5}


@pytest.fixture(scope="module")
def server():
    with kill_server() as running:
        yield running


def whole(server, folder, configuration):
    """Run a training that nobody kills; returns how long it took. The second of its kind, because the first warms up."""
    for name in ("warming up", "whole"):
        started = time.monotonic()
        assert server.run(folder / name, configuration) == 0
    return time.monotonic() - started


@pytest.mark.parametrize("configuration", NUM_KILLS)
def test_kills_at_random_moments_end_in_the_same_bits(server, tmp_path, configuration):
    assert sum(NUM_KILLS.values()) == 50
    duration = whole(server, tmp_path, configuration)
    generator = np.random.default_rng()  # the moments are by chance whatever is drawn here
    moments, num_trainings = [], 0
    while len(moments) < NUM_KILLS[configuration]:
        num_trainings += 1
        folder = tmp_path / f"training {num_trainings}"
        code = -9
        while code == -9:
            is_enough = len(moments) == NUM_KILLS[configuration]
            moment = None if is_enough else float(generator.uniform(0.1 * duration, duration))
            code = server.run(folder, configuration, after_seconds=moment)
            if code == -9:
                moments.append(moment)
        assert code == 0, (folder / "log.txt").read_text()
        assert_same_end(tmp_path / "whole", folder)
    print(
        f"{configuration}: {len(moments)} kills of {num_trainings} trainings of {duration:.2f} s, at most {max(moments):.2f} s in"
    )


@pytest.mark.parametrize("configuration", NUM_WORKER_KILLS)
def test_a_worker_killed_at_a_random_moment_is_replaced_and_changes_no_bit(server, tmp_path, configuration):
    duration = whole(server, tmp_path, configuration)
    generator = np.random.default_rng()
    num_replaced = num_trainings = 0
    while num_replaced < NUM_WORKER_KILLS[configuration]:
        num_trainings += 1
        assert num_trainings <= 10 * NUM_WORKER_KILLS[configuration], "kills nearly always came too late to be noticed"
        folder = tmp_path / f"training {num_trainings}"
        moment = float(generator.uniform(0.0, duration))
        assert server.run(folder, configuration, after_seconds=moment, victim="worker") == 0, (folder / "log.txt").read_text()
        assert KillServer.end(folder)["status"] == "completed"
        assert_same_end(tmp_path / "whole", folder)
        num_replaced += "a new worker takes over" in (folder / "log.txt").read_text()  # or it came after the last job
    print(f"{configuration}: {num_replaced} workers replaced in {num_trainings} trainings")
