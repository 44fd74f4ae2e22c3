"""Keys and values of all running requests, one slot each, behind transformers' cache interface.

The model calls `update` once a layer with the new keys and values; before each forward pass `aim`
says whose they are. Slots 0..n-1 are the decoding requests, so a step reads one contiguous block.
"""

from dataclasses import dataclass

import torch

INITIAL_LENGTH = 128
"""Positions allocated at first; doubled as needed, so short chats never pay for the limit."""


@dataclass(frozen=True)
class _Aim:
    rows: slice
    starts: torch.Tensor
    """First new position of each row, int64 [rows]."""

    span: int
    """Positions that attention reads: the longest row after the update."""


class SlotCache:
    """Float [slots, key-value heads, positions, head size] of keys and of values for each layer."""

    def __init__(
        self,
        *,
        layers: int,
        slots: int,
        heads: int,
        head_size: int,
        max_length: int,
        dtype: torch.dtype,
    ) -> None:
        """Allocate the first positions of every slot."""
        self._max_length = max_length
        shape = (layers, slots, heads, min(INITIAL_LENGTH, max_length), head_size)
        self._keys = torch.zeros(shape, dtype=dtype)
        self._values = torch.zeros(shape, dtype=dtype)
        self._aim = _Aim(slice(0, 0), torch.zeros(0, dtype=torch.long), 0)

    def aim(self, rows: slice, starts: torch.Tensor, count: int) -> torch.Tensor:
        """Say where the next forward pass writes, and return what its attention may read.

        Args:
            rows: slots of the batch's rows.
            starts: first new position of each row, int64 [rows].
            count: new positions of every row.

        Returns:
            bool [rows, 1, count, span]: True where a query may read a key.
        """
        span = int(starts.max()) + count
        self._reserve(span)
        self._aim = _Aim(rows, starts, span)
        queries = starts[:, None] + torch.arange(count)
        return (torch.arange(span) <= queries[..., None])[:, None]

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store [rows, heads, count, head size] and return everything up to the span."""
        aim = self._aim
        count = keys.shape[2]
        rows = torch.arange(aim.rows.start, aim.rows.stop)[:, None]
        positions = aim.starts[:, None] + torch.arange(count)
        # Advanced indices around a slice move to the front: [rows, count, heads, head size].
        self._keys[layer][rows, :, positions] = keys.transpose(1, 2)
        self._values[layer][rows, :, positions] = values.transpose(1, 2)
        return (
            self._keys[layer, aim.rows, :, : aim.span],
            self._values[layer, aim.rows, :, : aim.span],
        )

    def get_seq_length(self, layer: int = 0) -> int:
        """Return 0: positions and mask are always given, so no model may count on a length."""
        del layer
        return 0

    def move(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` positions of one slot over another."""
        for store in (self._keys, self._values):
            store[:, target, :, :length] = store[:, source, :, :length]

    def _reserve(self, length: int) -> None:
        """Make room for this many positions."""
        if length > self._max_length:
            raise ValueError(f"position {length} is past the limit of {self._max_length}")
        capacity = self._keys.shape[3]
        if length <= capacity:
            return
        while capacity < length:
            capacity *= 2
        grown = min(capacity, self._max_length) - self._keys.shape[3]
        padding = (0, 0, 0, grown)
        self._keys = torch.nn.functional.pad(self._keys, padding)
        self._values = torch.nn.functional.pad(self._values, padding)
