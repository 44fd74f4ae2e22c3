"""Attention of a pass on a GPU: rows that decode, a part of a prompt, and both at the same time.

A part keeps few multiprocessors busy, and each layer waits for it. After the tokens' attention 128
rows made a pass of eight tokens 1.20 to 1.36 times as long, beside it 1.16 to 1.22 times
(1.3 billion parameters, H200; docs/studies/pauses-on-a-gpu.md).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from math import e, log2

import torch
import triton  # type: ignore[import-not-found]  # comes with torch for CUDA

from mm_runtime.reference_engine.fused.kernels import Heads, Stored
from mm_runtime.reference_engine.fused.triton_attention import attend_each, attend_together, merge
from mm_runtime.serving.device import new_stream

LEAST_DOT = 16
"""Rows and columns of a product of tiles at the least."""

SPLITS = 32
"""Parts of one row's keys that are read by programs of their own, at the most."""

PROGRAMS = 1024
"""Enough to keep all multiprocessors reading: a GPU of today has 132 or 148."""

PART_SPLITS, PART_PROGRAMS = 8, 132
"""The same of tiles of a part's rows: one program for each multiprocessor of an H100."""

KEYS_AT_ONCE, ROWS_TOGETHER = 64, 64
"""Sizes of tiles."""


class Attention:
    """Of one GPU; one thread uses it."""

    def __init__(self, device: torch.device) -> None:
        """Prepare for a device; decoders are captured with it one after the other."""
        self._device = device
        self._beside = new_stream(device)
        """On which a part is read while other rows decode; None: before them."""

        self._partial: dict[tuple[int, ...], tuple[torch.Tensor, torch.Tensor]] = {}
        """What splits of rows have read, by heads, size of a head and places."""

    def attend(
        self,
        products: torch.Tensor,
        inputs: torch.Tensor,
        stored: Stored,
        heads: Heads,
        out: torch.Tensor,
        *,
        decoded: int,
    ) -> None:
        """As `Kernels.attend`.

        Splits take room that the tokens' attention needs: 128 rows beside eight tokens of 7 billion
        parameters took 5.90 ms without and 6.01 with them, 16 rows alone 4.68 and 4.50 (H200).
        """
        each, part = slice(0, decoded), slice(decoded, len(products))
        if decoded == len(products):
            self._each(products, inputs, stored, heads, out)
        elif not decoded:
            self._together(products, inputs, stored, heads, out, most=PART_SPLITS)
        else:
            with self._reading_beside():
                self._together(products[part], inputs[part], stored, heads, out[part], most=1)
            self._each(products[each], inputs[each], stored, heads, out[each])
            self._wait_for_reading()

    @contextmanager
    def _reading_beside(self) -> Iterator[None]:
        if self._beside is None:
            yield
            return
        self._beside.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._beside):
            yield

    def _wait_for_reading(self) -> None:
        if self._beside is not None:
            torch.cuda.current_stream(self._device).wait_stream(self._beside)

    def _each(
        self,
        products: torch.Tensor,
        inputs: torch.Tensor,
        stored: Stored,
        heads: Heads,
        out: torch.Tensor,
    ) -> None:
        """Run one program for each row, key head and split of the row's keys."""
        rows, group = len(products), heads.queries // heads.keys
        splits = min(SPLITS, max(1, PROGRAMS // (rows * heads.keys)))
        # Where keys are split, rows x key heads x splits is at most PROGRAMS.
        sums, masses = self._splits_of(heads, PROGRAMS * group)
        # Products of tiles have the next keys read while they compute, even where 15 of 16 rows of
        # a tile are padding; in float32 they take longer than what they save.
        by_tiles = group > 1 or products.dtype != torch.float32
        attend_each[(rows, heads.keys, splits)](
            products,
            inputs,
            stored.keys,
            stored.values,
            sums,
            masses,
            out,
            heads.scale * log2(e),
            splits,
            stored.keys.shape[2],
            queries=heads.queries,
            key_heads=heads.keys,
            size=heads.size,
            block_keys=KEYS_AT_ONCE,
            block_size=max(LEAST_DOT, triton.next_power_of_2(heads.size)),
            block_group=max(LEAST_DOT, triton.next_power_of_2(group)) if by_tiles else 1,
            by_tiles=by_tiles,
            alone=splits == 1,
            num_warps=4,
            num_stages=2,
        )
        if splits > 1:
            self._merge(sums, masses, out, splits, heads)

    def _together(
        self,
        products: torch.Tensor,
        inputs: torch.Tensor,
        stored: Stored,
        heads: Heads,
        out: torch.Tensor,
        *,
        most: int,
    ) -> None:
        """Run one program for several rows of a head and a split of their keys."""
        rows = len(products)
        block_rows = min(ROWS_TOGETHER, max(LEAST_DOT, triton.next_power_of_2(rows)))
        tiles = triton.cdiv(rows, block_rows)
        splits = min(most, max(1, PART_PROGRAMS // (tiles * heads.queries)))
        # Where keys are split, tiles x heads x splits is at most PART_PROGRAMS.
        sums, masses = self._splits_of(heads, PART_PROGRAMS * ROWS_TOGETHER)
        attend_together[(tiles, heads.queries, splits)](
            products,
            inputs,
            stored.keys,
            stored.values,
            sums,
            masses,
            out,
            heads.scale * log2(e),
            rows,
            splits,
            stored.keys.shape[2],
            queries=heads.queries,
            key_heads=heads.keys,
            size=heads.size,
            block_rows=block_rows,
            block_keys=KEYS_AT_ONCE,
            block_size=max(LEAST_DOT, triton.next_power_of_2(heads.size)),
            alone=splits == 1,
            num_warps=4,
            num_stages=2,
        )
        if splits > 1:
            self._merge(sums, masses, out, splits, heads)

    @staticmethod
    def _merge(
        sums: torch.Tensor, masses: torch.Tensor, out: torch.Tensor, splits: int, heads: Heads
    ) -> None:
        merge[(len(out) * heads.queries,)](
            sums,
            masses,
            out,
            splits,
            size=heads.size,
            block_splits=triton.next_power_of_2(splits),
            block_size=triton.next_power_of_2(heads.size),
            num_warps=2,
        )

    def _splits_of(self, heads: Heads, places: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return float32 [places, head size] and [places, highest score and mass].

        One pass uses them once a layer: a part beside other rows is not split.
        """
        shape = heads.queries, heads.size, places
        if shape not in self._partial:
            self._partial[shape] = (
                torch.empty((places, heads.size), device=self._device),
                torch.empty((places, 2), device=self._device),
            )
        return self._partial[shape]
