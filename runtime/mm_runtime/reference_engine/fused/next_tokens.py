"""The likeliest next tokens, computed in the pass itself, and read there by the pass after it.

A pass is then one launch: neither its logits nor the tokens of the next one take calls of torch,
between which other threads have the interpreter's lock.
"""

from collections.abc import Callable
from typing import Any

import torch

from mm_runtime.reference_engine.choosing import likeliest_finite
from mm_runtime.reference_engine.fused.kernels import Kernels, Linear
from mm_runtime.reference_engine.model import Likeliest
from mm_runtime.serving.staging import Fetching


class NextTokens:
    """Of all slots and of a prompt's last row, in tensors that exist since the start."""

    def __init__(self, head: Linear, slots: int, kernels: Kernels) -> None:
        """Take memory for the logits of so many slots, and of a prompt's last row."""
        self._head, self._places, self._kernels = head, slots + 1, kernels
        vocabulary, hidden = head.weight.shape
        self._states = head.weight.new_zeros((self._places, hidden))
        self._logits = head.weight.new_zeros((self._places, vocabulary))
        self._tokens = head.weight.new_zeros(self._places, dtype=torch.int64)
        self._fetching = Fetching(self._tokens)

    def choose(self, states: torch.Tensor) -> None:
        """Compute logits and tokens of the first slots, of states [slots, hidden]. Captured."""
        self._choose(states, slice(0, len(states)))

    def choose_among(self, states: torch.Tensor, rows: torch.Tensor) -> None:
        """Compute those of some rows of a pass, int32 [n], one for each place. Captured."""
        taken = self._states[: len(rows)]
        torch.index_select(states, 0, rows, out=taken)
        self._choose(taken, slice(0, len(rows)))

    def choose_last(self, states: torch.Tensor, row: torch.Tensor) -> None:
        """Compute logits and token of one row of a prompt, behind those of slots. Captured."""
        taken = self._states[-1:]
        torch.index_select(states, 0, row, out=taken)
        self._choose(taken, slice(self._places - 1, self._places))

    def _choose(self, states: torch.Tensor, places: slice) -> None:
        logits = self._logits[places]
        self._kernels.multiply(states, self._head, logits)
        tokens = torch.argmax(logits, dim=-1, out=self._tokens[places])
        likeliest_finite(logits, tokens)

    def known(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return tokens, int [slots], those below 0 replaced by what was chosen. Captured."""
        return torch.where(tokens < 0, self._tokens[: len(tokens)].clamp(min=0), tokens)

    def take(self, tokens: torch.Tensor) -> None:
        """Let `known` return these tokens, int64 [slots], where they were not chosen here."""
        if tokens.data_ptr() != self._tokens.data_ptr():
            self._tokens[: len(tokens)].copy_(tokens)

    def likeliest(self, count: int) -> Likeliest:
        """Return what the last pass chose for the first places."""
        return self._likeliest(0, count)

    def last(self) -> Likeliest:
        """Return what the last pass chose after a prompt that it read alone."""
        return self._likeliest(self._places - 1, 1)

    def _likeliest(self, first: int, count: int) -> Likeliest:
        places, fetching = slice(first, first + count), self._fetching

        def fetch(wanted: int) -> Callable[[], list[Any]]:
            return fetching.begin(first, wanted)

        return Likeliest(self._logits[places], self._tokens[places], fetch)
