"""Collections that load an item when it is asked for: never more than what runs, and their errors are their seeds' own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlcore.contracts import SequenceSeedSet
from rlcore.environment.backends import InlineBackend, SubprocBackend, collect_episodes
from rlcore.environment.evaluation import evaluate
from rlcore.environment.random_actions import RandomActions
from rlcore.environment.rollout import Passage
from rlcore.environment.seed_sampling import training_draw
from rlcore.environment.step_jobs import StepJob, collect_steps, start_groups
from rlcore.foundation.errors import EvaluationError
from rlcore.foundation.random_streams import RandomStreams
from tests.environment_toys import SpendAction, SpendOnce, looped_spend_parts, random_world

POLICY = RandomActions(SpendAction.action_space)
STREAMS = RandomStreams(3)
NUM_LANES = 4


class Item:
    """An initial state that says when it is still held."""

    held: set[int] = set()  # noqa: RUF012  # of this process
    most_held = 0

    def __init__(self, index: int) -> None:
        self.index, self.values = index, random_world(index, 1)[0]
        Item.held.add(index)
        Item.most_held = max(Item.most_held, len(Item.held))

    def __getitem__(self, at):
        return self.values[at]

    def __del__(self) -> None:
        Item.held.discard(self.index)


class Files:
    """Notes each item that is loaded, in a file of any process."""

    def __init__(self, folder: Path, length: int, broken: tuple[int, ...] = ()) -> None:
        self.folder, self.length, self.broken = folder, length, broken

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index):
        with (self.folder / str(index)).open("a") as file:
            file.write("x")
        if index in self.broken:
            raise FileNotFoundError(f"order {index}")
        return Item(index)

    def loads(self) -> dict[int, int]:
        """Return how often each item was loaded."""
        return {int(path.name): path.stat().st_size for path in self.folder.iterdir()}


@pytest.fixture(scope="module")
def two_workers():
    with SubprocBackend(2, chunk_deadline_seconds=60) as backend:
        yield backend


@pytest.fixture(params=["inline", "workers"])
def backend(request, two_workers):
    return InlineBackend() if request.param == "inline" else two_workers


def test_an_evaluation_loads_each_item_once_and_holds_no_more_than_run(tmp_path, backend):
    files = Files(tmp_path, 60)
    Item.held.clear()
    Item.most_held = 0
    evaluate(looped_spend_parts(), POLICY, SequenceSeedSet(files), STREAMS, "validation", NUM_LANES, backend=backend)
    assert files.loads() == dict.fromkeys(range(60), 1)
    # A finished lane's item goes when its successor has come; workers hold their own, this process none.
    assert Item.most_held <= (2 * NUM_LANES if isinstance(backend, InlineBackend) else 0)


def test_a_part_of_an_endless_collection_loads_that_part(tmp_path, backend):
    files = Files(tmp_path, 10**15)
    ids = np.array([7, 10**14, 7, 0])
    evaluate(looped_spend_parts(), POLICY, SequenceSeedSet(files), STREAMS, "validation", NUM_LANES, ids, backend=backend)
    assert files.loads() == {7: 2, 10**14: 1, 0: 1}


def test_training_loads_what_it_draws(tmp_path, backend):
    files, passage = Files(tmp_path, 1000), Passage(STREAMS, "train", NUM_LANES)
    seed_id, visit = training_draw(3, 1000, 40, 12)
    collect_episodes(backend, looped_spend_parts(), POLICY, SequenceSeedSet(files), seed_id, visit, passage)
    assert files.loads() == dict.fromkeys(seed_id.tolist(), 1)


def test_steps_load_what_they_draw(tmp_path, backend):
    files, passage, parts = Files(tmp_path, 1000), Passage(STREAMS, "train", NUM_LANES), looped_spend_parts()
    groups = start_groups(parts, POLICY, SequenceSeedSet(files), passage, 2)
    fragment = collect_steps(backend, StepJob(parts, POLICY, SequenceSeedSet(files), groups, 9, passage))
    assert sum(files.loads().values()) == len(fragment.finished_seed_id) + 2 * NUM_LANES < 60


def test_what_an_item_raises_is_that_seeds_failed_row(tmp_path, backend):
    """QlibRL swallows it: the collection counts as exhausted, and a training goes through all iterations (qlibrl.md D4)."""
    seeds, parts = SequenceSeedSet(Files(tmp_path, 23, broken=(6, 13))), looped_spend_parts()
    table = evaluate(parts, POLICY, seeds, STREAMS, "validation", NUM_LANES, allow_failed="keep", backend=backend)
    assert table["seed_id"].tolist() == list(range(23)) and np.flatnonzero(table.is_failed).tolist() == [6, 13]
    assert table["error"][[6, 13]].tolist() == ["FileNotFoundError: order 6", "FileNotFoundError: order 13"]
    with pytest.raises(EvaluationError, match="seed 6 raised FileNotFoundError: order 6"):
        evaluate(parts, POLICY, seeds, STREAMS, "validation", NUM_LANES, backend=backend)
    with pytest.raises(FileNotFoundError, match="order 6") as caught:
        ids = np.arange(23)
        collect_episodes(backend, parts, POLICY, seeds, ids, ids * 0, Passage(STREAMS, "train", NUM_LANES))
    assert "raised by the episode of seed 6" in caught.value.__notes__


class StoppingOnce(SpendOnce):
    """Raises what ends an iteration elsewhere, while its simulator is made."""

    def __init__(self, initial) -> None:
        if initial.index in (3, 4):
            next(iter(()))
        super().__init__(initial)


def test_a_stop_iteration_of_a_users_part_drops_nobody(tmp_path, backend):
    """QlibRL's environment dies of it and 19 of 20 rows stay away (qlibrl.md D4)."""
    seeds, parts = SequenceSeedSet(Files(tmp_path, 20)), looped_spend_parts(StoppingOnce)
    table = evaluate(parts, POLICY, seeds, STREAMS, "validation", NUM_LANES, allow_failed="keep", backend=backend)
    assert table["seed_id"].tolist() == list(range(20)) and np.flatnonzero(table.is_failed).tolist() == [3, 4]
    assert table["error"][3] == "StopIteration"
