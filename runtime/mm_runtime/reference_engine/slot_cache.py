"""Keys and values of all running requests, one slot each, and the attention that reads them.

A pass has one row a token: first one of each decoding request, then some of one prompt. Slots
0..n-1 are the decoding requests, so all of them are read as one contiguous block; the prompt's slot
comes right after. Weights see one batch of rows; only attention knows which rows belong together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import pad, scaled_dot_product_attention
from transformers import AttentionInterface

from mm_runtime.serving.device import CPU

INITIAL_LENGTHS = {CPU.type: 128}
"""Type of device -> positions allocated at first; doubled as needed, so short chats never pay for
the limit. On a GPU all are: the plan has set them aside, and growing needs both sizes at once."""

ATTENTION = "slots"
"""Name of this attention in transformers: models are configured to use it and pass it the argument
`slots`, which is the cache."""


@dataclass(frozen=True)
class _Group:
    """Rows of a pass that attend together."""

    rows: slice
    slots: slice
    together: bool
    """All rows stand one after the other in one slot; else each has its own."""

    mask: torch.Tensor
    """bool [slots, 1, rows of each, span]: True where a row may read a key."""

    @property
    def span(self) -> int:
        return self.mask.shape[-1]


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
        device: torch.device,
    ) -> None:
        """Allocate the first positions of every slot, all of them on a GPU."""
        self._max_length = max_length
        self._device = device
        first = min(INITIAL_LENGTHS.get(device.type, max_length), max_length)
        shape = (layers, slots, heads, first, head_size)
        self._keys = torch.zeros(shape, dtype=dtype, device=device)
        self._values = torch.zeros(shape, dtype=dtype, device=device)
        self._slots = self._positions = torch.zeros(0, dtype=torch.long, device=device)
        """For each row of the pass."""

        self._groups: list[_Group] = []

    def aim(self, positions: Sequence[int], start: int, count: int) -> torch.Tensor:
        """Set the slots of the next pass's rows; return the position of each row, int64 [rows].

        `positions`: of the tokens of the first slots. `start`, `count`: of the rows of a prompt, in
        the slot after them.
        """
        decoding = len(positions)
        places = [*positions, *range(start, start + count)]
        self._positions = self._longs(places)
        self._slots = self._longs([*range(decoding), *[decoding] * count])
        own, prompt = self._positions[:decoding], self._positions[decoding:]
        # Lengths come from the lists: read from the tensors they would wait for the device.
        self._reserve(max(places) + 1)
        self._groups = []
        if decoding:
            rows, span = slice(decoding), max(positions) + 1
            self._groups.append(self._group(rows, rows, own[:, None], span, together=False))
        if count:
            rows, slots = slice(decoding, decoding + count), slice(decoding, decoding + 1)
            self._groups.append(
                self._group(rows, slots, prompt[None], start + count, together=True)
            )
        return self._positions

    @staticmethod
    def _group(
        rows: slice, slots: slice, positions: torch.Tensor, span: int, *, together: bool
    ) -> _Group:
        mask = torch.arange(span, device=positions.device) <= positions[..., None]
        return _Group(rows, slots, together=together, mask=mask[:, None])

    def attend(
        self,
        module: torch.nn.Module,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        scaling: float | None,
    ) -> torch.Tensor:
        """Store keys and values [rows, heads, 1, head size]; return what rows read of them."""
        layer: Any = module.layer_idx
        keys, values = self._keys[layer], self._values[layer]
        keys[self._slots, :, self._positions] = key[:, :, 0]
        values[self._slots, :, self._positions] = value[:, :, 0]
        heads, size = keys.shape[1], query.shape[-1]
        shared = query.shape[1] // heads
        read = torch.empty_like(query[:, :, 0])
        for group in self._groups:
            # Queries that share a key head are rows of one product: repeating the keys for each of
            # them would read them several times.
            queries = query[group.rows].reshape(-1, heads, shared, size)
            found = scaled_dot_product_attention(
                queries.permute(1, 2, 0, 3).flatten(1, 2)[None] if group.together else queries,
                keys[group.slots, :, : group.span],
                values[group.slots, :, : group.span],
                attn_mask=group.mask.repeat(1, 1, shared if group.together else 1, 1),
                scale=scaling,
            )
            if group.together:
                found = found.reshape(heads, shared, -1, size).permute(2, 0, 1, 3)
            read[group.rows] = found.flatten(1, 2)
        return read[:, None]

    def rows(self, slot: int, start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return keys and values of some positions of a slot, [layers, heads, positions, ...]."""
        self._reserve(stop)
        return self._keys[:, slot, :, start:stop], self._values[:, slot, :, start:stop]

    def move(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` positions of one slot over another."""
        for store in (self._keys, self._values):
            store[:, target, :, :length] = store[:, source, :, :length]

    def _longs(self, values: Sequence[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.long, device=self._device)

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
        self._keys = pad(self._keys, padding)
        self._values = pad(self._values, padding)


def _attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    slots: SlotCache,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    del attention_mask
    if sliding_window is not None:
        raise ValueError("a layer attends to a window, and slots have none")
    return slots.attend(module, query, key, value, scaling), None


AttentionInterface.register(ATTENTION, _attention)
