"""A kill -9 at any named point, and the same command again: the end is that of a training that nobody killed.

Points lie before every operation on a file and half-way through every write (``tests.training_kills`` finds them by Python's
audit events, so that no write can be forgotten), and at the edges of what happens in memory.
"""

import shutil
import signal

import pytest

from tests.training_kills import KILLED_IN, MAX_ITERS, KillServer, assert_same_end, kill_server

MAIN = "named_set_by_steps"


def lines(text):
    return [line.strip() for line in text.strip().splitlines()]


IN_AN_ITERATION = lines("""
    iteration starts
    collect begins
    collect is done
    update begins
    update is done
    append to episodes/train_episodes.csv
    half episodes/train_episodes.csv
    create episodes/train_episodes.parquet.parts/.N.parquet.*
    half episodes/train_episodes.parquet.parts/.N.parquet.*
    rename to episodes/train_episodes.parquet.parts/N.parquet
    flush folder episodes/train_episodes.parquet.parts
    training is over
    append to metrics/train.csv
    half metrics/train.csv
    evaluate begins
    evaluate is done
    append to episodes/validation_far_episodes.csv
    half episodes/validation_far_episodes.csv
    create episodes/validation_far_episodes.parquet.parts/.N.parquet.*
    half episodes/validation_far_episodes.parquet.parts/.N.parquet.*
    rename to episodes/validation_far_episodes.parquet.parts/N.parquet
    flush folder episodes/validation_far_episodes.parquet.parts
    validation is over
    append to metrics/validation.csv
    half metrics/validation.csv
    iteration is over
    create checkpoints/.iteration_N.ckpt.*
    half checkpoints/.iteration_N.ckpt.*
    rename to checkpoints/iteration_N.ckpt
    flush folder checkpoints
    remove checkpoints/.latest.ckpt.new
    link checkpoints/.latest.ckpt.new
    rename to checkpoints/latest.ckpt
    remove checkpoints/.best.ckpt.new
    link checkpoints/.best.ckpt.new
    rename to checkpoints/best.ckpt
    remove checkpoints/iteration_N.ckpt
    remove checkpoints/iteration_N.ckpt (2)
    checkpoint is written
""")
WHEN_TAKEN_UP = lines("""
    append to metrics/.train.csv.lock
    append to checkpoints/.latest.ckpt.lock
    append to episodes/.train_episodes.csv.lock
    append to episodes/.validation_episodes.csv.lock
    append to episodes/.train_episodes.parquet.lock
    append to episodes/.validation_episodes.parquet.lock
    create metrics/.train.csv.*
    half metrics/.train.csv.*
    rename to metrics/train.csv
    flush folder metrics
    create metrics/.validation.csv.*
    half metrics/.validation.csv.*
    rename to metrics/validation.csv
    flush folder metrics (2)
    create episodes/.train_episodes.csv.*
    half episodes/.train_episodes.csv.*
    rename to episodes/train_episodes.csv
    flush folder episodes
    create episodes/.validation_far_episodes.csv.*
    half episodes/.validation_far_episodes.csv.*
    rename to episodes/validation_far_episodes.csv
    flush folder episodes (2)
    create episodes/.train_episodes.parquet.*
    half episodes/.train_episodes.parquet.*
    rename to episodes/train_episodes.parquet
    flush folder episodes (3)
    flush folder episodes/train_episodes.parquet.parts
    remove episodes/train_episodes.parquet.parts/N.parquet
    remove episodes/train_episodes.parquet.parts/N.parquet (2)
    remove episodes/train_episodes.parquet.parts/N.parquet (3)
    remove episodes/train_episodes.parquet.parts/N.parquet (4)
    create episodes/.validation_far_episodes.parquet.*
    half episodes/.validation_far_episodes.parquet.*
    rename to episodes/validation_far_episodes.parquet
    flush folder episodes (4)
    flush folder episodes/validation_far_episodes.parquet.parts
    remove episodes/validation_far_episodes.parquet.parts/N.parquet
    remove episodes/validation_far_episodes.parquet.parts/N.parquet (2)
    remove checkpoints/.iteration_N.ckpt.*
    remove checkpoints/.latest.ckpt.new
    link checkpoints/.latest.ckpt.new
    rename to checkpoints/latest.ckpt
    remove checkpoints/.best.ckpt.new
    link checkpoints/.best.ckpt.new
    rename to checkpoints/best.ckpt
""")
IN_THE_FIRST_ITERATION = lines("""
    iteration starts
    collect begins
    collect is done
    update begins
    update is done
    remove episodes/train_episodes.csv
    remove episodes/validation_far_episodes.csv
    create episodes/.train_episodes.csv.*
    half episodes/.train_episodes.csv.*
    rename to episodes/train_episodes.csv
    flush folder episodes
    append to episodes/train_episodes.csv
    half episodes/train_episodes.csv
    remove episodes/train_episodes.parquet
    remove episodes/validation_far_episodes.parquet
    create episodes/train_episodes.parquet.parts/.N.parquet.*
    half episodes/train_episodes.parquet.parts/.N.parquet.*
    rename to episodes/train_episodes.parquet.parts/N.parquet
    flush folder episodes/train_episodes.parquet.parts
    training is over
    remove metrics/train.csv
    remove metrics/validation.csv
    create metrics/.train.csv.*
    half metrics/.train.csv.*
    rename to metrics/train.csv
    flush folder metrics
    append to metrics/train.csv
    half metrics/train.csv
    iteration is over
    create checkpoints/.iteration_N.ckpt.*
    half checkpoints/.iteration_N.ckpt.*
    rename to checkpoints/iteration_N.ckpt
    flush folder checkpoints
    remove checkpoints/.latest.ckpt.new
    link checkpoints/.latest.ckpt.new
    rename to checkpoints/latest.ckpt
    checkpoint is written
""")
AT_THE_END = lines("""
    create episodes/.train_episodes.parquet.*
    half episodes/.train_episodes.parquet.*
    rename to episodes/train_episodes.parquet
    flush folder episodes
    flush folder episodes/train_episodes.parquet.parts (2)
    remove episodes/train_episodes.parquet.parts/N.parquet
    remove episodes/train_episodes.parquet.parts/N.parquet (2)
    remove episodes/train_episodes.parquet.parts/N.parquet (3)
    remove episodes/train_episodes.parquet.parts/N.parquet (4)
    remove episodes/train_episodes.parquet.parts/N.parquet (5)
    remove episodes/train_episodes.parquet.parts/N.parquet (6)
    create episodes/.validation_far_episodes.parquet.*
    half episodes/.validation_far_episodes.parquet.*
    rename to episodes/validation_far_episodes.parquet
    flush folder episodes (2)
    flush folder episodes/validation_far_episodes.parquet.parts (2)
    remove episodes/validation_far_episodes.parquet.parts/N.parquet
    remove episodes/validation_far_episodes.parquet.parts/N.parquet (2)
    remove episodes/validation_far_episodes.parquet.parts/N.parquet (3)
    fit is over
    remove episodes/.validation_episodes.parquet.lock
    remove episodes/.train_episodes.parquet.lock
    remove episodes/.validation_episodes.csv.lock
    remove episodes/.train_episodes.csv.lock
    remove checkpoints/.latest.ckpt.lock
    remove metrics/.train.csv.lock
""")
EDGES = ["collect begins", "collect is done", "update begins", "update is done", "evaluate begins", "iteration is over",
         "half checkpoints/.iteration_N.ckpt.*", "rename to checkpoints/iteration_N.ckpt", "checkpoint is written"]  # fmt: skip


@pytest.fixture(scope="module")
def server():
    with kill_server() as running:
        yield running


class Trainings:
    """Trainings that tests share, each made when it is first asked for; tests go on with copies."""

    def __init__(self, server, root):
        self._server, self._root = server, root

    def whole(self, configuration):
        """Return one that nobody killed; what it passed by lies beside it."""
        return self._made(configuration, "whole", 0, "")

    def killed(self, configuration, point, iteration):
        return self._made(configuration, f"{point} {iteration}".replace("/", "_"), -signal.SIGKILL, point, iteration)

    def _made(self, configuration, name, code, *point):
        folder = self._root / configuration / name
        if not folder.exists():
            assert self._server.run(folder, configuration, *point) == code, (folder / "log.txt").read_text()
        return folder


@pytest.fixture(scope="module")
def trainings(server, tmp_path_factory):
    return Trainings(server, tmp_path_factory.mktemp("trainings"))


def passed(folder):
    return KillServer.end(folder)["passed"]


def kill_and_go_on(server, begun, folder, configuration, point, iteration, whole):
    if begun is not None:
        shutil.copytree(begun, folder, symlinks=True)
    assert server.run(folder, configuration, point, iteration) == -signal.SIGKILL, (folder / "log.txt").read_text()
    assert server.run(folder, configuration) == 0, (folder / "log.txt").read_text()
    assert_same_end(whole, folder)


def test_every_operation_on_a_file_is_a_named_point(server, trainings, tmp_path):
    """Whoever adds a write learns here that it needs a name, and is then killed at it."""
    whole = passed(trainings.whole(MAIN))
    assert whole[KILLED_IN] == IN_AN_ITERATION
    assert whole[1] == IN_THE_FIRST_ITERATION
    assert whole[MAX_ITERS][-len(AT_THE_END) :] == AT_THE_END
    assert set(whole[MAX_ITERS][: -len(AT_THE_END)]) <= set(IN_AN_ITERATION)
    taken_up = tmp_path / "taken up"
    shutil.copytree(trainings.killed(MAIN, "half checkpoints/.iteration_N.ckpt.*", KILLED_IN), taken_up, symlinks=True)
    assert server.run(taken_up, MAIN, "") == 0
    assert passed(taken_up)[0] == WHEN_TAKEN_UP


@pytest.mark.parametrize("point", IN_AN_ITERATION)
def test_a_kill_in_an_iteration(server, trainings, tmp_path, point):
    begun = trainings.killed(MAIN, "checkpoint is written", KILLED_IN - 1)
    kill_and_go_on(server, begun, tmp_path / "run", MAIN, point, KILLED_IN, trainings.whole(MAIN))


@pytest.mark.parametrize("point", AT_THE_END)
def test_a_kill_at_the_end(server, trainings, tmp_path, point):
    kill_and_go_on(server, None, tmp_path / "run", MAIN, point, MAX_ITERS, trainings.whole(MAIN))


@pytest.mark.parametrize("point", WHEN_TAKEN_UP)
def test_a_kill_while_a_killed_training_is_taken_up(server, trainings, tmp_path, point):
    begun = trainings.killed(MAIN, "half checkpoints/.iteration_N.ckpt.*", KILLED_IN)
    kill_and_go_on(server, begun, tmp_path / "run", MAIN, point, 0, trainings.whole(MAIN))


# Of the points that every iteration has, here only the last two before there is a checkpoint.
NEW_IN_THE_FIRST = [point for point in IN_THE_FIRST_ITERATION if point not in IN_AN_ITERATION or point in EDGES[-3:-1]]


@pytest.mark.parametrize("point", NEW_IN_THE_FIRST)
def test_a_kill_before_there_is_a_checkpoint(server, trainings, tmp_path, point):
    kill_and_go_on(server, None, tmp_path / "run", MAIN, point, 1, trainings.whole(MAIN))


@pytest.mark.parametrize("point", EDGES)
@pytest.mark.parametrize("configuration", ["ppo_by_episodes", "dqn_by_steps"])
def test_a_kill_at_the_edges_of_what_other_trainings_do(server, trainings, tmp_path, configuration, point):
    begun = trainings.killed(configuration, "checkpoint is written", KILLED_IN - 1)
    kill_and_go_on(server, begun, tmp_path / "run", configuration, point, KILLED_IN, trainings.whole(configuration))


def test_a_kill_leaves_no_worker_process_behind(server, trainings, tmp_path):
    """The server's answer waits for them: they find out by themselves that their parent is no more."""
    begun = trainings.killed("ppo_in_workers", "checkpoint is written", KILLED_IN - 1)
    whole = trainings.whole("ppo_in_workers")
    kill_and_go_on(server, begun, tmp_path / "run", "ppo_in_workers", "workers are busy", KILLED_IN, whole)


def test_a_newest_checkpoint_that_a_power_cut_halved_is_reported_and_the_one_before_is_used(server, trainings, tmp_path):
    """Under its own name: the file system had renamed it, and not yet written it."""
    folder = tmp_path / "run"
    shutil.copytree(trainings.killed(MAIN, "remove checkpoints/.latest.ckpt.new", KILLED_IN), folder, symlinks=True)
    newest = folder / "checkpoints/iteration_000004.ckpt"
    newest.write_bytes(newest.read_bytes()[: newest.stat().st_size // 2])
    assert server.run(folder, MAIN) == 0
    assert "checkpoint skipped, the one before it is used: payload of" in (folder / "log.txt").read_text()
    assert_same_end(trainings.whole(MAIN), folder)


ABANDONED = ["collect begins", "update begins", "update is done", "evaluate begins"]


@pytest.mark.parametrize("point", ABANDONED)
def test_sigterm_abandons_the_iteration(server, trainings, tmp_path, point):
    terminate_and_go_on(server, trainings, tmp_path / "run", MAIN, point, newest=KILLED_IN - 1)


@pytest.mark.parametrize("point", ["create checkpoints/.iteration_N.ckpt.*", "rename to checkpoints/iteration_N.ckpt"])
def test_sigterm_does_not_cut_through_a_file(server, trainings, tmp_path, point):
    terminate_and_go_on(server, trainings, tmp_path / "run", MAIN, point, newest=KILLED_IN)


def test_sigterm_to_a_training_with_workers_reaches_them_too(server, trainings, tmp_path):
    """As a terminal or a service manager sends it: to the whole group. Workers that end by it are no failure."""
    terminate_and_go_on(server, trainings, tmp_path / "run", "ppo_in_workers", "workers are busy", newest=KILLED_IN - 1)


def terminate_and_go_on(server, trainings, folder, configuration, point, newest):
    shutil.copytree(trainings.killed(configuration, "checkpoint is written", KILLED_IN - 1), folder, symlinks=True)
    assert server.run(folder, configuration, point, KILLED_IN, signal.SIGTERM) == 0, (folder / "log.txt").read_text()
    assert KillServer.end(folder)["status"] == "terminated"
    assert (folder / "checkpoints/latest.ckpt").readlink().name == f"iteration_{newest:06d}.ckpt"
    assert server.run(folder, configuration) == 0, (folder / "log.txt").read_text()
    assert_same_end(trainings.whole(configuration), folder)


def test_sigterm_when_nothing_is_left_to_abandon_goes_to_whoever_handled_it_before(server, trainings, tmp_path):
    """The training is done and whole, and the process ends as it was asked to: it does not go on to something else."""
    folder = tmp_path / "run"
    assert server.run(folder, MAIN, "checkpoint is written", MAX_ITERS, signal.SIGTERM) == -signal.SIGTERM
    assert (folder / "checkpoints/latest.ckpt").readlink().name == f"iteration_{MAX_ITERS:06d}.ckpt"
    assert server.run(folder, MAIN) == 0
    assert_same_end(trainings.whole(MAIN), folder)
