"""Trees of arrays with a leading lane axis."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlcore.foundation.lanes import concat_lanes, first_array, map_lanes, num_lanes, pad_lanes, stack_steps, take_lanes


class Store:
    """Shared by all lanes."""


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclass(frozen=True, slots=True)
class State:
    x: Any
    inner: Any
    store: Any


STORE = Store()


def tree(count, start=0):
    x = np.arange(start, start + count)
    return State(x, {"pair": Pair(x * 2.0, np.stack([x, x], 1)), "plain": (x, None), "names": x.astype(object)}, STORE)


def as_lists(state):
    pair = state.inner["pair"]
    return state.x.tolist(), pair.a.tolist(), pair.b.tolist(), state.inner["plain"][0].tolist(), state.inner["names"].tolist()


@given(count=st.integers(1, 8), data=st.data())
def test_taking_lanes_takes_them_from_every_array(count, data):
    lanes = np.array(data.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=10)))
    taken = take_lanes(tree(count), lanes)
    x = lanes
    assert as_lists(taken) == (x.tolist(), (x * 2.0).tolist(), np.stack([x, x], 1).tolist(), x.tolist(), x.tolist())
    assert isinstance(taken.inner["pair"], Pair) and taken.inner["plain"][1] is None and taken.store is STORE
    assert num_lanes(taken) == len(lanes)


@given(counts=st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_concatenating_what_was_cut_gives_the_whole(counts):
    ends = np.cumsum([0, *counts])
    pieces = [tree(stop - start, start) for start, stop in pairwise(ends)]
    assert as_lists(concat_lanes(*pieces)) == as_lists(tree(sum(counts)))


def test_padding_repeats_the_last_lane_and_never_shortens():
    assert pad_lanes(tree(2), 4).x.tolist() == [0, 1, 1, 1]
    assert pad_lanes(tree(3), 2).x.tolist() == [0, 1, 2]


def test_steps_stack_in_front():
    stacked = stack_steps([tree(2), tree(2, 5)])
    assert stacked.x.tolist() == [[0, 1], [5, 6]] and stacked.inner["pair"].b.shape == (2, 2, 2)


def test_a_mask_and_a_slice_take_lanes_too():
    assert take_lanes(tree(3), np.array([True, False, True])).x.tolist() == [0, 2]
    assert take_lanes(tree(3), slice(1, None)).x.tolist() == [1, 2]


def test_trees_of_another_form_are_refused():
    with pytest.raises(KeyError):
        map_lanes(np.add, {"a": np.zeros(1), "b": np.zeros(1)}, {"a": np.zeros(1)})
    with pytest.raises(ValueError, match="shorter"):
        map_lanes(np.add, (np.zeros(1), np.zeros(1)), (np.zeros(1),))
    with pytest.raises(ValueError, match="a lane tree must hold at least one array, held none"):
        num_lanes({"a": 1})
    assert first_array(("text", {"a": None})) is None
