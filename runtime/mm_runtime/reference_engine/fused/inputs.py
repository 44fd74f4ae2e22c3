"""What describes the rows of a pass: written by the processor, read by kernels.

Written as arrays, in memory that is kept, and copied at once. Each call of torch lets the threads
that send tokens take the interpreter's lock, and the next pass begins when they give it back.

In front of the rows stands which of them a next token is chosen for (`sampled`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mm_runtime.reference_engine.fused.kernels import INPUTS, POSITION, SLOT, TOKEN, TURN
from mm_runtime.serving.staging import Staging

Tokens = Sequence[int] | torch.Tensor
"""One a slot; a tensor is int64 and lies on the decoder's device."""

UNUSED = -1
"""Position of a row that stands for nothing."""

CHOSEN = -1
"""Token of a row that the pass before it has chosen."""


class PassInputs:
    """Of one decoder, whose passes read them in turn. One thread uses it."""

    def __init__(self, rows: int, sampled: int, device: torch.device) -> None:
        """Take memory for passes of at most so many rows, and for so many next tokens."""
        self._first = -(-sampled // INPUTS) * INPUTS  # kernels read a row at once: it is aligned
        size = self._first + rows * INPUTS
        self._flat = torch.zeros(size, dtype=torch.int32, device=device)
        self._staging = Staging(self._flat)
        self._take(self._staging.array)

    def of(self, rows: int) -> torch.Tensor:
        """Return the first rows, int32 [rows, `INPUTS`], on the device."""
        return self._flat[self._first :][: rows * INPUTS].view(rows, INPUTS)

    def sampled(self, count: int) -> torch.Tensor:
        """Return the rows whose next tokens are chosen, int32 [count], on the device."""
        return self._flat[:count]

    def begin(self) -> None:
        self._take(self._staging.next())

    def _take(self, array: NDArray[Any]) -> None:
        self._sampled, self._rows = array[: self._first], array[self._first :].reshape(-1, INPUTS)

    def sample(self, tokens: Sequence[int], last: int) -> None:
        """Choose next tokens for the rows of requests, then for the last row of a prompt."""
        self._sampled[:] = last  # places that stand for nothing have one, too
        self._sampled[: len(tokens)] = tokens

    def decode(
        self,
        tokens: Tokens,
        positions: Sequence[int],
        places: Sequence[int],
        turned_by: Sequence[int],
        rows: int,
    ) -> None:
        """Describe the decoding rows, the first ones of so many `rows`; others stand for nothing.

        `tokens`: of the first slots; those of a tensor are `CHOSEN`. `places`: where the keys of
        their slots are. `turned_by`: positions that they are rotated by.
        """
        count = len(tokens)
        used, unused = self._rows[:count], self._rows[count:rows]
        used[:, TOKEN] = CHOSEN if isinstance(tokens, torch.Tensor) else tokens
        used[:, POSITION], used[:, SLOT], used[:, TURN] = positions, places, turned_by
        unused[:] = 0
        unused[:, POSITION] = UNUSED

    def read(self, first: int, rows: int, *, count: int, start: int, place: int, turn: int) -> None:
        """Describe `count` rows of a prompt, in rows of the pass from `first` on.

        `start`: position of its first row. `place`: where the keys of its slot are. `turn`: place
        of its first row's rotation; those of the others follow.
        """
        part = self._rows[first : first + rows]
        part[:] = 0
        part[:, SLOT] = place
        part[:, POSITION] = UNUSED
        part[:count, POSITION] = np.arange(start, start + count)
        part[:count, TURN] = np.arange(turn, turn + count)

    def send(self, rows: int) -> None:
        self._staging.send(self._first + rows * INPUTS)
