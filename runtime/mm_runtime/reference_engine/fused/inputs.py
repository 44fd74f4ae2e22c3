"""What describes the rows of a pass: written by the processor, read by kernels.

Written as arrays, in memory that is kept, and copied at once. Each call of torch lets the threads
that send tokens take the interpreter's lock, and the next pass begins when they give it back.
"""

from collections.abc import Sequence

import numpy as np
import torch

from mm_runtime.reference_engine.fused.kernels import INPUTS, POSITION, SLOT, TOKEN, TURN
from mm_runtime.serving.device import Staging

Tokens = Sequence[int] | torch.Tensor
"""One a slot; a tensor is int64 and lies on the decoder's device."""

UNUSED = -1
"""Position of a row that stands for nothing."""


class PassInputs:
    """Of one decoder, whose passes read them in turn. One thread uses it."""

    def __init__(self, rows: int, device: torch.device) -> None:
        """Take memory for passes of at most so many rows."""
        flat = torch.zeros(rows * INPUTS, dtype=torch.int32, device=device)
        self._flat, self._staging = flat, Staging(flat)
        self._tokens = flat.view(rows, INPUTS)[:, TOKEN]
        self._rows = self._staging.array.reshape(rows, INPUTS)

    def of(self, rows: int) -> torch.Tensor:
        """Return the first rows, int32 [rows, `INPUTS`], on the device."""
        return self._flat[: rows * INPUTS].view(rows, INPUTS)

    def begin(self) -> None:
        """Begin to describe another pass."""
        self._rows = self._staging.next().reshape(self._rows.shape)

    def decode(
        self,
        tokens: Tokens,
        positions: Sequence[int],
        places: Sequence[int],
        turned_by: Sequence[int],
        rows: int,
    ) -> None:
        """Describe the decoding rows, which are the first ones.

        Args:
            tokens: of the first slots; those of a tensor are filled in by `send`.
            positions: of the tokens.
            places: where the keys of their slots are.
            turned_by: positions that they are rotated by.
            rows: of the pass; those without a token stand for nothing.
        """
        count = len(tokens)
        used, unused = self._rows[:count], self._rows[count:rows]
        used[:, TOKEN] = 0 if isinstance(tokens, torch.Tensor) else tokens
        used[:, POSITION], used[:, SLOT], used[:, TURN] = positions, places, turned_by
        unused[:] = 0
        unused[:, POSITION] = UNUSED

    def read(self, first: int, rows: int, *, count: int, start: int, place: int, turn: int) -> None:
        """Describe the part of a prompt.

        Args:
            first: row of the pass with which the part begins.
            rows: of the pass from there on.
            count: rows of the part.
            start: position of its first row.
            place: where the keys of its slot are.
            turn: place of its first row's rotation; those of the others follow.
        """
        part = self._rows[first : first + rows]
        part[:] = 0
        part[:, SLOT] = place
        part[:, POSITION] = UNUSED
        part[:count, POSITION] = np.arange(start, start + count)
        part[:count, TURN] = np.arange(turn, turn + count)

    def send(self, rows: int, tokens: Tokens) -> None:
        """Copy the rows to the device, and to them the tokens that only the device knows."""
        self._staging.send(rows * INPUTS)
        if isinstance(tokens, torch.Tensor):
            self._tokens[: len(tokens)].copy_(tokens)
