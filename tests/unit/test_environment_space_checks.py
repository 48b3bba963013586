"""A violation names the sub-space, the value and the bound."""

from __future__ import annotations

import warnings

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

GRAPH = spaces.Graph(spaces.Box(0, 1, (2,)), spaces.Discrete(3))

NESTED = spaces.Dict(
    {
        "box": spaces.Box(np.array([0, -1], np.float32), np.array([1, 2], np.float32)),
        "pair": spaces.Tuple((spaces.Discrete(3, start=-1), spaces.MultiBinary((2, 2)))),
        "many": spaces.MultiDiscrete([2, 5], start=[0, 10]),
    }
)


DEEP = spaces.Dict(
    {
        "outer": spaces.Tuple(
            (
                NESTED,
                spaces.Dict(
                    {
                        "text": spaces.Text(3),
                        "words": spaces.Sequence(spaces.Text(min_length=1, max_length=4, charset="abcde")),
                        "rows": spaces.Sequence(NESTED),
                        "stacked": spaces.Sequence(spaces.Box(0, 1, (2,), np.float32), stack=True),
                        "choice": spaces.OneOf((spaces.Discrete(3), spaces.MultiBinary(2))),
                    }
                ),
            )
        ),
        "small": spaces.Box(-5, 5, (2, 3), np.int16),
    }
)


@pytest.mark.parametrize("space", [NESTED, DEEP])
@given(root=st.integers(0, 10**6), count=st.integers(1, 5))
def test_samples_pass_and_survive_stacking(space, root, count):
    space.seed(root)
    samples = [space.sample() for _ in range(count)]
    batch = stack_samples(space, samples)
    check_lanes(space, batch, "value")
    for lane, sample in enumerate(samples):
        again = one_lane(space, batch, lane)
        assert space.contains(again)
        check_one(space, again, "value")
        np.testing.assert_equal(again, sample)


def test_graphs_pass_and_survive_stacking():
    GRAPH.seed(0)
    samples = [GRAPH.sample(num_nodes=num_nodes, num_edges=num_edges) for num_nodes, num_edges in ((3, 4), (1, 0), (2, 1))]
    batch = stack_samples(GRAPH, samples)
    check_lanes(GRAPH, batch, "value")
    for lane, sample in enumerate(samples):
        check_one(GRAPH, sample, "value")
        np.testing.assert_equal(one_lane(GRAPH, batch, lane), sample)
    check_one(spaces.Graph(spaces.Discrete(3), None), spaces.GraphInstance(np.array([0, 2]), None, None), "value")


def test_what_comes_out_of_a_batch_shares_nothing_with_it():
    space = spaces.Sequence(spaces.Box(0, 1, (2,)))
    batch = stack_samples(space, [(np.zeros(2, np.float32),)])
    one_lane(space, batch, 0)[0][:] = 1.0
    np.testing.assert_array_equal(batch[0][0], [0.0, 0.0])


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


CAT = spaces.Text(min_length=1, max_length=3, charset="act")
WORDS = spaces.Dict({"a": spaces.Dict({"words": spaces.Sequence(CAT)})})


@pytest.mark.parametrize(
    ("space", "value", "message"),
    [
        (
            spaces.Box(0, 1, (2,)),
            [0.5, 1.5],
            r"o must lie in \[0.0, 1.0\], was 1.5 at index \[1\] \(space Box\(0.0, 1.0, \(2,\), f",
        ),
        (spaces.Box(0, 1, ()), np.nan, r"o must lie in \[0.0, 1.0\], was nan \(space Box"),
        (spaces.Box(0, 1, (2,)), [0.5], r"o must have shape \(2\), was \(1,\): \[0.5\] \(space Box"),
        (spaces.Box(0, 1, (2,)), "ab", r"o must be an array of numbers, was 'ab' \(space Box"),
        (
            spaces.Box(0, 1, (2,)),
            [[0.5], [0.5, 0.5]],
            r"o must be an array of numbers, was \[\[0.5\], \[0.5, 0.5\]\] \(space Box",
        ),
        (spaces.Box(0, 1, (1,)), [0.5j], r"o must be an array of numbers, was \[0.5j\]"),
        (
            spaces.Box(0, 9, (1,), np.int8),
            [1.5],
            r"o must be integers, was of type float64: \[1.5\] \(space Box\(0, 9, \(1,\), int8\)\)",
        ),
        (spaces.Discrete(3), 3, r"o must lie in \{0, …, 2\}, was 3 \(space Discrete\(3\)\)"),
        (spaces.Discrete(3), 1.0, r"o must be integers, was of type float64: 1.0 \(space Discrete\(3\)\)"),
        (spaces.Discrete(3), None, r"o must be an array of numbers, was None \(space Discrete\(3\)\)"),
        (
            spaces.MultiDiscrete([2, 3]),
            [1, 3],
            r"o must lie in \{0, …, 2\}, was 3 at index \[1\] \(space MultiDiscrete\(\[2 3\]\)\)",
        ),
        (spaces.MultiBinary(3), [0, 1, 2], r"o must lie in \{0, …, 1\}, was 2 at index \[2\] \(space MultiBinary\(3\)\)"),
        (spaces.Tuple((CAT, CAT)), ("cat",), r"o must be a tuple of 2, was \('cat',\) \(space Tuple"),
        (
            spaces.Dict({"b": CAT}),
            {"c": 1},
            r"o must have the keys of its space, lacked \['b'\] and had \['c'\] besides \(space Dict",
        ),
        (spaces.Dict({"b": CAT}), {"b": "a", 1: 0, "d": 2}, r"lacked \[\] and had \[1, 'd'\] besides"),
        (CAT, "tactic", r"o must be a text of 1 to 3 characters, was 'tactic' \(space Text\(1, 3, charset=act\)\)"),
        (CAT, 7, r"o must be a text of 1 to 3 characters, was 7 \(space Text"),
        (CAT, "at!", r"o must hold characters of 'act' only, was 'at!' with '!' at index \[2\] \(space Text"),
        (
            WORDS,
            {"a": {"words": ("cat", "act", "ca", "dog")}},
            r"o\['a'\]\['words'\]\[3\] must hold characters of .*, was 'dog' with 'd'",
        ),
        (WORDS, {"a": {"words": ["cat"]}}, r"o\['a'\]\['words'\] must be a tuple of any length, was \['cat'\] \(space Sequence"),
        (
            spaces.Sequence(spaces.Discrete(2), stack=True),
            np.array([0, 1, 2]),
            r"o\[2\] must lie in \{0, …, 1\}, was 2 \(space Discrete",
        ),
        (spaces.Sequence(spaces.Discrete(2), stack=True), None, r"o must be samples stacked along a leading axis, was None"),
        (spaces.OneOf((CAT, spaces.Discrete(2))), (1, 2), r"o\[1\] must lie in \{0, …, 1\}, was 2 \(space Discrete"),
        (spaces.OneOf((CAT, spaces.Discrete(2))), (2, 0), r"o\[0\] must lie in \{0, …, 1\}, was 2"),
        (spaces.OneOf((CAT, spaces.Discrete(2))), 0, r"o must be a pair of a choice and its value, was 0 \(space OneOf"),
        (GRAPH, 0, r"o must be a GraphInstance, was 0 \(space Graph"),
        (
            GRAPH,
            spaces.GraphInstance(np.array([[0, 0], [0, 2]], np.float32), None, None),
            r"o.nodes\[1\] must lie in \[0.0, 1.0\], was 2.0 at index \[1\]",
        ),
        (
            GRAPH,
            spaces.GraphInstance(np.zeros((2, 2), np.float32), np.array([0, 3]), np.array([[0, 1], [1, 0]])),
            r"o.edges\[1\] must lie in \{0, …, 2\}, was 3",
        ),
        (
            GRAPH,
            spaces.GraphInstance(np.zeros((2, 2), np.float32), np.array([0, 1]), np.array([[0, 1], [1, 2]])),
            r"o.edge_links must lie in \[0, 1\], was 2 at index \[1, 1\]",
        ),
        (
            GRAPH,
            spaces.GraphInstance(np.zeros((2, 2), np.float32), np.array([0, 1]), np.zeros((2, 2))),
            "o.edge_links must be integers, was of type float64",
        ),
        (
            GRAPH,
            spaces.GraphInstance(np.zeros((2, 2), np.float32), np.array([0, 1]), None),
            "o must have edges of its space and links for them, or neither",
        ),
    ],
)
def test_an_error_has_the_path_the_value_and_the_space(space, value, message):
    with pytest.raises(SpaceError, match=message):
        check_one(space, value, "o")
    # In a batch too, with the lane: where three samples can be stacked, the last is the bad one.
    space.seed(0)
    good = [space.sample() for _ in range(2)] if not isinstance(space, spaces.Graph) else [space.sample(num_nodes=2)] * 2
    if isinstance(space, spaces.Text | spaces.Sequence | spaces.OneOf | spaces.Graph):
        with pytest.raises(SpaceError, match=f"{message}.* in lane 2$"):
            check_lanes(space, stack_samples(space, [*good, value]), "o")
    assert not quietly_contains(space, value)


def quietly_contains(space, value):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # gymnasium says when it casts
        try:
            # gymnasium casts what is not an array yet, so that 1.5 becomes 1 before it is looked at.
            return space.contains(np.asarray(value) if isinstance(space, spaces.Box) else value)
        except Exception:  # it raises for some of what it is to judge
            return False


def test_deep_in_a_batch():
    DEEP.seed(1)
    samples = [DEEP.sample() for _ in range(3)]
    check_lanes(DEEP, stack_samples(DEEP, samples), "o")
    samples[2]["outer"][1]["words"] = ("abc", "xyz")
    with pytest.raises(
        SpaceError, match=r"^o\['outer'\]\[1\]\['words'\]\[1\] must hold .*, was 'xyz' with 'x' at index \[0\] .* in lane 2$"
    ):
        check_lanes(DEEP, stack_samples(DEEP, samples), "o")
    samples[2]["outer"][1]["words"] = ()
    samples[1]["outer"][0]["box"] = np.array([0.5, 9.0], np.float32)
    with pytest.raises(
        SpaceError, match=r"^o\['outer'\]\[0\]\['box'\] must lie in \[-1.0, 2.0\], was 9.0 in lane 1 at index \[1\] \(space"
    ):
        check_lanes(DEEP, stack_samples(DEEP, samples), "o")
    row = dict(NESTED.sample(), many=np.array([0, 99]))
    samples[1]["outer"][0]["box"] = np.zeros(2, np.float32)
    samples[0]["outer"][1]["rows"] = (NESTED.sample(), row)
    with pytest.raises(
        SpaceError, match=r"^o\['outer'\]\[1\]\['rows'\]\[1\]\['many'\] must lie in .*, was 99 at index \[1\] .* in lane 0$"
    ):
        check_lanes(DEEP, stack_samples(DEEP, samples), "o")


def test_a_batch_must_have_lanes():
    for space, value in ((spaces.Discrete(3), np.int64(1)), (spaces.Box(0, 1, ()), np.array(0.5))):
        check_one(space, value, "o")
        with pytest.raises(SpaceError, match=r"must have shape \(lanes, …\) = \(lanes, \), was \(\)"):
            check_lanes(space, value, "o")
    with pytest.raises(SpaceError, match="must hold one sample for each lane, was 'ab'"):
        check_lanes(spaces.Text(3), "ab", "o")


def test_long_values_and_spaces_are_shortened():
    with pytest.raises(SpaceError) as caught:
        check_one(spaces.Box(np.arange(500.0), np.arange(500.0) + 1, dtype=np.float64), np.zeros((40, 40)), "o")
    assert len(str(caught.value)) < 350 and str(caught.value).count("…") == 2 and "\n" not in str(caught.value)


class Even(spaces.Space):
    """A space of the user's own."""

    def sample(self, mask=None, probability=None):
        return 2

    def contains(self, x):
        return x % 2 == 0

    @property
    def is_np_flattenable(self):
        return False

    def __repr__(self):
        return "Even()"


def test_a_space_of_the_users_own_has_the_last_word():
    check_lanes(Even(), stack_samples(Even(), [2, 4]), "o")
    with pytest.raises(SpaceError, match=r"^o must lie in its space, was 3 \(space Even\(\)\) in lane 1$"):
        check_lanes(Even(), stack_samples(Even(), [2, 3]), "o")
    with pytest.raises(SpaceError, match=r"^o\['even'\] must lie in its space, was 3 \(space Even\(\)\)$"):
        check_one(spaces.Dict({"even": Even()}), {"even": 3}, "o")


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
    for samples in ([[[1], [1, 2]]], [np.zeros(1), np.zeros(2)]):  # no array at all
        with pytest.raises(SpaceError, match="o must be an array of numbers"):
            check_lanes(spaces.Box(0, 9, (2,)), stack_samples(spaces.Box(0, 9, (2,)), samples), "o")
    assert stack_samples(spaces.Discrete(3), [1.5, 0.5]).dtype == np.float64
    assert stack_samples(spaces.Box(0, 1, (1,), np.float32), [[0.25], [1]]).dtype == np.float32
