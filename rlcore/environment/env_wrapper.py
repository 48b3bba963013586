"""The parts as one ``gymnasium.Env``: one lane, squeezed. For looking, for debugging and for other people's programs."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from rlcore.contracts.seeds import SeedSet
from rlcore.environment.engine import Lanes, Transition, advance, begin
from rlcore.environment.lane_samples import one_lane, stack_samples
from rlcore.environment.parts import EnvironmentParts
from rlcore.environment.rollout import check_length
from rlcore.environment.seed_sampling import training_draw
from rlcore.environment.space_checks import check_one
from rlcore.foundation.errors import ConfigError, ContractError, nearest_name
from rlcore.foundation.random_streams import require_root
from rlcore.foundation.whole_numbers import require_whole_number

_OPTIONS = ("seed_id",)


class EnvWrapper(gymnasium.Env[Any, Any]):
    """A gymnasium environment over lane parts (one-episode parts: see ``looped_parts``).

    ``reset()`` takes the next seed of an endless shuffled sequence (``training_draw``); ``reset(seed=s)`` starts the sequence
    that belongs to ``s``; ``reset(options={"seed_id": i})`` plays seed ``i`` and leaves the sequence where it was. ``info`` holds

    - ``seed_id`` and ``visit``: which episode this is;
    - ``reward/<name>``: the weighted terms, which add up to the reward, and ``component/<name>``: the same unweighted (after a
      step);
    - ``aux_info``: name → auxiliary information after the step, where the task has any;
    - ``metrics``: name → figure of the episode, after its last step.

    Args:
        root: identifies the sequence of seeds until ``reset(seed=…)``; None: drawn from the operating system's entropy, so that
            the environments of an unseeded vector differ, as gymnasium's users expect.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  # gymnasium declares it so

    def __init__(self, parts: EnvironmentParts, seeds: SeedSet[Any], *, root: int | None = None) -> None:
        if len(seeds) < 1:
            raise ConfigError("seeds must hold at least 1 seed, held 0: an environment needs something to play")
        self._parts = parts
        self._seeds = seeds
        self._root = None if root is None else require_root("root", root)
        self._position = 0  # in the sequence of seeds
        self._lanes: Lanes | None = None
        self._weights = [(name, f"reward/{name}", f"component/{name}", w) for name, w in parts.reward.weights.items()]
        self.observation_space: spaces.Space[Any] = parts.state_interpreter.observation_space
        self.action_space: spaces.Space[Any] = parts.action_interpreter.action_space
        self._is_action_one_array = isinstance(self.action_space, spaces.Discrete | spaces.Box)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode.

        Raises:
            ConfigError: for an unknown option, a seed_id that the seed set does not hold, or a seed that is no whole number of
                64 bits; the sequence of seeds is then where it was.
        """
        chosen = self._checked(options or {})
        if seed is not None:
            seed = require_root("seed", seed)
            self._root, self._position = seed, 0
        super().reset(seed=seed)
        seed_id, visit = self._next() if chosen is None else (chosen, 0)
        ids, visits = np.array([seed_id], np.int64), np.array([visit], np.int64)
        self._lanes = begin(self._parts, self._seeds.take(ids), ids, visits)
        return self._observation(self._lanes), {"seed_id": seed_id, "visit": visit}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take one step.

        Raises:
            ContractError: before the first reset, after the end of an episode, and for an episode that goes on beyond the
                simulator's max_steps.
            SpaceError: for an action outside the action space.
        """
        before = self._lanes
        if before is None or before.status.is_done[0]:
            raise ContractError("step must follow reset or a step that did not end the episode: call reset first")
        if not self._is_action_one_array:
            check_one(self.action_space, action, "action")  # before its leaves are looked up
        lanes, transition = advance(self._parts, before, stack_samples(self.action_space, [action]))
        check_length(lanes, self._parts.simulator.max_steps)
        self._lanes = lanes
        return (
            self._observation(lanes),
            float(transition.reward[0]),
            bool(transition.terminated[0]),
            bool(transition.truncated[0]),
            self._info(lanes, transition),
        )

    @property
    def action_mask(self) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
        """Which discrete actions are possible now, shape (actions,); None: all are."""
        return None if self._lanes is None or self._lanes.mask is None else self._lanes.mask[0]

    def _checked(self, options: dict[str, Any]) -> int | None:
        """Return the seed_id that is asked for; None: none is."""
        for name in options:
            if name not in _OPTIONS:
                hint = nearest_name(name, _OPTIONS)
                raise ConfigError(f"option of reset must be one of {', '.join(_OPTIONS)}, was {name!r}{hint}")
        if "seed_id" not in options:
            return None
        return require_whole_number("seed_id", options["seed_id"], 0, len(self._seeds) - 1)

    def _next(self) -> tuple[int, int]:
        """Return the next seed of the sequence, and which visit of it this is."""
        if self._root is None:
            self._root = int(self.np_random.integers(2**63))
        seed_id_, visit = training_draw(self._root, len(self._seeds), self._position, 1)
        self._position += 1
        return int(seed_id_[0]), int(visit[0])

    def _observation(self, lanes: Lanes) -> Any:
        return one_lane(self.observation_space, self._parts.state_interpreter.expand(lanes.reference), 0)

    def _info(self, lanes: Lanes, transition: Transition) -> dict[str, Any]:
        info: dict[str, Any] = {"seed_id": int(lanes.status.seed_id[0]), "visit": int(lanes.status.visit[0])}
        for name, weighted_key, key, weight in self._weights:
            component = float(transition.components[name][0])
            info[weighted_key], info[key] = weight * component, component
        if transition.auxiliary:
            info["aux_info"] = {name: value[0] for name, value in transition.auxiliary.items()}
        if lanes.status.is_done[0]:
            figures = self._parts.simulator.metrics(lanes.state)
            info["metrics"] = {name: float(value[0]) for name, value in figures.items()}
        return info
