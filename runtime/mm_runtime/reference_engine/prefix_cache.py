"""Keys and values of earlier requests, in blocks; the least recently used go first.

They are copied out of a slot when its prompt was read and when its answer has ended, and into the
slot of a request that begins alike. So slots stay as they are, and what is kept takes memory of its
own, on the device that computes: never more than was set aside.

A block's name is a digest of all that its keys and values depend on: its tokens and those before
them, the images whose features stand between them, the adapter, how positions are rotated. The salt
stands in front of all, so that requests of another one never find it.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import torch

from mm_runtime.serving.device import sent
from mm_runtime.serving.generate.request import PrefixCounts, Request

BLOCK = 16
"""Positions of a block: vLLM's default. On average half of them are computed again behind what was
found."""

_DIGEST_BYTES = 16

Rows = tuple[torch.Tensor, torch.Tensor]
"""Keys and values, each [layers, heads, positions, head size]."""


class Slots(Protocol):
    """Where keys and values of running requests are."""

    def rows(self, slot: int, start: int, stop: int) -> Rows:
        """Return those of some positions of a slot, to be read and written in place."""


class PrefixCache:
    """Blocks of one model's keys and values by their names. Not thread-safe."""

    def __init__(self, slots: Slots, *, limit_bytes: int) -> None:
        """Set the memory aside; on the processor the system gives it out as it is written."""
        keys, _ = slots.rows(0, 0, 1)
        layers, heads, _, size = keys.shape
        self._slots = slots
        self.block_bytes = 2 * layers * heads * BLOCK * size * keys.element_size()
        self.capacity = limit_bytes // self.block_bytes
        shape = (self.capacity, layers, heads, BLOCK, size)
        self._keys = torch.empty(shape, dtype=keys.dtype, device=keys.device)
        self._values = torch.empty(shape, dtype=keys.dtype, device=keys.device)
        self._free = list(range(self.capacity))
        self._places: OrderedDict[bytes, int] = OrderedDict()
        """Name -> place in the memory; the least recently used first, and of one prompt the last
        block first: none is found without those before it."""

        self.counts = PrefixCounts()

    def find(self, names: Sequence[bytes]) -> int:
        return sum(1 for _ in self._known(names))

    def write(self, names: Sequence[bytes], slot: int) -> None:
        if not names:
            return
        places = self._index([self._places[name] for name in names])
        for stored, rows in self._pairs(slot, 0, len(names)):
            rows.copy_(stored[places].permute(1, 2, 0, 3, 4))
        self._touch(names)

    def keep(self, names: Sequence[bytes], slot: int) -> None:
        """Copy the first blocks of a slot that are not kept yet; as many as there is room for."""
        names = names[: self.capacity]
        known = self.find(names)
        self._touch(names[:known])
        new = names[known:]
        if not new:
            return
        places = [self._place(name) for name in new]
        try:
            index = self._index(places)
            for stored, rows in self._pairs(slot, known, len(names)):
                stored[index] = rows.permute(2, 0, 1, 3, 4)
        except Exception:
            self._free += places
            raise
        # Only now: a copy that failed leaves nothing to be found.
        self._places.update(zip(new, places, strict=True))
        self.counts.used_bytes = len(self._places) * self.block_bytes
        self._touch(names)

    def _index(self, places: Sequence[int]) -> torch.Tensor:
        return sent(torch.tensor(places, dtype=torch.long), self._keys.device)

    def _known(self, names: Sequence[bytes]) -> Iterator[bytes]:
        for name in names:
            if name not in self._places:
                return
            yield name

    def _place(self, name: bytes) -> int:
        """Return where a block goes: where it is, where nothing is, or where the oldest was."""
        if name in self._places:  # behind one that is not kept any more
            return self._places.pop(name)
        if self._free:
            return self._free.pop()
        self.counts.evictions += 1
        return self._places.popitem(last=False)[1]

    def _touch(self, names: Sequence[bytes]) -> None:
        for name in reversed(names):
            self._places.move_to_end(name)

    def _pairs(
        self, slot: int, start: int, stop: int
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield memory and rows [layers, heads, blocks, ...] of a slot, of keys and values."""
        for stored, rows in zip(
            (self._keys, self._values),
            self._slots.rows(slot, start * BLOCK, stop * BLOCK),
            strict=True,
        ):
            layers, heads, _, size = rows.shape
            yield stored, rows.view(layers, heads, stop - start, BLOCK, size)


def block_names(
    request: Request, tokens: Sequence[int], *, vocabulary: int, rotation_width: int = 0
) -> list[bytes]:
    """Return the names of the complete blocks of a prompt, or of a prompt and its answer.

    They end before a position whose content is not known: a feature without an id, and behind a
    prompt that brings its rotations the answer, whose rotations the engine computes itself; the
    next prompt brings others for the same tokens, which are equal but for rounding.

    `tokens`: its ids, then those of its answer; from `vocabulary` on they are features.
    """
    ids, extra = np.asarray(tokens, np.int64), np.zeros(len(tokens), np.uint64)
    if request.row_ids is not None:
        known = request.row_ids[: len(tokens)]
        extra[: len(known)] = known
    unknown = np.flatnonzero((ids >= vocabulary) & (extra == 0))
    length = int(unknown[0]) if len(unknown) else len(ids)
    rotated = request.rotation is not None
    if rotated or request.rotation_delta:
        length = min(length, len(request.ids))
    described = [ids[:length, None].astype(np.uint64), extra[:length, None]]
    if request.rotation is not None:
        turns = np.ascontiguousarray(request.rotation, np.float32).reshape(-1)
        turns = turns[: length * rotation_width].reshape(length, rotation_width)
        described.append(turns.view(np.uint32).astype(np.uint64))
    units = np.concatenate(described, axis=1)
    name = _digest(f"{request.adapter};{rotated};{request.salt}".encode())
    names = []
    for start in range(0, length - BLOCK + 1, BLOCK):
        name = _digest(name + units[start : start + BLOCK].tobytes())
        names.append(name)
    return names


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()
