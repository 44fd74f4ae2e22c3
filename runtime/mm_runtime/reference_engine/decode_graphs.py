"""Decoding steps of fixed shapes, which a GPU starts as one CUDA graph each.

A decoder of 24 layers starts some 900 kernels a step, which takes the processor 20 ms where the GPU
computes for 2 (H100, 1.3 billion parameters); a graph is started at once. Its shapes are fixed: one
for each number of rows and each number of positions that are read, of which a step takes the
smallest that holds it. Rows that are too many write into a spare slot, which no request has.

On the processor, steps of the same shapes are computed as any other: for tests.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence

import torch

from mm_api.captured_passes import doubled
from mm_runtime.serving.captures import capture_on

SHORTEST_SPAN = 256
"""Positions that the first graph reads; the next ones read twice as many each."""

Pass = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, int], torch.Tensor]
"""Tokens, positions and slots of rows, and positions that are read -> states of the rows."""

Capture = Callable[[Callable[[], torch.Tensor]], Callable[[], torch.Tensor]]


class DecodeGraphs:
    """Steps of one model; used by the thread that owns the model."""

    def __init__(self, run: Pass, *, slots: int, max_length: int, device: torch.device) -> None:
        """Capture a step of each size.

        `run`: computes a step; the slot behind the last one is spare. `slots`: rows of a step at
        the most.
        """
        self._rows, self._spans = doubled(1, slots), doubled(SHORTEST_SPAN, max_length)
        self._spare = slots
        # One set of inputs, as long as the largest step: token, position and slot of each row.
        self._inputs = torch.zeros((slots, 3), dtype=torch.long, device=device)
        self._inputs[:, 2] = slots
        capture: Capture = capture_on(device)
        # The largest first: smaller ones find their memory in its pool.
        self._steps = {
            (rows, span): capture(self._bound(run, rows, span))
            for rows in reversed(self._rows)
            for span in reversed(self._spans)
        }

    def run(self, tokens: Sequence[int], positions: Sequence[int]) -> torch.Tensor:
        """Run one token in each of the first slots; the states [tokens, ...] last until the next.

        `positions`: where each stands in its slot.
        """
        count, span = len(tokens), max(positions) + 1
        rows = self._rows[bisect_left(self._rows, count)]
        step = self._steps[rows, self._spans[bisect_left(self._spans, span)]]
        used = zip(tokens, positions, range(count), strict=True)
        unused = [(0, 0, self._spare)] * (rows - count)
        self._inputs[:rows].copy_(torch.tensor([*used, *unused], dtype=torch.long))
        return step()[:count]

    def _bound(self, run: Pass, rows: int, span: int) -> Callable[[], torch.Tensor]:
        tokens, positions, slots = self._inputs[:rows].unbind(dim=1)
        return lambda: run(tokens, positions, slots, span)
