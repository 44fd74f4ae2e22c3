"""The kernels of a fused decoder in Triton's language (the compiler, not the inference server).

A step of decoding reads all weights; what is not a product of matrices is to take no time beside
that. So a layer has six kernels beside its four products. They compute in float32 and round where
transformers' modules round. Lengths come from memory, so that one captured graph serves all.
"""
# mypy: disallow-untyped-decorators=False, disallow-untyped-defs=False
# mypy: disallow-incomplete-defs=False, disallow-untyped-calls=False
# ruff: noqa: ANN001, ANN202, PLR0915, PLR0917 (the language has types and calls of its own)

from math import e, log2

import torch
import triton  # type: ignore[import-not-found]  # comes with torch for CUDA
import triton.language as tl  # type: ignore[import-not-found]

from mm_runtime.reference_engine.fused.kernels import Heads, Stored

LEAST_DOT = 16
"""Rows and columns of a product of tiles at the least."""

SPLITS = 32
"""Parts of one row's keys that are read by programs of their own, at the most."""

PROGRAMS = 1024
"""Enough to keep all multiprocessors reading: a GPU of today has 132 or 148."""

KEYS_OF_EACH, KEYS_TOGETHER, ROWS_TOGETHER = 64, 64, 64
"""Sizes of tiles."""

WARPS_OF_EACH, STAGES_OF_EACH = 4, 2

HEADS_ROTATED, GATED = 8, 1024
"""Heads and values of one program."""


@triton.jit
def _add_norm(
    states,
    more,
    weight,
    out,
    epsilon,
    width: tl.constexpr,
    block: tl.constexpr,
    adds: tl.constexpr,
):
    row = tl.program_id(0)
    at = tl.arange(0, block)
    used = at < width
    values = tl.load(states + row * width + at, mask=used, other=0.0)
    if adds:
        added = tl.load(more + row * width + at, mask=used, other=0.0)
        values = (values.to(tl.float32) + added.to(tl.float32)).to(values.dtype)
        tl.store(states + row * width + at, values, mask=used)
    wide = values.to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(wide * wide, axis=0) / width + epsilon)
    scaled = (wide * scale).to(values.dtype).to(tl.float32)
    weights = tl.load(weight + at, mask=used, other=0.0).to(tl.float32)
    tl.store(out + row * width + at, (scaled * weights).to(values.dtype), mask=used)


@triton.jit
def _rotate(
    products,
    turns,
    inputs,
    keys,
    values,
    length,
    queries: tl.constexpr,
    key_heads: tl.constexpr,
    size: tl.constexpr,
    block_heads: tl.constexpr,
    block_half: tl.constexpr,
):
    row = tl.program_id(0)
    position = tl.load(inputs + row * 4 + 1)
    slot = tl.load(inputs + row * 4 + 2).to(tl.int64)
    turn = tl.load(inputs + row * 4 + 3)
    half: tl.constexpr = size // 2
    total: tl.constexpr = queries + 2 * key_heads
    head = tl.program_id(1) * block_heads + tl.arange(0, block_heads)
    at = tl.arange(0, block_half)
    used = (head < total)[:, None] & (at < half)[None, :] & (position >= 0)
    source = products + row * total * size + head[:, None] * size + at[None, :]
    first = tl.load(source, mask=used, other=0.0)
    second = tl.load(source + half, mask=used, other=0.0)
    cosine = tl.load(turns + turn * size + at, mask=at < half, other=0.0)[None, :]
    sine = tl.load(turns + turn * size + half + at, mask=at < half, other=0.0)[None, :]
    turned = (head < queries + key_heads)[:, None]
    low = first.to(tl.float32) * cosine - second.to(tl.float32) * sine
    high = second.to(tl.float32) * cosine + first.to(tl.float32) * sine
    low = tl.where(turned, low, first.to(tl.float32)).to(first.dtype)
    high = tl.where(turned, high, second.to(tl.float32)).to(first.dtype)
    is_query = used & (head < queries)[:, None]
    tl.store(source, low, mask=is_query)
    tl.store(source + half, high, mask=is_query)
    is_key = used & (head >= queries)[:, None] & turned
    place = ((slot * key_heads + head - queries) * length + position) * size
    target = keys + place[:, None] + at[None, :]
    tl.store(target, low, mask=is_key)
    tl.store(target + half, high, mask=is_key)
    is_value = used & (head >= queries + key_heads)[:, None]
    place = ((slot * key_heads + head - queries - key_heads) * length + position) * size
    target = values + place[:, None] + at[None, :]
    tl.store(target, low, mask=is_value)
    tl.store(target + half, high, mask=is_value)


@triton.jit
def _attend_each(
    products,
    inputs,
    keys,
    values,
    sums,
    masses,
    out,
    factor,
    splits,
    length,
    queries: tl.constexpr,
    key_heads: tl.constexpr,
    size: tl.constexpr,
    block_keys: tl.constexpr,
    block_size: tl.constexpr,
    block_group: tl.constexpr,
    by_tiles: tl.constexpr,
    alone: tl.constexpr,
):
    row = tl.program_id(0)
    key_head = tl.program_id(1)
    split = tl.program_id(2)
    count = tl.load(inputs + row * 4 + 1) + 1
    slot = tl.load(inputs + row * 4 + 2).to(tl.int64)
    group: tl.constexpr = queries // key_heads
    total: tl.constexpr = queries + 2 * key_heads
    # Splits follow the row's own length: those past its end have nothing to read.
    each = tl.cdiv(tl.cdiv(count, splits), block_keys) * block_keys
    start = split * each
    end = tl.minimum(count, start + each)
    at = tl.arange(0, block_size)
    inside = at < size
    member = tl.arange(0, block_group)
    is_member = member < group
    head = key_head * group + member
    both = is_member[:, None] & inside[None, :]
    source = products + row * total * size + head[:, None] * size + at[None, :]
    query = tl.load(source, mask=both, other=0.0)
    base = (slot * key_heads + key_head) * length * size
    top = tl.full([block_group], float("-inf"), tl.float32)
    mass = tl.zeros([block_group], tl.float32)
    found = tl.zeros([block_group, block_size], tl.float32)
    for first in range(start, end, block_keys):
        position = first + tl.arange(0, block_keys)
        near = position < end
        place = base + position[:, None] * size + at[None, :]
        mask = near[:, None] & inside[None, :]
        key = tl.load(keys + place, mask=mask, other=0.0)
        value = tl.load(values + place, mask=mask, other=0.0)
        if by_tiles:
            score = tl.dot(query, tl.trans(key), input_precision="ieee")
        else:
            score = tl.sum(key.to(tl.float32)[None, :, :] * query.to(tl.float32)[:, None, :], 2)
        score = tl.where(near[None, :], score * factor, float("-inf"))
        higher = tl.maximum(top, tl.max(score, 1))
        fade = tl.exp2(top - higher)
        share = tl.exp2(score - higher[:, None])
        mass = mass * fade + tl.sum(share, 1)
        found = found * fade[:, None]
        if by_tiles:
            found = tl.dot(share.to(value.dtype), value, found, input_precision="ieee")
        else:
            found += tl.sum(share[:, :, None] * value.to(tl.float32)[None, :, :], 1)
        top = higher
    row_head = row * queries + head
    if alone:
        found = found / tl.where(mass > 0.0, mass, 1.0)[:, None]
        target = out + row_head[:, None] * size + at[None, :]
        tl.store(target, found.to(out.dtype.element_ty), mask=both)
    else:
        place = row_head * splits + split
        tl.store(masses + place * 2, top, mask=is_member)
        tl.store(masses + place * 2 + 1, mass, mask=is_member)
        target = sums + place[:, None] * size + at[None, :]
        tl.store(target, found, mask=both & (end > start))


@triton.jit
def _merge(
    sums,
    masses,
    out,
    splits,
    size: tl.constexpr,
    block_splits: tl.constexpr,
    block_size: tl.constexpr,
):
    row_head = tl.program_id(0)
    split = tl.arange(0, block_splits)
    at = tl.arange(0, block_size)
    place = row_head * splits + split
    used = split < splits
    top = tl.load(masses + place * 2, mask=used, other=float("-inf"))
    mass = tl.load(masses + place * 2 + 1, mask=used, other=0.0)
    has_read = mass > 0.0
    highest = tl.max(tl.where(has_read, top, -1e30), 0)
    share = tl.where(has_read, tl.exp2(top - highest), 0.0)
    both = has_read[:, None] & (at < size)[None, :]
    found = tl.load(sums + place[:, None] * size + at[None, :], mask=both, other=0.0)
    total = tl.sum(share * mass, 0)
    read = tl.sum(found * share[:, None], 0) / tl.where(total > 0.0, total, 1.0)
    tl.store(out + row_head * size + at, read.to(out.dtype.element_ty), mask=at < size)


@triton.jit
def _attend_together(
    products,
    inputs,
    keys,
    values,
    out,
    factor,
    rows,
    length,
    queries: tl.constexpr,
    key_heads: tl.constexpr,
    size: tl.constexpr,
    block_rows: tl.constexpr,
    block_keys: tl.constexpr,
    block_size: tl.constexpr,
):
    row = tl.program_id(0) * block_rows + tl.arange(0, block_rows)
    head = tl.program_id(1)
    group: tl.constexpr = queries // key_heads
    total: tl.constexpr = queries + 2 * key_heads
    slot = tl.load(inputs + 2).to(tl.int64)
    own = tl.load(inputs + row * 4 + 1, mask=row < rows, other=-1)
    end = tl.max(own, 0) + 1
    at = tl.arange(0, block_size)
    inside = at < size
    both = (row < rows)[:, None] & inside[None, :]
    source = products + row[:, None] * total * size + head * size + at[None, :]
    query = tl.load(source, mask=both, other=0.0)
    base = (slot * key_heads + head // group) * length * size
    top = tl.full([block_rows], float("-inf"), tl.float32)
    mass = tl.zeros([block_rows], tl.float32)
    found = tl.zeros([block_rows, block_size], tl.float32)
    for first in range(0, end, block_keys):
        position = first + tl.arange(0, block_keys)
        place = base + position[:, None] * size + at[None, :]
        mask = (position < end)[:, None] & inside[None, :]
        key = tl.load(keys + place, mask=mask, other=0.0)
        score = tl.dot(query, tl.trans(key), input_precision="ieee") * factor
        score = tl.where(position[None, :] <= own[:, None], score, float("-inf"))
        higher = tl.maximum(top, tl.max(score, 1))
        # Unused rows have read nothing: their highest score stays minus infinity.
        limit = tl.where(higher == float("-inf"), 0.0, higher)
        fade = tl.exp2(top - limit)
        share = tl.exp2(score - limit[:, None])
        mass = mass * fade + tl.sum(share, 1)
        value = tl.load(values + place, mask=mask, other=0.0)
        found = found * fade[:, None]
        found = tl.dot(share.to(value.dtype), value, found, input_precision="ieee")
        top = higher
    found = found / tl.where(mass > 0.0, mass, 1.0)[:, None]
    target = out + (row[:, None] * queries + head) * size + at[None, :]
    tl.store(target, found.to(out.dtype.element_ty), mask=both)


@triton.jit
def _gate(products, out, width: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * block + tl.arange(0, block)
    used = at < width
    gates = tl.load(products + row * 2 * width + at, mask=used, other=0.0)
    values = tl.load(products + row * 2 * width + width + at, mask=used, other=0.0)
    wide = gates.to(tl.float32)
    silu = (wide / (1.0 + tl.exp(-wide))).to(gates.dtype).to(tl.float32)
    gated = (silu * values.to(tl.float32)).to(gates.dtype)
    tl.store(out + row * width + at, gated, mask=used)


class TritonKernels:
    """Kernels of one GPU, each compiled when a shape is first seen: before graphs are captured."""

    def __init__(self, device: torch.device) -> None:
        """Prepare for a device; decoders are captured with it one after the other."""
        self._device = device
        self._partial: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}
        """For each number of heads and size of a head: what splits of rows have read."""

    def add_norm(
        self,
        states: torch.Tensor,
        more: torch.Tensor | None,
        weight: torch.Tensor,
        epsilon: float,
        out: torch.Tensor,
    ) -> None:
        """Run one program a row."""
        rows, width = states.shape
        _add_norm[(rows,)](
            states,
            states if more is None else more,
            weight,
            out,
            epsilon,
            width=width,
            block=triton.next_power_of_2(width),
            adds=more is not None,
            num_warps=8,
        )

    def rotate(
        self,
        products: torch.Tensor,
        turns: torch.Tensor,
        inputs: torch.Tensor,
        stored: Stored,
        heads: Heads,
    ) -> None:
        """Run one program for several heads of a row."""
        blocks = triton.cdiv(heads.queries + 2 * heads.keys, HEADS_ROTATED)
        _rotate[(len(products), blocks)](
            products,
            turns,
            inputs,
            stored.keys,
            stored.values,
            stored.keys.shape[2],
            queries=heads.queries,
            key_heads=heads.keys,
            size=heads.size,
            block_heads=HEADS_ROTATED,
            block_half=triton.next_power_of_2(heads.size // 2),
            num_warps=4,
        )

    def attend_each(
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
        sums, masses = self._splits_of(heads)
        # Products of tiles have the next keys read while they compute, even where 15 of 16 rows of
        # a tile are padding; in float32 they take longer than what they save.
        by_tiles = group > 1 or products.dtype != torch.float32
        _attend_each[(rows, heads.keys, splits)](
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
            block_keys=KEYS_OF_EACH,
            block_size=max(LEAST_DOT, triton.next_power_of_2(heads.size)),
            block_group=max(LEAST_DOT, triton.next_power_of_2(group)) if by_tiles else 1,
            by_tiles=by_tiles,
            alone=splits == 1,
            num_warps=WARPS_OF_EACH,
            num_stages=STAGES_OF_EACH,
        )
        if splits > 1:
            _merge[(rows * heads.queries,)](
                sums,
                masses,
                out,
                splits,
                size=heads.size,
                block_splits=SPLITS,
                block_size=triton.next_power_of_2(heads.size),
                num_warps=2,
            )

    def _splits_of(self, heads: Heads) -> tuple[torch.Tensor, torch.Tensor]:
        """Return float32 [splits of rows, head size] and [the same, highest score and mass]."""
        shape = heads.queries, heads.size
        if shape not in self._partial:
            # Where keys are split, rows x key heads x splits is at most PROGRAMS.
            most = PROGRAMS * heads.queries // heads.keys
            self._partial[shape] = (
                torch.empty((most, heads.size), device=self._device),
                torch.empty((most, 2), device=self._device),
            )
        return self._partial[shape]

    def attend_together(
        self,
        products: torch.Tensor,
        inputs: torch.Tensor,
        stored: Stored,
        heads: Heads,
        out: torch.Tensor,
    ) -> None:
        """Run one program for several rows of a head."""
        rows = len(products)
        _attend_together[(triton.cdiv(rows, ROWS_TOGETHER), heads.queries)](
            products,
            inputs,
            stored.keys,
            stored.values,
            out,
            heads.scale * log2(e),
            rows,
            stored.keys.shape[2],
            queries=heads.queries,
            key_heads=heads.keys,
            size=heads.size,
            block_rows=ROWS_TOGETHER,
            block_keys=KEYS_TOGETHER,
            block_size=max(LEAST_DOT, triton.next_power_of_2(heads.size)),
            num_warps=4,
            num_stages=2,
        )

    def gate(self, products: torch.Tensor, out: torch.Tensor) -> None:
        """Run one program for so many values of a row."""
        rows, width = out.shape
        _gate[(rows, triton.cdiv(width, GATED))](products, out, width=width, block=GATED)
