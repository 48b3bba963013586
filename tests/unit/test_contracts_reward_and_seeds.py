"""Weighted rewards and seed sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rlcore.contracts
import rlcore.environment
import rlcore.foundation
from rlcore.contracts import LaneReward, LaneStatus, SequenceSeedSet, Simulator, WeightedReward
from rlcore.foundation.errors import ConfigError

numbers = st.floats(-1e6, 1e6)


class Constant(LaneReward):
    def __init__(self, value):
        self.value = value

    def reward(self, outcome, status):
        return np.full(3, self.value)


@given(terms=st.dictionaries(st.text(min_size=1), st.tuples(numbers, numbers), min_size=1, max_size=4))
def test_the_reward_is_the_weighted_sum_of_components(terms):
    reward = WeightedReward({name: (Constant(value), weight) for name, (value, weight) in terms.items()})
    components = reward.components(None, LaneStatus(*np.zeros((3, 3), np.int64), np.zeros(3, bool)))
    assert {name: column.tolist() for name, column in components.items()} == {n: [v] * 3 for n, (v, _) in terms.items()}
    wanted = sum(value * weight for value, weight in terms.values())
    np.testing.assert_allclose(reward.total(components), wanted, rtol=1e-12, atol=1e-9)
    assert reward.weights == {name: weight for name, (_, weight) in terms.items()}
    # Of any shape: a whole rollout's components at once.
    wide = {name: np.stack([column, column]) for name, column in components.items()}
    np.testing.assert_array_equal(reward.total(wide), np.stack([reward.total(components)] * 2))


@pytest.mark.parametrize("weight", [np.nan, np.inf, -np.inf])
def test_weights_are_finite_and_there_are_some(weight):
    with pytest.raises(ConfigError, match="weight of reward term 'a' must be finite"):
        WeightedReward({"a": (Constant(1.0), weight)})
    with pytest.raises(ConfigError, match="reward must have at least one named term, had none"):
        WeightedReward({})


def test_a_sequence_becomes_a_seed_set_in_the_order_asked_for():
    seeds = SequenceSeedSet([(1, 2), [3], "four"])
    assert len(seeds) == 3
    taken = seeds.take(np.array([2, 0, 2]))
    assert taken.dtype == object and taken.shape == (3,) and taken.tolist() == ["four", (1, 2), "four"]
    assert seeds.describe(np.array([0])) == {}


def test_sequences_are_told_apart_by_content_and_name():
    prints = [SequenceSeedSet(states, name).fingerprint for states, name in [([1, 2], ""), ([2, 1], ""), ([1, 2], "a")]]
    arrays = [SequenceSeedSet(np.array(states)).fingerprint for states in ([1, 2], [1, 3])]
    assert arrays[0] != arrays[1] and arrays[0] == SequenceSeedSet(np.array([1, 2])).fingerprint
    assert len(set(prints)) == 3 and SequenceSeedSet((1, 2)).fingerprint == SequenceSeedSet([1, 2]).fingerprint


def test_lazy_sequences_are_loaded_when_they_are_taken():
    loaded = []

    class Lazy:
        def __len__(self):
            return 10**9

        def __getitem__(self, index):
            loaded.append(index)
            return index

    seeds = SequenceSeedSet(Lazy(), name="lazy")
    assert len(seeds.fingerprint) == 16 and loaded == []
    assert seeds.take(np.array([7, 10**8])).tolist() == [7, 10**8] == loaded


@pytest.mark.parametrize("error", [OSError("cannot open"), IndexError("no such row"), StopIteration("the end")])
def test_what_an_item_raises_is_raised_as_it_is_and_names_the_item(error):
    class Failing(list):
        def __getitem__(self, index):
            if index == 2:
                raise error
            return super().__getitem__(index)

    seeds = SequenceSeedSet(Failing(range(5)), name="orders")
    assert seeds.take(np.array([0, 1, 3, 4])).tolist() == [0, 1, 3, 4]
    with pytest.raises(type(error)) as caught:
        seeds.take(np.array([1, 2, 3]))
    assert caught.value is error and error.__notes__ == ["raised by item 2 of the seed set's collection orders"]


def test_a_one_episode_simulator_needs_four_methods_only():
    class Least(Simulator):
        def __init__(self, initial):
            self.left = initial

        def step(self, action):
            self.left -= action

        def get_state(self):
            return self.left

        def done(self):
            return self.left <= 0

    simulator = Least(3)
    simulator.step(2)
    assert (simulator.outcome(), simulator.truncated(), simulator.metrics(), simulator.done()) == (1, False, {}, False)


@pytest.mark.parametrize("package", [rlcore.foundation, rlcore.contracts, rlcore.environment])
def test_public_names_are_a_sorted_list_of_what_exists(package):
    assert package.__all__ == sorted(package.__all__, key=lambda name: (not name.isupper(), not name[0].isupper(), name))
    assert all(hasattr(package, name) for name in package.__all__)
