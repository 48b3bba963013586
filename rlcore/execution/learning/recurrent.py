"""The recurrent network of oracle policy distillation, which QlibRL calls Recurrent."""

from __future__ import annotations

from typing import Any, Literal

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor, nn

from rlcore.agents.networks import HistoryNetwork
from rlcore.contracts.interpreters import Observation, Reference, SharesHistory
from rlcore.execution.learning.causal_encoder import CausalEncoder
from rlcore.execution.learning.encoding_memory import EncodingMemory
from rlcore.foundation.errors import ConfigError

_NEEDED = ("history", "tick", "step", "private_history", "side")
# States of 64 numbers: 64 MiB.
_REMEMBERED_STATES = 2**18


class RecurrentNetwork(HistoryNetwork):
    """Features of an order in progress (Fang et al. 2021, arXiv:2103.10860, figure 3).

    Three branches, put together by two layers: the market's history, with a row of zeros in front, through Linear, ReLU and GRU,
    read before the tick of now; the order's own history (remaining fraction, elapsed fraction) through the same, read at this
    step; the side as (is buy, is sell) through two layers. With ``days="today_and_previous"`` a fourth branch encodes the whole
    day before; QlibRL makes its GRU and never asks it.
    """

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        hidden_size: int,
        output_size: int,
        days: Literal["today", "today_and_previous"],
    ) -> None:
        super().__init__(output_size)
        self.needs_observation = days == "today_and_previous"
        needed = (*_NEEDED, "previous_history") if self.needs_observation else _NEEDED
        if not isinstance(observation_space, spaces.Dict) or not set(needed) <= set(observation_space.spaces):
            raise ConfigError(
                f"observation of the recurrent network must have the fields {', '.join(needed)}, was {observation_space}: "
                f"take the observation full_history with days {days}, or the network mlp"
            )
        num_features = _width(observation_space["history"])
        self.market = CausalEncoder(num_features, hidden_size)
        self.private = CausalEncoder(_width(observation_space["private_history"]), hidden_size)
        self.previous = CausalEncoder(num_features, hidden_size) if self.needs_observation else None
        self.side = nn.Sequential(nn.Linear(2, hidden_size), nn.ReLU(), nn.Linear(hidden_size, hidden_size), nn.ReLU())
        num_branches = 4 if self.needs_observation else 3
        self.together = nn.Sequential(
            nn.Linear(num_branches * hidden_size, hidden_size), nn.ReLU(), nn.Linear(hidden_size, output_size), nn.ReLU()
        )
        self._memory = EncodingMemory(_REMEMBERED_STATES)

    def forward(self, observation: Observation) -> Tensor:
        history = np.asarray(observation["history"], np.float32)
        rows = np.arange(len(history))
        branches = [
            self._read_market(history, rows, observation["tick"]),
            self._read_private(observation),
            self._read_side(observation),
        ]
        if self.previous is not None:
            yesterday = np.asarray(observation["previous_history"], np.float32)
            whole_day = np.full(len(rows), yesterday.shape[1] - 1)
            branches.append(self.previous.states_at(*self._tensors(yesterday, rows, whole_day)))
        return self.together(torch.cat(branches, -1))  # type: ignore[no-any-return]  # nn.Module returns Any

    def forward_shared(self, reference: Reference, shared: SharesHistory) -> Tensor:
        keys, of_row = np.unique(shared.history_keys(reference), return_inverse=True)
        seen = int(np.max(reference["tick"]))
        market = self._read_market(shared.histories(keys)[:, :seen], of_row.reshape(-1), reference["tick"])
        return self._put_together(market, self._read_private(reference), reference)

    def decide_shared(self, reference: Reference, shared: SharesHistory) -> Tensor:
        keys = shared.history_keys(reference)
        market = self._memory.states_at(self.market, shared, keys, np.asarray(reference["tick"], np.int64))
        return self._put_together(torch.from_numpy(market).to(self.device), self._step_private(reference), reference)

    def forget(self) -> None:
        self._memory.clear()

    def _put_together(self, market: Tensor, private: Tensor, reference: Reference) -> Tensor:
        return self.together(torch.cat([market, private, self._read_side(reference)], -1))  # type: ignore[no-any-return]  # as above

    def _read_market(self, history: NDArray[np.float32], of_row: NDArray[np.int64], tick: NDArray[np.int64]) -> Tensor:
        with_zeros = np.zeros((len(history), history.shape[1] + 1, history.shape[2]), np.float32)
        with_zeros[:, 1:] = history
        return self.market.states_at(*self._tensors(with_zeros, of_row, tick))

    def _read_private(self, fields: Observation) -> Tensor:
        history = np.asarray(fields["private_history"], np.float32)
        return self.private.states_at(*self._tensors(history, np.arange(len(history)), fields["step"]))

    def _step_private(self, fields: Observation) -> Tensor:
        """Return what ``_read_private`` does, by steps of all rows, so that no row depends on another."""
        history = torch.from_numpy(np.asarray(fields["private_history"], np.float32)).to(self.device)
        step = torch.from_numpy(np.asarray(fields["step"], np.int64)).to(self.device)
        state = history.new_zeros(len(history), self.private.hidden_size)
        read = state
        for position in range(int(step.max()) + 1):
            state = self.private.step(history[:, position].contiguous(), state)
            read = torch.where((step == position)[:, None], state, read)
        return read

    def _read_side(self, fields: Observation) -> Tensor:
        side = torch.from_numpy(np.reshape(fields["side"], (-1, 1))).to(self.device)
        return self.side(torch.cat([side > 0, side <= 0], -1).float())  # type: ignore[no-any-return]  # as above

    def _tensors(self, inputs: NDArray[np.float32], of_row: NDArray[np.int64], position: NDArray[np.int64]) -> list[Tensor]:
        whole = (inputs, np.asarray(of_row, np.int64), np.asarray(position, np.int64))
        return [torch.from_numpy(np.ascontiguousarray(part)).to(self.device) for part in whole]


def _width(space: spaces.Space[Any]) -> int:
    if not isinstance(space, spaces.Box) or len(space.shape) != 2:
        raise ConfigError(f"histories of the recurrent network must be Boxes of shape (positions, features), was {space}")
    return int(space.shape[1])
