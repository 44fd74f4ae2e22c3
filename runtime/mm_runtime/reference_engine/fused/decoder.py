"""Passes of a fused decoder: one token in many slots, rows of a prompt, or both, of fixed sizes.

A pass writes into tensors that exist since the start, so that it can be captured: one CUDA graph
for each number of decoding rows, for each size of a prompt's part, and for both together. Lengths
are data, not shapes.

Decoding takes as long as the weights take to be read. A pass for the tokens and another one for the
part beside them read them twice: streams had 1.8 to 2.1 times their pauses beside clients with
images, whatever else the GPU did (H100, 1.3 and 7 billion parameters). One pass reads them once.

The likeliest tokens are part of a pass, which is one launch then: neither its logits nor the tokens
of the next one take calls of torch, between which other threads have the interpreter's lock.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

import torch

from mm_api.captured_passes import batches_beside, doubled, part_sizes, sizes_beside
from mm_runtime.reference_engine.choosing import likeliest_finite
from mm_runtime.reference_engine.fused.inputs import PassInputs, Tokens
from mm_runtime.reference_engine.fused.kernels import TOKEN, Kernels, Linear, Stored
from mm_runtime.reference_engine.fused.weights import Weights
from mm_runtime.reference_engine.model import Likeliest, Part, Passed
from mm_runtime.serving.captures import capture_on
from mm_runtime.serving.device import is_gpu
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


Passes = dict[tuple[int, int], Callable[[], None]]
"""Decoding rows and rows of a part -> the pass."""


class FusedDecoder:
    """Weights, keys and values. Not thread-safe: one engine thread owns it."""

    def __init__(
        self,
        weights: Weights,
        head: Linear,
        kernels: Kernels,
        *,
        slots: int,
        max_length: int,
        device: torch.device,
    ) -> None:
        """Take all memory, and capture the passes where the device is a GPU."""
        self._weights, self._kernels, self._device = weights, kernels, device
        self.launches = is_gpu(device)
        """A pass is one launch, which is not waited for."""

        self._batches = doubled(1, slots)
        self._parts = part_sizes(max_length)
        self._beside, self._batches_beside = sizes_beside(max_length), batches_beside(slots)
        heads, size = weights.heads, weights.dtype
        rows = slots + self._parts[-1]

        def empty(*shape: int, dtype: torch.dtype = size) -> torch.Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        store = (len(weights.layers), slots, heads.keys, max_length, heads.size)
        self._keys, self._values = empty(*store), empty(*store)
        self._stored = [Stored(*both) for both in zip(self._keys, self._values, strict=True)]
        self._place_of_slot = list(range(slots))
        """Where the keys of each slot are: to move a request costs nothing."""

        # A part's own rotations stand behind those of ordinary positions.
        self._turns = torch.cat((weights.turns, empty(rows, heads.size, dtype=torch.float32)))
        self._inputs = PassInputs(rows, slots + 1, device)
        self._next = NextTokens(head, slots, kernels)
        self._states = empty(rows, weights.hidden_size)
        self._normed = torch.zeros_like(self._states)
        self._more = torch.zeros_like(self._states)
        self._products = empty(rows, heads.width)
        self._read = empty(rows, heads.queries * heads.size)
        self._gates = empty(rows, 2 * weights.inner_size)
        self._inside = empty(rows, weights.inner_size)
        self._decoded, self._last = empty(slots, weights.hidden_size), self._normed
        self._passes = self._captured()

    @torch.inference_mode()
    def _captured(self) -> Passes:
        capture = capture_on(self._device)
        # The largest first: libraries take their largest workspaces then.
        decoding = {(rows, 0): capture(self._decoding(rows)) for rows in self._batches[::-1]}
        prompts = {(0, rows): capture(self._reading(rows)) for rows in self._parts[::-1]}
        both = {
            (tokens, rows): capture(self._doing_both(tokens, rows))
            for tokens in self._batches_beside[::-1]
            for rows in self._beside[::-1]
        }
        return {**decoding, **prompts, **both}

    @torch.inference_mode()
    def run(
        self,
        tokens: Tokens,
        positions: Sequence[int],
        part: Part | None = None,
        *,
        turned_by: Sequence[int] | None = None,
        turns: torch.Tensor | None = None,
    ) -> Passed:
        """Run one token in each of the first slots, then part of a prompt; see `SlotModel.run`.

        What it returns lasts until the next run. `tokens`: where they are a tensor, nothing that
        was begun is waited for. `turned_by`: positions that they are rotated by, where they are
        others. `turns`: float32 [rows of the part, head size], its rotations; None: by its
        positions.
        """
        decoded, turned_by = self._decoded[:0], positions if turned_by is None else turned_by
        count = len(tokens)
        place = 0 if part is None else self._place_of_slot[part.slot_after(count)]
        most_beside = self._beside[-1] if self._beside else 0
        if count and part is not None and len(part.rows) <= most_beside:
            decoding = self._batches_beside[bisect_left(self._batches_beside, count)]
            reading = self._beside[bisect_left(self._beside, len(part.rows))]
            self._pass(
                (decoding, reading),
                tokens,
                positions=positions,
                turned_by=turned_by,
                part=part,
                place=place,
                turns=turns,
            )
            states = self._last[decoding : decoding + len(part.rows)]
            return Passed(self._last[:count], states, likeliest=self._next.likeliest(count + 1))
        if count:
            size = self._batches[bisect_left(self._batches, count)]
            self._pass((size, 0), tokens, positions=positions, turned_by=turned_by)
            decoded = self._decoded[:count]
        if part is None:
            return Passed(decoded, self._last[:0], likeliest=self._next.likeliest(count))
        largest, read = self._parts[-1], []
        for at in range(0, len(part.rows), largest):
            rows = slice(at, at + largest)
            own = None if turns is None else turns[rows]
            one = Part(part.start + at, part.rows[rows])
            size = self._parts[bisect_left(self._parts, len(one.rows))]
            self._pass((0, size), part=one, place=place, turns=own)
            states = self._last[: len(one.rows)]
            # Only the last one lasts.
            read.append(states.clone() if at + largest < len(part.rows) else states)
        # Beside tokens, what is chosen would lie in two places.
        last = None if count else self._next.last()
        return Passed(decoded, read[0] if len(read) == 1 else torch.cat(read), likeliest=last)

    def rows(self, slot: int, start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return keys and values of some positions of a slot, [layers, heads, positions, ...]."""
        place = self._place_of_slot[slot]
        return self._keys[:, place, :, start:stop], self._values[:, place, :, start:stop]

    def move(self, source: int, target: int, length: int) -> None:
        """Give what one slot holds to another; it gets what that one held."""
        del length  # all of it: nothing is copied
        places = self._place_of_slot
        places[source], places[target] = places[target], places[source]

    def _pass(
        self,
        sizes: tuple[int, int],
        tokens: Tokens = (),
        *,
        positions: Sequence[int] = (),
        turned_by: Sequence[int] = (),
        part: Part | None = None,
        place: int = 0,
        turns: torch.Tensor | None = None,
    ) -> None:
        """Run the pass of these sizes, with a part of a prompt in the slot that has the place."""
        decoding, reading = sizes
        self._inputs.begin()
        places = self._place_of_slot[: len(tokens)]
        self._inputs.decode(tokens, positions, places, turned_by, decoding)
        after = decoding
        if part is not None:
            count, turn = len(part.rows), part.start
            if turns is not None:  # its own are kept
                turn = len(self._weights.turns)
                self._turns[turn : turn + count] = turns
            self._inputs.read(
                decoding, reading, count=count, start=part.start, place=place, turn=turn
            )
            after += count
            self._inputs.sample(range(len(tokens)), after - 1)
        if isinstance(tokens, torch.Tensor):
            self._next.take(tokens)
        self._inputs.send(decoding + reading)
        if part is not None:
            self._states[decoding:after].copy_(part.rows)
        self._passes[sizes]()

    def _decoding(self, rows: int) -> Callable[[], None]:
        inputs = self._inputs.of(rows)

        def step() -> None:
            self._embed(inputs)
            decoded = self._decoded[:rows]
            self._layers(inputs, decoded, rows)
            self._next.choose(decoded)

        return step

    def _reading(self, rows: int) -> Callable[[], None]:
        inputs, sampled = self._inputs.of(rows), self._inputs.sampled(1)

        def read() -> None:
            last = self._last[:rows]
            self._layers(inputs, last, 0)
            self._next.choose_last(last, sampled)

        return read

    def _doing_both(self, decoding: int, reading: int) -> Callable[[], None]:
        rows = decoding + reading
        inputs, sampled = self._inputs.of(rows), self._inputs.sampled(decoding + 1)

        def step() -> None:
            last = self._last[:rows]
            self._embed(inputs[:decoding])
            self._layers(inputs, last, decoding)
            self._next.choose_among(last, sampled)

        return step

    def _embed(self, inputs: torch.Tensor) -> None:
        states, tokens = self._states[: len(inputs)], self._next.known(inputs[:, TOKEN])
        torch.index_select(self._weights.embeddings, 0, tokens, out=states)

    def _layers(self, inputs: torch.Tensor, out: torch.Tensor, decoded: int) -> None:
        """Compute all layers of the rows in `_states`; write their last norm to `out`.

        `out`: [rows, hidden]. `decoded`: rows that decode; the others are part of a prompt.
        """
        weights, kernels, rows = self._weights, self._kernels, len(inputs)
        states, normed, more = self._states[:rows], self._normed[:rows], self._more[:rows]
        products, read = self._products[:rows], self._read[:rows]
        gates, inside = self._gates[:rows], self._inside[:rows]
        added = None
        for layer, stored in zip(weights.layers, self._stored, strict=True):
            kernels.add_norm(states, added, layer.input_norm, weights.epsilon, normed)
            kernels.multiply(normed, layer.attention, products)
            kernels.rotate(products, self._turns, inputs, stored, weights.heads)
            kernels.attend(products, inputs, stored, weights.heads, read, decoded=decoded)
            kernels.multiply(read, layer.output, more)
            kernels.add_norm(states, more, layer.inner_norm, weights.epsilon, normed)
            kernels.multiply_gated(normed, layer.gates, gates, inside)
            kernels.multiply(inside, layer.down, more)
            added = more
        kernels.add_norm(states, added, weights.norm, weights.epsilon, out)
