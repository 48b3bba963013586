"""What a step says besides observation and reward: auxiliary information and masks; and episodes that are cut or not checked."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from rlcore.contracts import (
    ActionInterpreter,
    AuxiliaryInfo,
    EpisodeStatus,
    LaneAuxiliaryInfo,
    LaneStatus,
    Reward,
    SequenceSeedSet,
    Simulator,
    StateInterpreter,
)
from rlcore.environment import (
    EnvironmentParts,
    EnvWrapper,
    InlineBackend,
    Passage,
    RandomActions,
    SameAction,
    SubprocBackend,
    evaluate,
    keep_transitions,
    looped_parts,
    run_episodes,
    run_steps,
    start_lanes,
    training_draw,
)
from rlcore.foundation.errors import ConfigError, ContractError, SpaceError
from rlcore.foundation.random_streams import RandomStreams


class Countdown(Simulator[int, int, int]):
    """Counts down from the initial number by the action, 1 or 2, and ends at 0."""

    def __init__(self, initial: int) -> None:
        self.left = initial

    def step(self, action: int) -> None:
        self.left -= action

    def get_state(self) -> int:
        return self.left

    def done(self) -> bool:
        return self.left == 0


class Left(StateInterpreter[int]):
    @property
    def observation_space(self) -> spaces.Box:
        return spaces.Box(0, 9, (1,), np.float32)

    def interpret(self, state: int, status: EpisodeStatus) -> np.ndarray:
        return np.array([state], np.float32)


class OneOrTwo(ActionInterpreter[int, int]):
    """Two is impossible where only one is left."""

    @property
    def action_space(self) -> spaces.Discrete:
        return spaces.Discrete(2)

    def interpret(self, state: int, action: int, status: EpisodeStatus) -> int:
        return int(action) + 1

    def mask(self, state: int, status: EpisodeStatus) -> np.ndarray:
        return np.array([state >= 1, state >= 2])


class One(Reward[int]):
    def reward(self, outcome: int, status: EpisodeStatus) -> float:
        return 1.0


class LeftAndLabel(AuxiliaryInfo[int]):
    def collect(self, state: int, status: EpisodeStatus) -> dict[str, Any]:
        return {"left": state, "pair": np.array([state, status.step]), "label": f"{state} left"}


def countdown_parts(**changed: Any) -> EnvironmentParts:
    given = {"max_steps": 9, "auxiliary": LeftAndLabel(), **changed}
    return looped_parts(Countdown, Left(), OneOrTwo(), One(), **given)


SEEDS = SequenceSeedSet([5, 3, 1, 4])


def passage(num_lanes: int = 2) -> Passage:
    return Passage(RandomStreams(7), "train", num_lanes)


def all_seeds_once() -> tuple[np.ndarray, np.ndarray]:
    return np.arange(len(SEEDS)), np.zeros(len(SEEDS), np.int64)


def test_auxiliary_information_is_kept_for_every_step() -> None:
    policy = RandomActions(spaces.Discrete(2))
    episodes = run_episodes(countdown_parts(), policy, SEEDS, *all_seeds_once(), passage(), keep=keep_transitions)
    rollout = episodes.rollout
    assert rollout is not None
    alive = rollout.is_alive
    np.testing.assert_array_equal(rollout.auxiliary["left"][alive], rollout.next_reference[..., 0][alive])
    step = np.broadcast_to(np.arange(len(alive))[:, None] + 1, alive.shape)
    np.testing.assert_array_equal(rollout.auxiliary["pair"][..., 1][alive], step[alive])
    assert rollout.auxiliary["label"][0, 0] == f"{rollout.auxiliary['left'][0, 0]} left"
    # The table shows the mean over an episode's steps, here by hand; what is no number is not averaged.
    table = evaluate(countdown_parts(), policy, SEEDS, RandomStreams(7), "train", 2)
    by_hand = [rollout.auxiliary["left"][:, lane][alive[:, lane]].mean() for lane in range(len(SEEDS))]
    np.testing.assert_array_equal(table["auxiliary/left"], by_hand)
    assert table.summary()["auxiliary/left/mean"] == pytest.approx(np.mean(by_hand))
    assert [name for name in table.columns if name.startswith("auxiliary/")] == ["auxiliary/left"]


def test_what_only_some_steps_know_is_averaged_over_those() -> None:
    class Even(AuxiliaryInfo[int]):
        def collect(self, state: int, status: EpisodeStatus) -> dict[str, Any]:
            return {"even": state if state % 2 == 0 and state else np.nan}

    table = evaluate(countdown_parts(auxiliary=Even()), SameAction(spaces.Discrete(2), 0), SEEDS, RandomStreams(7), "t", 2)
    # 5 4 3 2 1 0: 4 and 2; 3 2 1 0: 2; 1 0: none; 4 3 2 1 0: 2 (the first state is before any step).
    np.testing.assert_array_equal(table["auxiliary/even"], [3.0, 2.0, np.nan, 2.0])
    assert (table.summary()["auxiliary/even/mean"], table.summary()["auxiliary/even/num_missing"]) == (7 / 3, 1.0)


def test_auxiliary_information_does_not_depend_on_where_it_was_collected() -> None:
    policy = RandomActions(spaces.Discrete(2))
    inline = evaluate(countdown_parts(), policy, SEEDS, RandomStreams(7), "t", 2, backend=InlineBackend())
    with SubprocBackend(2) as backend:
        apart = evaluate(countdown_parts(), policy, SEEDS, RandomStreams(7), "t", 2, backend=backend)
    np.testing.assert_array_equal(inline["auxiliary/left"], apart["auxiliary/left"])


def test_fragments_average_auxiliary_information_over_whole_episodes() -> None:
    parts, policy = countdown_parts(), RandomActions(spaces.Discrete(2))

    def draw(first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        return training_draw(7, len(SEEDS), first, count)

    running = start_lanes(parts, policy, SEEDS, draw, passage())
    found = {}
    for _ in range(6):  # fragments of one step: every episode is spread over several
        fragment = run_steps(parts, policy, SEEDS, draw, running, 1, passage())
        running = fragment.running
        if fragment.finished is not None:
            for lane, seed in enumerate(fragment.finished_seed_id):
                if fragment.finished_visit[lane] == 0:
                    episodes = fragment.finished
                    found[int(seed)] = episodes.auxiliary_sums["left"][lane] / episodes.auxiliary_counts["left"][lane]
    table = evaluate(parts, policy, SEEDS, RandomStreams(7), "train", 2)
    assert len(found) >= 2
    for seed, mean in found.items():
        assert mean == table["auxiliary/left"][seed]


def test_a_gymnasium_user_reads_auxiliary_information_in_info() -> None:
    env = EnvWrapper(countdown_parts(), SEEDS)
    _, info = env.reset(options={"seed_id": 0})
    assert "aux_info" not in info
    info = env.step(1)[-1]
    assert (info["aux_info"]["left"], info["aux_info"]["label"]) == (3, "3 left")
    np.testing.assert_array_equal(info["aux_info"]["pair"], [3, 1])


def test_auxiliary_information_needs_the_same_names_at_every_step() -> None:
    class Sometimes(AuxiliaryInfo[int]):
        def collect(self, state: int, status: EpisodeStatus) -> dict[str, Any]:
            return {"odd": 1} if state % 2 else {"even": 1}

    with pytest.raises(ContractError, match="same names at every step"):
        run_episodes(
            countdown_parts(auxiliary=Sometimes()), RandomActions(spaces.Discrete(2)), SEEDS, *all_seeds_once(), passage()
        )


def test_lanes_offer_auxiliary_information_too() -> None:
    class Steps(LaneAuxiliaryInfo[Any]):
        def collect(self, view: Any, status: LaneStatus) -> dict[str, np.ndarray]:
            return {"step": status.step}

    given = countdown_parts(auxiliary=None)
    parts = EnvironmentParts(given.simulator, given.state_interpreter, given.action_interpreter, given.reward, Steps())
    table = evaluate(parts, RandomActions(spaces.Discrete(2)), SEEDS, RandomStreams(7), "t", 4)
    np.testing.assert_array_equal(table["auxiliary/step"], (table["num_steps"] + 1) / 2)  # the mean of 1 … n


def test_the_mask_after_a_step_is_the_mask_before_the_next() -> None:
    policy = RandomActions(spaces.Discrete(2))
    rollout = run_episodes(countdown_parts(), policy, SEEDS, *all_seeds_once(), passage(), keep=keep_transitions).rollout
    assert rollout is not None and rollout.mask is not None and rollout.next_mask is not None
    goes_on = rollout.is_alive[1:]
    np.testing.assert_array_equal(rollout.next_mask[:-1][goes_on], rollout.mask[1:][goes_on])
    np.testing.assert_array_equal(rollout.mask[rollout.is_alive][:, 1], rollout.reference[..., 0][rollout.is_alive] >= 2)
    assert rollout.next_mask[rollout.terminated].all()  # nobody acts there
    # Never an impossible action: the countdown ends at 0 and not below.
    assert rollout.next_reference[rollout.terminated].max() == 0.0


def test_masks_are_there_after_the_last_step_of_an_episode_that_was_cut() -> None:
    parts = countdown_parts(max_steps=2, at_max_steps="truncate")
    seeds = SequenceSeedSet([3, 9])
    policy = RandomActions(spaces.Discrete(2))
    rollout = run_episodes(parts, policy, seeds, np.arange(2), np.zeros(2, np.int64), passage(), keep=keep_transitions).rollout
    assert rollout is not None and rollout.next_mask is not None
    assert rollout.truncated[1, 1] and not rollout.terminated[1, 1]
    np.testing.assert_array_equal(rollout.next_mask[1, 1], [True, True])
    if rollout.truncated[1, 0]:  # 3 − 1 − 1 = 1 is left: two is impossible
        np.testing.assert_array_equal(rollout.next_mask[1, 0], [True, False])


@pytest.mark.parametrize("left", [3, 4])
def test_a_task_is_cut_at_max_steps_and_not_before(left: int) -> None:
    env = EnvWrapper(countdown_parts(max_steps=3, at_max_steps="truncate"), SequenceSeedSet([left]))
    env.reset()
    ends = [env.step(0)[2:4] for _ in range(3)]
    # Three steps of one: from 3 the episode ends by itself in the last step that it may take, from 4 it is cut.
    assert ends == [(False, False), (False, False), (True, False) if left == 3 else (False, True)]


def test_an_episode_that_goes_on_is_an_error_where_nothing_cuts_it() -> None:
    parts, seeds, policy = countdown_parts(max_steps=2), SequenceSeedSet([9]), RandomActions(spaces.Discrete(2))
    with pytest.raises(ContractError, match="within max_steps = 2"):
        run_episodes(parts, policy, seeds, np.zeros(1, np.int64), np.zeros(1, np.int64), passage(1))

    def draw(first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        return training_draw(7, 1, first, count)

    running = start_lanes(parts, policy, seeds, draw, passage(1))
    with pytest.raises(ContractError, match="within max_steps = 2"):
        run_steps(parts, policy, seeds, draw, running, 3, passage(1))


@pytest.mark.parametrize("changed", [{"at_max_steps": "ignore"}, {"space_checks": "never"}])
def test_unknown_choices_are_refused(changed: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(changed))} must be .*, was"):
        countdown_parts(**changed)


class Liar(StateInterpreter[int]):
    """Leaves its space: its first number is above 1 from the start."""

    @property
    def observation_space(self) -> spaces.Box:
        return spaces.Box(0, 1, (1,), np.float32)

    def interpret(self, state: int, status: EpisodeStatus) -> np.ndarray:
        return np.array([state], np.float32)


def test_checks_of_first_episodes_only_are_said_in_the_log_and_find_what_the_first_show(
    caplog: pytest.LogCaptureFixture,
) -> None:
    policy = RandomActions(spaces.Discrete(2))
    with caplog.at_level(logging.WARNING):
        parts = looped_parts(Countdown, Liar(), OneOrTwo(), One(), max_steps=9, space_checks="first_episodes")
    assert "first episode only" in caplog.text
    ids = np.zeros(1, np.int64)
    with pytest.raises(SpaceError, match="observation"):
        run_episodes(parts, policy, SEEDS, ids, ids, passage(1))
    again = run_episodes(parts, policy, SEEDS, ids, ids + 1, passage(1))  # the seed's second visit
    assert again.num_steps[0] >= 3
    checked = looped_parts(Countdown, Liar(), OneOrTwo(), One(), max_steps=9)
    with pytest.raises(SpaceError, match="observation"):
        run_episodes(checked, policy, SEEDS, ids, ids + 1, passage(1))
