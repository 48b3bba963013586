"""A violation names the sub-space, the value and the bound."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from rlcore.environment.lane_samples import one_lane, stack_samples
from rlcore.environment.random_actions import RandomActions, corner_actions
from rlcore.environment.space_checks import check_lanes, check_one
from rlcore.foundation.errors import SpaceError
from rlcore.foundation.random_streams import RandomStreams

NESTED = spaces.Dict(
    {
        "box": spaces.Box(np.array([0, -1], np.float32), np.array([1, 2], np.float32)),
        "pair": spaces.Tuple((spaces.Discrete(3, start=-1), spaces.MultiBinary((2, 2)))),
        "many": spaces.MultiDiscrete([2, 5], start=[0, 10]),
    }
)


@given(root=st.integers(0, 10**6), count=st.integers(1, 5))
def test_samples_pass_and_survive_stacking(root, count):
    NESTED.seed(root)
    samples = [NESTED.sample() for _ in range(count)]
    batch = stack_samples(NESTED, samples)
    check_lanes(NESTED, batch, "value")
    for lane, sample in enumerate(samples):
        again = one_lane(NESTED, batch, lane)
        assert NESTED.contains(again)
        check_one(NESTED, again, "value")
        np.testing.assert_equal(again, sample)


def good():
    return {
        "box": np.zeros((3, 2), np.float32),
        "pair": (np.zeros(3, np.int64), np.zeros((3, 2, 2), np.int8)),
        "many": np.full((3, 2), [1, 12]),
    }


def changed(*path, value, at=None):
    batch = good()
    target = batch
    for key in path[:-1]:
        target = target[key]
    if at is None:
        if isinstance(target, tuple):
            batch[path[0]] = tuple(value if i == path[-1] else leaf for i, leaf in enumerate(target))
        else:
            target[path[-1]] = value
    else:
        target[path[-1]][at] = value
    return batch


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (changed("box", value=2.5, at=(1, 1)), r"o\['box'\] must lie in \[-1.0, 2.0\], was 2.5 in lane 1 at index \[1\]"),
        (changed("box", value=np.nan, at=(2, 0)), r"o\['box'\] must lie in \[0.0, 1.0\], was nan in lane 2 at index \[0\]"),
        (changed("box", value=np.zeros((3, 3))), r"o\['box'\] must have shape \(lanes, …\) = \(lanes, 2\), was \(3, 3\)"),
        (changed("pair", 0, value=2, at=1), r"o\['pair'\]\[0\] must lie in \{-1, …, 1\}, was 2 in lane 1"),
        (changed("pair", 0, value=np.zeros(3)), r"o\['pair'\]\[0\] must be integers, was of type float64"),
        (
            changed("pair", 1, value=2, at=(0, 1, 0)),
            r"o\['pair'\]\[1\] must lie in \{0, …, 1\}, was 2 in lane 0 .* \[1, 0\]",
        ),
        (changed("many", value=9, at=(1, 1)), r"o\['many'\] must lie in \{10, …, 14\}, was 9 in lane 1 at index \[1\]"),
        (changed("pair", value=(np.zeros(3, int),)), r"o\['pair'\] must be a tuple of 2"),
        (changed("more", value=1), r"o must have the keys of its space, lacked \[\] and had \['more'\] besides"),
        (changed("box", value=np.array([None] * 3)), r"o\['box'\] must be an array of numbers"),
        ([1], r"o must be a dict with keys \['box', 'many', 'pair'\]"),
    ],
)
def test_violations_are_located(batch, message):
    with pytest.raises(SpaceError, match=message):
        check_lanes(NESTED, batch, "o")


def test_other_spaces_are_asked_one_by_one():
    space = spaces.Text(3)
    check_lanes(space, stack_samples(space, ["ab", "c"]), "o")
    with pytest.raises(SpaceError, match="was 'abcd' in lane 1"):
        check_lanes(space, stack_samples(space, ["ab", "abcd"]), "o")


def test_a_subclass_of_a_space_is_checked_as_what_it_is():
    class Fraction(spaces.Box):
        def __init__(self):
            super().__init__(0.0, 1.0, (), np.float32)

    with pytest.raises(SpaceError, match=r"o must lie in \[0.0, 1.0\], was 2.0"):
        check_lanes(Fraction(), np.array([2.0]), "o")


@pytest.mark.parametrize("space", [NESTED, spaces.Box(-np.inf, np.inf, (2,)), spaces.Discrete(5), spaces.Tuple((NESTED,))])
def test_corners_and_random_actions_lie_in_the_space(space):
    corners = corner_actions(space)
    assert len(corners) == 2
    for corner in corners:
        check_one(space, corner, "corner")
    randomness = RandomStreams(0).lanes("t", np.arange(50), np.zeros(50, np.int64), np.zeros(50, np.int64))
    check_lanes(space, RandomActions(space).decide(None, None, None, randomness).action, "action")
    assert corner_actions(spaces.Text(3)) == []


def test_random_actions_leave_masked_ones_out_and_use_all_others():
    randomness = RandomStreams(0).lanes("t", np.arange(300), np.zeros(300, np.int64), np.zeros(300, np.int64))
    mask = np.tile([True, False, True, True], (300, 1))
    action = RandomActions(spaces.Discrete(4)).decide(None, None, mask, randomness).action
    assert set(action) == {0, 2, 3}


def test_stacking_never_hides_a_wrong_kind():
    assert stack_samples(spaces.Discrete(3), [1.5, 0.5]).dtype == np.float64
    assert stack_samples(spaces.Box(0, 1, (1,), np.float32), [[0.25], [1]]).dtype == np.float32
