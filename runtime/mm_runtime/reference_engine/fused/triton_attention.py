"""Attention of a fused decoder in Triton's language (the compiler, not the inference server).

Lengths come from memory. Keys of few rows are read in splits, by programs of their own, whose sums
`merge` joins: one program after the other would read less than the GPU can
(https://crfm.stanford.edu/2023/10/12/flashdecoding.html).
"""
# mypy: disallow-untyped-decorators=False, disallow-untyped-defs=False
# mypy: disallow-incomplete-defs=False, disallow-untyped-calls=False
# ruff: noqa: ANN001, ANN201, PLR0915, PLR0917 (the language has types and calls of its own)

import triton  # type: ignore[import-not-found]  # comes with torch for CUDA
import triton.language as tl  # type: ignore[import-not-found]


@triton.jit
def attend_each(
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
    """Read up to each row's position in its own slot.

    One program for a row, a key head and a split of the row's keys; rows [rows, `Heads.width`].
    """
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
def merge(
    sums,
    masses,
    out,
    splits,
    size: tl.constexpr,
    block_splits: tl.constexpr,
    block_size: tl.constexpr,
):
    """Join what splits of a row's keys have read; one program for a row and a head."""
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
def attend_together(
    products,
    inputs,
    keys,
    values,
    sums,
    masses,
    out,
    factor,
    rows,
    splits,
    length,
    queries: tl.constexpr,
    key_heads: tl.constexpr,
    size: tl.constexpr,
    block_rows: tl.constexpr,
    block_keys: tl.constexpr,
    block_size: tl.constexpr,
    alone: tl.constexpr,
):
    """Read up to each row's position in the slot of the first one.

    One program for a tile of rows, a head and a split of the keys.
    """
    row = tl.program_id(0) * block_rows + tl.arange(0, block_rows)
    is_row = row < rows
    head = tl.program_id(1)
    split = tl.program_id(2)
    group: tl.constexpr = queries // key_heads
    total: tl.constexpr = queries + 2 * key_heads
    slot = tl.load(inputs + 2).to(tl.int64)
    own = tl.load(inputs + row * 4 + 1, mask=is_row, other=-1)
    # Splits follow what the tile's last row reads.
    count = tl.max(own, 0) + 1
    each = tl.cdiv(tl.cdiv(count, splits), block_keys) * block_keys
    start = split * each
    end = tl.minimum(count, start + each)
    at = tl.arange(0, block_size)
    inside = at < size
    both = is_row[:, None] & inside[None, :]
    source = products + row[:, None] * total * size + head * size + at[None, :]
    query = tl.load(source, mask=both, other=0.0)
    base = (slot * key_heads + head // group) * length * size
    top = tl.full([block_rows], float("-inf"), tl.float32)
    mass = tl.zeros([block_rows], tl.float32)
    found = tl.zeros([block_rows, block_size], tl.float32)
    for first in range(start, end, block_keys):
        position = first + tl.arange(0, block_keys)
        place = base + position[:, None] * size + at[None, :]
        mask = (position < end)[:, None] & inside[None, :]
        key = tl.load(keys + place, mask=mask, other=0.0)
        score = tl.dot(query, tl.trans(key), input_precision="ieee") * factor
        score = tl.where(position[None, :] <= own[:, None], score, float("-inf"))
        higher = tl.maximum(top, tl.max(score, 1))
        # Rows that have read nothing yet have a highest score of minus infinity.
        limit = tl.where(higher == float("-inf"), 0.0, higher)
        fade = tl.exp2(top - limit)
        share = tl.exp2(score - limit[:, None])
        mass = mass * fade + tl.sum(share, 1)
        value = tl.load(values + place, mask=mask, other=0.0)
        found = found * fade[:, None]
        found = tl.dot(share.to(value.dtype), value, found, input_precision="ieee")
        top = higher
    row_head = row * queries + head
    if alone:
        found = found / tl.where(mass > 0.0, mass, 1.0)[:, None]
        target = out + row_head[:, None] * size + at[None, :]
        tl.store(target, found.to(out.dtype.element_ty), mask=both)
    else:
        place = row_head * splits + split
        tl.store(masses + place * 2, top, mask=is_row)
        tl.store(masses + place * 2 + 1, mass, mask=is_row)
        target = sums + place[:, None] * size + at[None, :]
        tl.store(target, found, mask=both & (end > start))
