"""N-step windows of episodes that are collected in fragments: cut anywhere, they are the windows of the whole."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from rlcore.agents.replay_memory import ReplayMemory, UniformDraw
from rlcore.environment.rollout import Rollout
from rlcore.foundation.errors import ContractError
from rlcore.foundation.lanes import map_lanes
from tests.agents_toy import discrete_sac_spec, dqn_spec, make_agent, make_rollout

DISCOUNT = 0.5


def stretch(num_steps: int, num_lanes: int, root: int, p_end: float = 0.25) -> Rollout:
    """Return lanes of episodes one after another, as ``run_steps`` collects them. Step k of lane l is number 100 l + k."""
    rng = np.random.default_rng(root)
    shape = (num_steps, num_lanes)
    is_end = rng.random(shape) < p_end
    is_cut = is_end & (rng.random(shape) < 0.5)
    number = 100 * np.arange(num_lanes) + np.arange(num_steps)[:, None]
    step, episode = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for at in range(1, num_steps):
        step[at] = np.where(is_end[at - 1], 0, step[at - 1] + 1)
        episode[at] = episode[at - 1] + is_end[at - 1]
    possible = rng.random((*shape, 3)) < 0.5
    possible[..., 0] = True
    return Rollout(
        seed_id=10 * np.arange(num_lanes) + episode,
        visit=np.zeros(shape, np.int64),
        step=step,
        reference={"at": number[..., None].astype(np.float32)},
        next_reference={"at": (number + 0.5)[..., None].astype(np.float32)},
        action=number,
        reward=number.astype(np.float64),
        components={"one": np.ones(shape)},
        terminated=is_end & ~is_cut,
        truncated=is_cut,
        is_alive=np.ones(shape, bool),
        mask=possible,
        next_mask=np.roll(possible, -1, axis=0),
        log_prob=None,
        value=None,
        internal_state=None,
        auxiliary={},
    )


def fragments(rollout: Rollout, lengths: list[int]) -> list[Rollout]:
    ends = np.cumsum(lengths)
    return [map_lanes(lambda leaf, at=slice(end - n, end): leaf[at], rollout) for end, n in zip(ends, lengths, strict=True)]


def memory_of(rollouts: list[Rollout], num_return_steps: int, size: int = 500) -> ReplayMemory:
    memory = ReplayMemory(size, DISCOUNT, num_return_steps, UniformDraw())
    for rollout in rollouts:
        memory.add(rollout)
    return memory


def remembered(memory: ReplayMemory) -> dict[int, tuple[float, ...]]:
    """Return number of the transition → everything that a target is made of."""
    rows = np.arange(memory.num_rows)
    end, mask = memory.window_ends(rows)
    mask_at_start = memory.mask(rows)
    assert mask is not None and mask_at_start is not None
    columns = [
        memory.reference(rows)["at"][:, 0],
        memory.column("reward_sum", rows),
        memory.column("bootstrap_discount", rows),
        end["at"][:, 0],
        *mask.T,
        *mask_at_start.T,
    ]
    found = {int(row[0]): tuple(map(float, row)) for row in zip(*columns, strict=True)}
    assert len(found) == memory.num_rows  # none twice
    return found


def by_hand(rollout: Rollout, lane: int, start: int, num_return_steps: int) -> tuple[float, float, float] | None:
    """Return Σ γ^k r, what the estimate counts, and the last step of a window; None: it is not complete yet."""
    total = 0.0
    for k in range(num_return_steps):
        at = start + k
        if at == len(rollout.reward):
            return None
        total += DISCOUNT**k * rollout.reward[at, lane]
        if rollout.terminated[at, lane]:
            return total, 0.0, at
        if rollout.truncated[at, lane] or k == num_return_steps - 1:
            return total, DISCOUNT ** (k + 1), at
    return None


@pytest.mark.parametrize("num_return_steps", [1, 2, 3, 5])
@pytest.mark.parametrize("lengths", [[1] * 24, [3] * 8, [7, 1, 2, 14], [24]], ids=["ones", "threes", "uneven", "whole"])
def test_windows_do_not_depend_on_where_the_collection_was_cut(num_return_steps: int, lengths: list[int]) -> None:
    rollout = stretch(24, 4, root=num_return_steps)
    found = remembered(memory_of(fragments(rollout, lengths), num_return_steps))
    expected = {}
    for lane in range(4):
        for start in range(24):
            window = by_hand(rollout, lane, start, num_return_steps)
            if window is not None:
                number = 100 * lane + start
                masks = (*rollout.next_mask[window[2], lane], *rollout.mask[start, lane])
                expected[number] = (float(number), window[0], window[1], 100 * lane + window[2] + 0.5, *map(float, masks))
    assert len(expected) > 60
    assert found == expected


def test_only_the_last_steps_of_episodes_in_progress_wait() -> None:
    rollout = stretch(24, 4, root=0, p_end=0.0)
    memory = memory_of(fragments(rollout, [12, 12]), 3)
    assert memory.num_rows == 4 * (24 - 2)
    ended = replace(rollout, truncated=rollout.truncated | (np.arange(24) == 23)[:, None])
    assert memory_of(fragments(ended, [12, 12]), 3).num_rows == 4 * 24


def changed(fragment: Rollout, what: str) -> Rollout:
    if what == "lanes":
        return map_lanes(lambda leaf: leaf[:, :3], fragment)
    return replace(fragment, **{what: getattr(fragment, what) + 1})


@pytest.mark.parametrize("what", ["seed_id", "visit", "step", "lanes"])
def test_before_another_rollout_windows_end_where_they_stand(what: str) -> None:
    first, second = fragments(stretch(8, 4, root=1, p_end=0.0), [4, 4])
    found = remembered(memory_of([first, changed(second, what)], 3))
    # Steps 2 and 3 waited: 2 + 3/2, and 3 alone; what follows is estimated, after two steps and after one.
    for lane in range(4):
        number = 100.0 * lane
        assert found[100 * lane + 2][1:4] == (number + 2 + (number + 3) / 2, 0.25, number + 3.5)
        assert found[100 * lane + 3][1:4] == (number + 3, 0.5, number + 3.5)


def test_what_waits_is_in_the_state() -> None:
    parts = fragments(stretch(20, 4, root=2), [5, 5, 5, 5])
    whole = memory_of(parts, 4)
    resumed = ReplayMemory(500, DISCOUNT, 4, UniformDraw())
    resumed.load_state_dict(memory_of(parts[:2], 4).state_dict())
    for part in parts[2:]:
        resumed.add(part)
    assert remembered(resumed) == remembered(whole)
    # Nothing that learning does not need waits with them.
    waiting = whole.state_dict()["waiting"]
    assert {field.name for field in fields(Rollout)} == set(waiting) and waiting["components"] == {}


@pytest.mark.parametrize("make_spec", [dqn_spec, discrete_sac_spec])
def test_a_cut_where_nothing_is_possible_is_refused_with_its_place(make_spec: Any) -> None:
    # The engine lets it pass, because nobody acts there; but what follows a cut is worth its best (or its average) action.
    agent = make_agent(make_spec(warm_up_actions="policy") if make_spec is discrete_sac_spec else make_spec())
    rollout = make_rollout(agent.training_policy(), masks="drawn")
    step, lane = np.argwhere(rollout.truncated)[0]
    next_mask = rollout.next_mask.copy()
    next_mask[step, lane] = False
    with pytest.raises(ContractError, match=rf"none possible for seed {lane} at step {step + 1}; nothing was learned"):
        agent.learn(replace(rollout, next_mask=next_mask))
    assert agent.cadence.memory.num_rows == 0
    agent.learn(rollout)
