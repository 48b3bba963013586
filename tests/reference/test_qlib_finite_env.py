"""QlibRL's cases for its finite vector environments (tests/rl/test_finite_env.py), re-expressed as ours.

There an environment says "no more seeds" by an observation of NaN, and a ``StopIteration`` ends the collection; the cases pass
just as well if it never comes. Here a passage is finite because its seeds are counted. QlibRL's three kinds of vector environment
are names of our two backends.
"""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from rlcore.contracts import ActionInterpreter, Reward, SequenceSeedSet, Simulator, StateInterpreter
from rlcore.environment import Passage, build_backend, collect_episodes, evaluate, looped_parts
from rlcore.environment.random_actions import SameAction
from rlcore.environment.space_checks import check_one
from rlcore.foundation.errors import SpaceError
from rlcore.foundation.random_streams import RandomStreams

NUM_SEEDS, NUM_LANES = 100, 5
LENGTHS = np.array([3 * index % 5 + 1 for index in range(NUM_SEEDS)])
PICTURE = spaces.Box(0.0, 1.0, (10, 10, 3), np.float32)
NESTED = spaces.Dict(
    {
        "sensors": spaces.Dict(
            {
                "position": spaces.Box(-100.0, 100.0, (3,), np.float32),
                "velocity": spaces.Box(-1.0, 1.0, (3,), np.float32),
                "front": spaces.Tuple((PICTURE, PICTURE)),
                "rear": PICTURE,
            }
        ),
        "controller": spaces.MultiDiscrete((5, 2, 2)),
        "inner": spaces.Dict(
            {
                "charge": spaces.Discrete(100),
                "checks": spaces.MultiBinary(10),
                "job": spaces.Dict({"task": spaces.Discrete(5), "progress": spaces.Box(0.0, 100.0, (), np.float32)}),
            }
        ),
    }
)


class Countdown(Simulator):
    """An episode of seed i takes 3 i mod 5 + 1 steps."""

    def __init__(self, initial):
        self.number, self.length, self.taken = initial, LENGTHS[initial], 0

    def step(self, action):
        assert action == 1 and self.taken < self.length
        self.taken += 1

    def get_state(self):
        return self.number, self.taken

    def done(self):
        return self.taken >= self.length

    def metrics(self):
        return {"number": self.number, "counted": self.taken}


class ShowNumber(StateInterpreter):
    observation_space = spaces.Discrete(255)

    def interpret(self, state, status):
        return state[0]


class ShowNested(StateInterpreter):
    """A sample that depends on the seed and the step alone."""

    observation_space = NESTED

    def interpret(self, state, status):
        return nested_sample(*state)


def nested_sample(number, taken):
    NESTED.seed(1000 * number + taken)
    return NESTED.sample()


class Pass(ActionInterpreter):
    action_space = spaces.Discrete(2)

    def interpret(self, state, action, status):
        return action


class One(Reward):
    def reward(self, outcome, status):
        return 1.0


def countdown_parts(shown):
    return looped_parts(Countdown, shown, Pass(), One(), max_steps=5)


@pytest.fixture(scope="module", params=["dummy", "shmem", "subproc"])
def backend(request):
    with build_backend(request.param, 2, chunk_deadline_seconds=60) as built:
        yield built


def test_every_seed_is_played_once_to_its_end(backend):
    """Corrected: it fails where a seed is missing, doubled, cut short or out of order; QlibRL's tracker never looks (E)."""
    policy = SameAction(Pass.action_space, 1)
    seeds = SequenceSeedSet(range(NUM_SEEDS))
    for _ in range(2):  # a second passage is as good as the first; QlibRL's environments are used up
        table = evaluate(countdown_parts(ShowNumber()), policy, seeds, RandomStreams(0), "test", NUM_LANES, backend=backend)
        assert table["number"].tolist() == table["seed_id"].tolist() == list(range(NUM_SEEDS))
        assert table["counted"].tolist() == table["num_steps"].tolist() == table["return"].tolist() == LENGTHS.tolist()


def test_nested_observations_arrive_whole(backend):
    """Corrected: QlibRL's cases end without looking at any observation. Here each is the one that its step gave, to the bit."""
    policy, seed_id = SameAction(Pass.action_space, 1), np.arange(NUM_SEEDS)
    passage = Passage(RandomStreams(0), "train", NUM_LANES)
    seeds = SequenceSeedSet(range(NUM_SEEDS))
    parts = countdown_parts(ShowNested())
    rollout = collect_episodes(backend, parts, policy, seeds, seed_id, np.zeros(NUM_SEEDS, np.int64), passage).rollout
    assert rollout.is_alive.sum() == LENGTHS.sum()
    for seed in range(0, NUM_SEEDS, 7):
        for step in range(LENGTHS[seed]):
            for kept, taken in ((rollout.reference, step), (rollout.next_reference, step + 1)):
                _assert_equal(kept, nested_sample(seed, taken), (step, seed))


def _assert_equal(kept, wanted, at):
    if isinstance(wanted, dict):
        assert kept.keys() == wanted.keys()
        for key in wanted:
            _assert_equal(kept[key], wanted[key], at)
    elif isinstance(wanted, tuple):
        assert isinstance(kept, tuple) and len(kept) == len(wanted)
        for one, other in zip(kept, wanted, strict=True):
            _assert_equal(one, other, at)
    else:
        assert kept.dtype == np.asarray(wanted).dtype
        np.testing.assert_array_equal(kept[at], wanted)


def _sentinel(space):
    """Return what QlibRL makes of a space to say "no more": NaN for real numbers, the largest for integers."""
    if isinstance(space, spaces.Dict):
        return {key: _sentinel(sub) for key, sub in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_sentinel(sub) for sub in space.spaces)
    largest = np.nan if space.dtype.kind == "f" else np.iinfo(space.dtype).max
    return np.full(space.shape or (), largest, space.dtype)


def test_a_sentinel_of_nan_is_an_untrue_observation_and_nothing_else():
    """Corrected (Q14, D22): it is refused with its place. No observation says that seeds are exhausted: their number does."""
    with pytest.raises(SpaceError, match=r"observation\['controller'\] must lie in"):
        check_one(NESTED, _sentinel(NESTED), "observation")
    sensors = NESTED["sensors"]
    with pytest.raises(SpaceError, match=r"observation\['front'\]\[0\] must lie in \[0.0, 1.0\], was nan"):
        check_one(sensors, _sentinel(sensors), "observation")
    for number in range(20):
        check_one(NESTED, nested_sample(number, 0), "observation")
