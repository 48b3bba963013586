"""Views of orders in progress → observations for a network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlcore.contracts.interpreters import LaneStateInterpreter
from rlcore.contracts.status import LaneStatus
from rlcore.execution.states import ExecutionView
from rlcore.foundation.errors import ConfigError

if TYPE_CHECKING:
    from rlcore.market.features import HistoryFeatures
    from rlcore.market.store import MarketStore

Arrays = dict[str, NDArray[Any]]


class CurrentStepObservation(LaneStateInterpreter[ExecutionView]):
    """Where the order stands now.

    ``private`` (3,): remaining / quantity, steps taken / steps of the window, side. ``features`` (F,), where asked for: fields of
    the store at the last completed tick of today; 0 before the first tick and where the field is unknown.

    Args:
        features: names of fields of the store, e.g. a signal of one's own.
    """

    def __init__(self, features: tuple[str, ...] = ()) -> None:
        self.features = tuple(features)
        parts: dict[str, spaces.Space[Any]] = {
            "private": spaces.Box(np.array([0, 0, -1], np.float32), np.array([1, 1, 1], np.float32), dtype=np.float32)
        }
        if self.features:
            parts["features"] = spaces.Box(-np.inf, np.inf, (len(self.features),), np.float32)
        self._space = spaces.Dict(parts)

    @property
    def observation_space(self) -> spaces.Dict:
        return self._space

    def interpret(self, view: ExecutionView, status: LaneStatus) -> Arrays:
        rows = np.empty((3, len(view.now)))
        np.divide(view.remaining, view.order.quantity, out=rows[0])
        np.divide(view.step, view.num_steps, out=rows[1])
        rows[2] = view.order.side
        observation: Arrays = {"private": rows.T.astype(np.float32, order="C")}
        if self.features:
            latest = [view.latest(name) for name in self.features]
            observation["features"] = np.nan_to_num(np.stack(latest, axis=-1)).astype(np.float32)
        return observation


class FullHistoryObservation(LaneStateInterpreter[ExecutionView]):
    """The whole market history of today, masked at and after now, and the order's own history.

    Observation: ``history`` (T, F), zero at and after now; ``previous_history`` (T, F), the same instrument's previous day in the
    store, zero where there is none, if asked for; ``tick`` = now; ``step``; ``num_steps``; ``private_history`` (max_steps + 1, 2)
    with the rows (remaining fraction, elapsed fraction of steps) after 0, 1, … steps, zero where not yet reached; ``side`` (1,).

    Buffers keep the row of the store instead of its history; ``expand`` reads and masks it.

    Args:
        store: the market data.
        history: causal features of it, array (rows, T, F).
        ticks_per_step: as the simulator's; with the store it says how many steps an episode can have.
        days: whether yesterday is shown too.
    """

    is_compressing: ClassVar[bool] = True

    def __init__(
        self,
        store: MarketStore,
        history: HistoryFeatures,
        ticks_per_step: int,
        days: Literal["today", "today_and_previous"],
    ) -> None:
        if days not in ("today", "today_and_previous"):
            raise ConfigError(f"days must be 'today' or 'today_and_previous', was {days!r}")
        self.store = store
        self.history = history
        self.days = days
        _, num_ticks, num_features = history.array.shape
        max_steps = -(-num_ticks // ticks_per_step)
        market = spaces.Box(-np.inf, np.inf, (num_ticks, num_features), np.float32)
        parts: dict[str, spaces.Space[Any]] = {"history": market}
        if days == "today_and_previous":
            parts["previous_history"] = market
        parts |= {
            "tick": spaces.Discrete(num_ticks + 1),
            "step": spaces.Discrete(max_steps + 1),
            "num_steps": spaces.Discrete(max_steps + 1),
            "private_history": spaces.Box(0.0, 1.0, (max_steps + 1, 2), np.float32),
            "side": spaces.Box(-1.0, 1.0, (1,), np.float32),
        }
        self._space = spaces.Dict(parts)

    @property
    def observation_space(self) -> spaces.Dict:
        return self._space

    def interpret(self, view: ExecutionView, status: LaneStatus) -> Arrays:
        return self.expand(self.compress(view, status))

    def compress(self, view: ExecutionView, status: LaneStatus) -> Arrays:
        """Return the observation with ``row`` (of the store) in place of the histories."""
        remaining = view.remaining_history / view.order.quantity[:, None]
        steps = np.arange(remaining.shape[1])
        elapsed = np.where(steps <= view.step[:, None], steps / view.num_steps[:, None], 0.0)
        return {
            "row": view.order.row,
            "tick": view.now,
            "step": view.step,
            "num_steps": view.num_steps,
            "private_history": np.stack([remaining, elapsed], axis=-1).astype(np.float32),
            "side": view.order.side.astype(np.float32)[:, None],
        }

    def expand(self, reference: Arrays) -> Arrays:
        row, tick = reference["row"], reference["tick"]
        is_past = np.arange(self.history.array.shape[1]) < tick[:, None]
        observation: Arrays = {"history": np.where(is_past[..., None], self.history.array[row], np.float32(0.0))}
        if self.days == "today_and_previous":
            observation["previous_history"] = self._previous_history(row)
        return observation | {name: value for name, value in reference.items() if name != "row"}

    def history_keys(self, reference: Arrays) -> NDArray[np.int64]:
        """Return which day of the store each lane reads, shape (lanes,)."""
        return reference["row"]

    def histories(self, keys: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return whole, unmasked days, shape (keys, T, F); the network's causality hides the future."""
        return self.history.array[keys]

    def _previous_history(self, row: NDArray[np.int64]) -> NDArray[np.float32]:
        previous = self.store.previous_row[row]
        has_previous = (previous >= 0)[:, None, None]
        return np.where(has_previous, self.history.array[np.maximum(previous, 0)], np.float32(0.0))
