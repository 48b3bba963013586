"""The counter hash: known values, uniformity, independence of neighbouring keys, and no state."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rlcore.foundation.random_streams import RandomStreams, hash_key, key_generator, key_seed

NUM = 200_000
ONE_IN_A_MILLION = 1e-6
ids = np.arange(NUM)
KEYS = {
    "root": (ids, "train", 5, 0, 3),
    "phase": (0, ids, 5, 0, 3),
    "seed id": (0, "train", ids, 0, 3),
    "visit": (0, "train", 5, ids, 3),
    "step": (0, "train", 5, 0, ids),
}
each_key = pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)


def oracle(*key):
    """SplitMix64's finaliser (Steele, Lea & Flood 2014), absorbing one word after another, in Python's integers."""
    mask, state = 2**64 - 1, 0
    for word in key:
        state = (state * 0x94D049BB133111EB + word + 0x9E3779B97F4A7C15) & mask
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & mask
        state ^= state >> 31
    return state


@given(key=st.lists(st.integers(0, 2**64 - 1), max_size=6))
def test_the_hash_is_that_of_the_oracle(key):
    assert int(hash_key(*key)) == oracle(*key)


def test_the_first_output_of_splitmix64_is_the_published_one():
    # SplitMix64 with seed 0 first mixes the golden gamma: 0xE220A8397B1DCDAF (Vigna's splitmix64.c).
    assert int(hash_key(0)) == 0xE220A8397B1DCDAF


@each_key
def test_numbers_are_uniform(key):
    uniform = (hash_key(*key) >> np.uint64(11)) * 2.0**-53
    assert stats.kstest(uniform, "uniform").pvalue > ONE_IN_A_MILLION
    assert stats.chisquare(np.bincount((uniform * 1000).astype(int), minlength=1000)).pvalue > ONE_IN_A_MILLION


@each_key
def test_every_bit_is_fair_and_neighbouring_keys_flip_half_of_them(key):
    bits = hash_key(*key)
    for words in (bits, bits[:-1] ^ bits[1:], bits[:-64] ^ bits[64:]):
        counts = np.array([int(((words >> np.uint64(bit)) & np.uint64(1)).sum()) for bit in range(64)])
        z = (counts - len(words) / 2) / np.sqrt(len(words) / 4)
        assert np.abs(z).max() < 5.5  # 64 bits, a chance of 2.4e-6


@each_key
def test_neighbouring_keys_are_not_correlated(key):
    uniform = stats.norm.ppf(((hash_key(*key) >> np.uint64(11)) + 0.5) * 2.0**-53)
    for lag in (1, 2, 3, 7, 8, 64, 256, 4096):
        correlation = np.corrcoef(uniform[:-lag], uniform[lag:])[0, 1]
        assert abs(correlation) * np.sqrt(NUM - lag) < 5.5


def test_numbers_of_one_lane_and_of_purposes_are_not_correlated():
    randomness = RandomStreams(3).lanes("train", np.arange(2000), np.zeros(2000, np.int64), np.zeros(2000, np.int64))
    one, other = randomness.uniform("action", 40), randomness.uniform("noise", 40)
    assert np.abs(np.corrcoef(np.concatenate([one, other], axis=1), rowvar=False) - np.eye(80)).max() * np.sqrt(2000) < 5.5
    assert one.min() >= 0.0 and one.max() < 1.0 and one.shape == (2000, 40)


def test_keys_of_a_small_grid_do_not_collide():
    shape = (20, 10, 50, 40)
    parts = [np.arange(size).reshape([-1 if axis == at else 1 for axis in range(4)]) for at, size in enumerate(shape)]
    hashes = hash_key(parts[0], "train", *parts[1:])
    assert hashes.shape == shape and len(np.unique(hashes)) == hashes.size


def test_order_and_length_of_a_key_matter():
    assert len({int(hash_key(*key)) for key in [(1, 2), (2, 1), (1,), (1, 2, 0), (0, 1, 2), ("1", 2)]}) == 6


def test_numbers_do_not_depend_on_neighbours_or_on_earlier_draws():
    streams = RandomStreams(9)
    seed_id, visit, step = np.array([4, 9, 2]), np.array([0, 1, 0]), np.array([5, 0, 3])
    together = streams.lanes("train", seed_id, visit, step)
    streams.lanes("train", seed_id, visit, step).uniform("other", 100)
    for lane in range(3):
        at = slice(lane, lane + 1)
        alone = streams.lanes("train", seed_id[at], visit[at], step[at])
        np.testing.assert_array_equal(alone.uniform("action", 3), together.uniform("action", 3)[at])
    np.testing.assert_array_equal(together.uniform("action", 3)[:, :2], together.uniform("action", 2))


@given(root=st.integers(0, 2**63 - 1), seed_id=st.integers(0, 10**9), visit=st.integers(0, 99), step=st.integers(0, 999))
def test_the_numbers_of_a_lane_are_those_of_its_whole_key(root, seed_id, visit, step):
    lanes = RandomStreams(root).lanes("train", *(np.array([word]) for word in (seed_id, visit, step)))
    phase = zlib.crc32(b"train")
    assert int(lanes.key[0]) == oracle(root, phase, seed_id, visit, step)
    purpose = zlib.crc32(b"action")
    wanted = [(oracle(root, phase, seed_id, visit, step, purpose, number) >> 11) * 2.0**-53 for number in range(3)]
    assert lanes.uniform("action", 3)[0].tolist() == wanted


def test_seeds_for_libraries_fit_and_generators_are_fresh():
    assert 0 <= key_seed(0, "torch") < 2**63 and key_seed(0, "torch") != key_seed(1, "torch")
    assert key_generator(1, "a").random() == key_generator(1, "a").random() != key_generator(1, "b").random()
