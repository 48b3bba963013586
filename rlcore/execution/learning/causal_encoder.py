"""A recurrent encoder that is read in the middle: what has it seen up to a position, and not one position more."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class CausalEncoder(nn.Module):
    """Linear + ReLU + GRU (Cho et al. 2014, arXiv:1406.1078). The state *at* position p has seen the inputs 0 … p."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(input_size, hidden_size), nn.ReLU())
        self.gru = nn.GRU(hidden_size, hidden_size)

    @property
    def hidden_size(self) -> int:
        """Numbers in a state."""
        return self.gru.hidden_size

    @property
    def device(self) -> torch.device:
        """Where the parameters live."""
        return next(self.parameters()).device

    def states_at(self, inputs: Tensor, sequence: Tensor, position: Tensor) -> Tensor:
        """Return states (reads, hidden) with gradients; a sequence is encoded once, and only as far as anybody reads it.

        Sequences are sorted by the last position that is read of each; between two read positions the GRU runs over
        those that still go on. No output but the read ones is kept.

        Args:
            inputs: (sequences, positions, input).
            sequence: which one each read is of, (reads,) int64; every sequence is read at least once.
            position: where it is read, (reads,) int64.
        """
        last = torch.zeros(len(inputs), dtype=torch.int64, device=position.device).scatter_reduce(
            0, sequence, position, "amax", include_self=True
        )
        last, order = last.sort(descending=True, stable=True)
        rank = torch.empty_like(order)
        rank[order] = torch.arange(len(order), device=order.device)
        sorted_inputs = inputs[order].transpose(0, 1)
        hidden = inputs.new_zeros(1, len(inputs), self.hidden_size)
        start = 0
        reads, states = [], []
        for stop in torch.unique(position).tolist():  # ascending
            going_on = int((last >= stop).sum())
            _, hidden = self.gru(self.embed(sorted_inputs[start : stop + 1, :going_on]), hidden[:, :going_on].contiguous())
            here = (position == stop).nonzero()[:, 0]
            reads.append(here)
            states.append(hidden[0, rank[sequence[here]]])
            start = stop + 1
        back = torch.empty_like(position)
        back[torch.cat(reads)] = torch.arange(len(position), device=position.device)
        return torch.cat(states)[back]

    def step(self, inputs: Tensor, state: Tensor) -> Tensor:
        """Return the states (rows, hidden) one position later.

        For a fixed number of rows this is to the bit the same function of each row, whatever the others are.
        """
        return torch.gru_cell(self.embed(inputs), state, *self.gru.all_weights[0])
