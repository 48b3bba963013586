"""Every seed exactly once under tianshou's own Collector, all lanes stepped at once.

In its ``n_episode`` mode, the Collector resets every lane that has finished and only then drops the lanes that it no longer
needs. Environments that draw a seed at each reset so lose seeds or repeat them. Which lanes it drops is known, though: those
that finished first in the order of the lanes, as many as are too many. With as many episodes wanted as there are seeds, that
leaves exactly one lane for each seed that is left. So the seeds that are left go to the last of the lanes that are reset, and
what stands in the others is never stepped.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import create_empty_array
from numpy.typing import NDArray
from tianshou.env import BaseVectorEnv

from rlcore.agents.tianshou_batch import batch_of
from rlcore.contracts.seeds import SeedSet
from rlcore.environment.engine import Lanes, advance, begin, living
from rlcore.environment.episode_jobs import JobResult
from rlcore.environment.episode_table import EpisodeTable, build_episode_table
from rlcore.environment.lane_samples import is_array_space, stack_samples
from rlcore.environment.parts import EnvironmentParts
from rlcore.environment.rollout import Episodes, add_up, check_length, note_ends
from rlcore.environment.space_checks import check_one
from rlcore.foundation.errors import ConfigError, ContractError, EvaluationError
from rlcore.foundation.lanes import concat_lanes, map_lanes, take_lanes

LaneIds = int | list[int] | NDArray[np.int64] | None


class FiniteVectorEnv(BaseVectorEnv):
    """A vector environment of tianshou's that plays every seed of a set once, in order, and then has nothing left.

    ``Collector(policy, FiniteVectorEnv(parts, seeds, num_lanes)).collect(n_episode=len(seeds), reset_before_collect=True)`` is
    one pass: one episode for each seed, whatever their lengths. Every reset of all lanes begins another pass, which the
    Collector does by itself after a collection. ``info`` holds ``seed_id``; ``table`` has one row for each seed.

    What would lose seeds or repeat them raises a ContractError: collecting more episodes than there are seeds, or by
    ``n_step`` beyond the last seed, when a lane without a seed is stepped; collecting fewer, when the next pass begins.

    Args:
        num_lanes: episodes at once; there may be more lanes than seeds.
    """

    def __init__(self, parts: EnvironmentParts, seeds: SeedSet[Any], num_lanes: int) -> None:
        if num_lanes < 1 or len(seeds) < 1:
            raise ConfigError(f"num_lanes and the number of seeds must be at least 1, were {num_lanes} and {len(seeds)}")
        _check_observation_space(parts.state_interpreter.observation_space)
        # Not BaseVectorEnv.__init__: it makes a worker for each lane. These are all the attributes that it sets.
        self.env_num = self.wait_num = num_lanes
        self.timeout = None
        self.is_async = self.is_closed = False
        self.workers = []
        self.ready_id, self.waiting_id, self.waiting_conn = list(range(num_lanes)), [], []
        self._parts, self._seeds = parts, seeds
        self._shown = create_empty_array(parts.state_interpreter.observation_space, num_lanes)  # the last of each lane
        self._pass: _Pass | None = None
        self._table: EpisodeTable | None = None

    @property
    def table(self) -> EpisodeTable:
        """The episode table of the last whole pass.

        Raises:
            EvaluationError: no pass is whole yet.
        """
        if self._table is None:
            ended = 0 if self._pass is None else self._pass.num_ended
            raise EvaluationError(f"{self._whole_pass()}, {ended} of {len(self._seeds)} episodes have ended")
        return self._table

    def reset(self, env_id: LaneIds = None, **kwargs: Any) -> tuple[Any, NDArray[np.object_]]:
        """Give the next seeds to these lanes; None: begin another pass in all lanes.

        Raises:
            ConfigError: for options (the seeds are those of the seed set, and each episode is its seed's alone).
            ContractError: the pass before is not whole, or one of the lanes is in the middle of its episode.
        """
        self._assert_is_not_closed()
        if kwargs:
            raise ConfigError(f"reset must have no options, had {', '.join(kwargs)}: the seeds are those of the seed set")
        ids = self._ids(env_id)
        if env_id is None:
            self._begin_pass()
        else:
            self._renew(self._current(), ids)
        return self._observation(ids), self._infos(ids)

    def step(self, action: Any, id: LaneIds = None) -> tuple[Any, ...]:
        """Step these lanes.

        Raises:
            ContractError: a lane has no episode in progress.
            SpaceError: for an action outside the action space.
        """
        self._assert_is_not_closed()
        current, ids = self._current(), self._ids(id)
        row = current.row_of_lane(self.env_num)[ids]
        if (row < 0).any():
            self._refuse_step(current, int(ids[row < 0][0]))
        if len(action) != len(ids):
            raise ContractError(f"step must have one action for each of {len(ids)} lanes, had {len(action)}")
        before = take_lanes(current.lanes, row)
        infos = self._infos(ids)
        after, transition = advance(self._parts, before, self._stacked(action))
        check_length(after, self._parts.simulator.max_steps)
        position = after.status.seed_id
        add_up(current.episodes, position, transition)
        if after.status.is_done.any():
            note_ends(self._parts, current.episodes, after, transition, position)
        current.replace(row, after, ids)
        self._show(ids, after)
        if current.num_ended == len(self._seeds):
            self._table = build_episode_table(
                JobResult(current.episodes, {}), self._parts.reward, self._seeds, np.arange(len(self._seeds))
            )
        return self._observation(ids), transition.reward.copy(), transition.terminated, transition.truncated, infos

    def get_env_attr(self, key: str, id: LaneIds = None) -> list[Any]:
        """Return the spaces, the same for every lane; of gymnasium's other attributes there are none."""
        known = {
            "action_space": self._parts.action_interpreter.action_space,
            "observation_space": self._parts.state_interpreter.observation_space,
            "metadata": {"render_modes": []},
        }
        return [known.get(key)] * len(self._ids(id))

    def set_env_attr(self, key: str, value: Any, id: LaneIds = None) -> None:
        raise ContractError(f"lanes must share their parts, {key!r} was to be set for some: make parts that have it")

    def seed(self, seed: int | list[int] | None = None) -> list[list[int] | None]:
        """Change nothing: an episode is its seed's alone."""
        return [None] * self.env_num

    def render(self, **kwargs: Any) -> list[Any]:
        raise ContractError("render is not offered by lanes: look at one episode with EnvWrapper")

    def close(self) -> None:
        self._assert_is_not_closed()
        self.is_closed = True

    def _ids(self, ids: LaneIds) -> NDArray[np.int64]:
        return np.arange(self.env_num) if ids is None else np.atleast_1d(np.asarray(ids, np.int64))

    def _current(self) -> _Pass:
        if self._pass is None:
            raise ContractError("a pass must begin with a reset of all lanes: reset the collector first")
        return self._pass

    def _begin_pass(self) -> None:
        before = self._pass
        if before is not None and before.is_stepped and before.num_ended < len(self._seeds):
            raise ContractError(
                f"{self._whole_pass()}, {before.num_ended} of {len(self._seeds)} episodes had ended when another pass began: to "
                "start over all the same, make a new FiniteVectorEnv"
            )
        self._pass = _Pass(len(self._seeds))
        # The Collector uses the first lanes where it wants fewer episodes than there are lanes.
        used = np.arange(min(self.env_num, len(self._seeds)))
        self._start(self._pass, used)
        map_lanes(lambda shown: np.copyto(shown[len(used) :], shown[:1]), self._shown)  # something inside the space

    def _renew(self, current: _Pass, ids: NDArray[np.int64]) -> None:
        is_running = np.isin(ids, current.lane)
        if is_running.any():
            raise ContractError(
                f"lanes to reset must have ended their episodes, lane {ids[is_running][0]} has not: its seed would be lost"
            )
        num_left = len(self._seeds) - current.num_started
        self._start(current, ids[max(len(ids) - num_left, 0) :])  # see the head of this file: the first are dropped

    def _start(self, current: _Pass, ids: NDArray[np.int64]) -> None:
        if not len(ids):
            return
        seed_id = np.arange(current.num_started, current.num_started + len(ids))
        fresh = begin(self._parts, self._seeds.take(seed_id), seed_id, np.zeros(len(ids), np.int64))
        current.add(fresh, ids)
        self._show(ids, fresh)

    def _show(self, ids: NDArray[np.int64], lanes: Lanes) -> None:
        def write(shown: NDArray[Any], new: NDArray[Any]) -> None:
            shown[ids] = new

        map_lanes(write, self._shown, self._parts.state_interpreter.expand(lanes.reference))

    def _observation(self, ids: NDArray[np.int64]) -> Any:
        return batch_of(take_lanes(self._shown, ids))  # copies: taking by index never gives a view

    def _infos(self, ids: NDArray[np.int64]) -> NDArray[np.object_]:
        current = self._current()
        infos = np.empty(len(ids), object)
        for index, row in enumerate(current.row_of_lane(self.env_num)[ids]):
            infos[index] = {} if row < 0 else {"seed_id": int(current.lanes.status.seed_id[row])}
        return infos

    def _stacked(self, action: Any) -> Any:
        space = self._parts.action_interpreter.action_space
        if is_array_space(space):
            return np.asarray(action)
        for one in action:
            check_one(space, one, "action")
        return stack_samples(space, list(action))

    def _whole_pass(self) -> str:
        return f"a pass must play every seed: collect n_episode={len(self._seeds)} at once"

    def _refuse_step(self, current: _Pass, lane: int) -> NoReturn:
        if current.num_started < len(self._seeds):
            raise ContractError(f"a lane to step must have an episode in progress, lane {lane} has none: reset it first")
        raise ContractError(f"a lane to step must have a seed, none is left for lane {lane}. {self._whole_pass()}")


class _Pass:
    """One pass over the seeds: the episodes in progress, in no particular order, and what the ended ones left."""

    def __init__(self, num_seeds: int) -> None:
        zeros = np.zeros(num_seeds, np.int64)
        self.episodes = Episodes(None, zeros, np.zeros(num_seeds), {}, np.zeros(num_seeds, bool))  # by seed
        self.num_started = 0
        self.lanes: Any = None  # of the episodes in progress; None before the first
        self.lane = zeros[:0]  # in which lane each of them runs

    @property
    def num_ended(self) -> int:
        return self.num_started - len(self.lane)

    @property
    def is_stepped(self) -> bool:
        return bool(self.episodes.num_steps.any())

    def row_of_lane(self, num_lanes: int) -> NDArray[np.int64]:
        """Return where each lane's episode stands among those in progress; -1: it has none."""
        row = np.full(num_lanes, -1)
        row[self.lane] = np.arange(len(self.lane))
        return row

    def add(self, fresh: Lanes, ids: NDArray[np.int64]) -> None:
        self.lanes = fresh if self.lanes is None else concat_lanes(self.lanes, fresh)
        self.lane = np.concatenate([self.lane, ids])
        self.num_started += len(ids)

    def replace(self, row: NDArray[np.int64], after: Lanes, ids: NDArray[np.int64]) -> None:
        """Put the episodes at these rows where a step has brought them; those that have ended are gone."""
        is_other = np.ones(len(self.lane), bool)
        is_other[row] = False
        others = take_lanes(self.lanes, is_other)
        self.lanes = concat_lanes(others, living(after)) if is_other.any() else living(after)
        self.lane = np.concatenate([self.lane[is_other], ids[~after.status.is_done]])


def _check_observation_space(space: spaces.Space[Any], path: str = "observation") -> None:
    if isinstance(space, spaces.Dict):
        for key, sub_space in space.spaces.items():
            _check_observation_space(sub_space, f"{path}[{key!r}]")
    elif not is_array_space(space):
        raise ConfigError(
            f"{path} must be an array or a dict for tianshou's Collector, which takes no other spaces, was {space}: use a dict"
        )
