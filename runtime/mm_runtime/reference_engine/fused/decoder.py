"""Passes of a fused decoder: one token in many slots, or rows of a prompt, each of a fixed size.

A pass writes into tensors that exist since the start, so that it can be captured: one CUDA graph
for each number of decoding rows and for each size of a prompt's part. Lengths are data, not shapes.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

import torch

from mm_runtime.reference_engine.fused.kernels import INPUTS, SLOT, TOKEN, TURN, Kernels, Stored
from mm_runtime.reference_engine.fused.weights import Linear, Weights
from mm_runtime.reference_engine.model import Part, Passed
from mm_runtime.serving.captures import capture_on, doubled

PARTS = (16, 32, 64, 128, 256, 384, 512, 640, 768, 1024)
"""Rows of prompts in one pass: a part takes the smallest pass that holds it, and a longer part than
the last takes several, which cost no more: that many rows keep a GPU computing."""

UNUSED = -1
"""Position of a row that stands for nothing."""


class FusedDecoder:
    """Weights, keys and values. Not thread-safe: one engine thread owns it."""

    def __init__(
        self,
        weights: Weights,
        kernels: Kernels,
        *,
        slots: int,
        max_length: int,
        device: torch.device,
    ) -> None:
        """Take all memory, and capture the passes where the device is a GPU.

        Args:
            weights: on the device.
            kernels: of the device.
            slots: requests that can run at one time.
            max_length: positions of one request.
            device: where it computes.
        """
        self._weights, self._kernels, self._device = weights, kernels, device
        self._batches = doubled(1, slots)
        self._parts = part_sizes(max_length)
        heads, size = weights.heads, weights.dtype
        rows = max(slots, self._parts[-1])

        def empty(*shape: int, dtype: torch.dtype = size) -> torch.Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        store = (len(weights.layers), slots, heads.keys, max_length, heads.size)
        keys, values = empty(*store), empty(*store)
        self._stored = [Stored(*both) for both in zip(keys, values, strict=True)]
        self._place_of_slot = list(range(slots))
        """Where the keys of each slot are: to move a request costs nothing."""

        # A part's own rotations stand behind those of ordinary positions.
        self._turns = torch.cat((weights.turns, empty(rows, heads.size, dtype=torch.float32)))
        self._inputs = empty(rows * INPUTS, dtype=torch.int32)
        self._states = empty(rows, weights.hidden_size)
        self._normed = torch.zeros_like(self._states)
        self._more = torch.zeros_like(self._states)
        self._products = empty(rows, heads.width)
        self._read = empty(rows, heads.queries * heads.size)
        self._gates = empty(rows, 2 * weights.inner_size)
        self._inside = empty(rows, weights.inner_size)
        self._decoded, self._prompt = empty(slots, weights.hidden_size), self._normed
        self._passes = self._captured()

    @torch.inference_mode()
    def _captured(self) -> dict[tuple[bool, int], Callable[[], None]]:
        capture = capture_on(self._device)
        # The largest first: libraries take their largest workspaces then.
        decoding = {(True, rows): capture(self._decoding(rows)) for rows in self._batches[::-1]}
        prompts = {(False, rows): capture(self._reading(rows)) for rows in self._parts[::-1]}
        return {**decoding, **prompts}

    @property
    def ordinary_turns(self) -> int:
        """Return how many positions have rotations of their own."""
        return len(self._weights.turns)

    @torch.inference_mode()
    def run(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        part: Part | None = None,
        *,
        turned_by: Sequence[int] | None = None,
        turns: torch.Tensor | None = None,
    ) -> Passed:
        """Run one token in each of the first slots, then part of a prompt; see `SlotModel.run`.

        What it returns lasts until the next run.

        Args:
            tokens: one a slot.
            positions: of the tokens.
            part: of a prompt.
            turned_by: positions that the tokens are rotated by, where they are others.
            turns: float32 [rows of the part, head size], its rotations; None: by its positions.
        """
        decoded = self._decode(tokens, positions, turned_by) if tokens else self._decoded[:0]
        if part is None:
            return Passed(decoded, self._prompt[:0])
        largest, read = self._parts[-1], []
        for at in range(0, len(part.rows), largest):
            rows = slice(at, at + largest)
            own = None if turns is None else turns[rows]
            place = self._place_of_slot[len(tokens)]
            states = self._read_part(Part(part.start + at, part.rows[rows]), place, own)
            # Only the last one lasts.
            read.append(states.clone() if at + largest < len(part.rows) else states)
        return Passed(decoded, read[0] if len(read) == 1 else torch.cat(read))

    def move(self, source: int, target: int) -> None:
        """Give what one slot holds to another; it gets what that one held."""
        places = self._place_of_slot
        places[source], places[target] = places[target], places[source]

    def _decode(
        self, tokens: Sequence[int], positions: Sequence[int], turned_by: Sequence[int] | None
    ) -> torch.Tensor:
        count = len(tokens)
        rows = self._batches[bisect_left(self._batches, count)]
        turned_by = positions if turned_by is None else turned_by
        places = self._place_of_slot[:count]
        used = zip(tokens, positions, places, turned_by, strict=True)
        unused = [(0, UNUSED, 0, 0)] * (rows - count)
        self._give(torch.tensor([*used, *unused], dtype=torch.int32))
        self._passes[True, rows]()
        return self._decoded[:count]

    def _read_part(self, part: Part, place: int, turns: torch.Tensor | None) -> torch.Tensor:
        count = len(part.rows)
        rows = self._parts[bisect_left(self._parts, count)]
        inputs = torch.zeros((rows, INPUTS), dtype=torch.int32)
        positions = torch.arange(part.start, part.start + rows)
        positions[count:] = UNUSED
        inputs[:, 1] = positions
        inputs[:, SLOT] = place
        inputs[:count, TURN] = positions[:count]
        if turns is not None:
            first = self.ordinary_turns
            self._turns[first : first + count] = turns
            inputs[:count, TURN] = torch.arange(first, first + count)
        self._give(inputs)
        self._states[:count] = part.rows
        self._passes[False, rows]()
        return self._prompt[:count]

    def _give(self, inputs: torch.Tensor) -> None:
        self._inputs[: inputs.numel()].copy_(inputs.flatten())

    def _of(self, rows: int) -> torch.Tensor:
        return self._inputs[: rows * INPUTS].view(rows, INPUTS)

    def _decoding(self, rows: int) -> Callable[[], None]:
        inputs, states = self._of(rows), self._states[:rows]

        def step() -> None:
            torch.index_select(self._weights.embeddings, 0, inputs[:, TOKEN], out=states)
            self._layers(inputs, self._decoded[:rows], self._kernels.attend_each)

        return step

    def _reading(self, rows: int) -> Callable[[], None]:
        inputs = self._of(rows)
        return lambda: self._layers(inputs, self._prompt[:rows], self._kernels.attend_together)

    def _layers(self, inputs: torch.Tensor, out: torch.Tensor, attend: Any) -> None:
        """Compute all layers of the rows in `_states`; write their last norm to `out`."""
        weights, kernels, rows = self._weights, self._kernels, len(inputs)
        states, normed, more = self._states[:rows], self._normed[:rows], self._more[:rows]
        products, read = self._products[:rows], self._read[:rows]
        gates, inside = self._gates[:rows], self._inside[:rows]
        added = None
        for layer, stored in zip(weights.layers, self._stored, strict=True):
            kernels.add_norm(states, added, layer.input_norm, weights.epsilon, normed)
            _multiply(normed, layer.attention, products)
            kernels.rotate(products, self._turns, inputs, stored, weights.heads)
            attend(products, inputs, stored, weights.heads, read)
            _multiply(read, layer.output, more)
            kernels.add_norm(states, more, layer.inner_norm, weights.epsilon, normed)
            _multiply(normed, layer.gates, gates)
            kernels.gate(gates, inside)
            _multiply(inside, layer.down, more)
            added = more
        kernels.add_norm(states, added, weights.norm, weights.epsilon, out)


def _multiply(rows: torch.Tensor, linear: Linear, out: torch.Tensor) -> None:
    if linear.bias is None:
        torch.mm(rows, linear.weight.t(), out=out)
    else:
        torch.addmm(linear.bias, rows, linear.weight.t(), out=out)


def part_sizes(max_length: int) -> list[int]:
    """Return the sizes of passes for prompts of at most so many rows."""
    largest = min(max_length, PARTS[-1])
    return [*(size for size in PARTS if size < largest), largest]
