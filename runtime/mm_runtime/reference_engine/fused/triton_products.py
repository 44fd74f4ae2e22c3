"""Products of few rows in Triton's language (the compiler, not the inference server).

What counts is that weights are read without a pause: of an H100's 3.35 TB/s cuBLAS used 2.1 to 2.7
for a layer of 7 billion parameters, this kernel 2.3 to 2.8, and gates are not written and read
again (docs/studies/decoding-steps.md).
"""
# mypy: disallow-untyped-decorators=False, disallow-untyped-defs=False
# mypy: disallow-incomplete-defs=False, disallow-untyped-calls=False
# ruff: noqa: ANN001, ANN202, PLR0917 (the language has types and calls of its own)

import torch
import triton  # type: ignore[import-not-found]  # comes with torch for CUDA
import triton.language as tl  # type: ignore[import-not-found]

from mm_runtime.reference_engine.fused.kernels import Linear

HALF, FEW = 8, 16
"""Rows of a tile; more are torch's."""

OUT, IN, IN_GATED = 16, 256, 128
"""Weights of one program at one time: its outputs, and inputs of each. Its stages take 64 and 72 kB
of a multiprocessor's memory; a block has 99 kB where that is least (compute capability 8.6)."""


@triton.jit
def _multiply(
    rows,
    weight,
    bias,
    out,
    count,
    inputs: tl.constexpr,
    outputs: tl.constexpr,
    block_rows: tl.constexpr,
    block_out: tl.constexpr,
    block_in: tl.constexpr,
    biased: tl.constexpr,
    gated: tl.constexpr,
    masked: tl.constexpr,
):
    at_out = tl.program_id(0) * block_out + tl.arange(0, block_out)
    at_in = tl.arange(0, block_in)
    row = tl.arange(0, block_rows)
    is_out, is_row = at_out < outputs, row < count
    source = weight + at_out.to(tl.int64)[:, None] * inputs + at_in[None, :]
    given = rows + row[None, :] * inputs + at_in[:, None]
    found = tl.zeros([block_out, block_rows], tl.float32)
    passing = tl.zeros([block_out, block_rows], tl.float32)
    for first in range(0, inputs, block_in):
        left = at_in < inputs - first
        used = is_out[:, None] & left[None, :]
        weights = tl.load(source + first, mask=used, other=0.0, eviction_policy="evict_first")
        read = is_row[None, :] & left[:, None] if masked else left[:, None]
        values = tl.load(given + first, mask=read, other=0.0)
        found = tl.dot(weights, values, found)
        if gated:
            behind = source + outputs * inputs + first
            weights = tl.load(behind, mask=used, other=0.0, eviction_policy="evict_first")
            passing = tl.dot(weights, values, passing)
    kind = out.dtype.element_ty
    if biased:
        found += tl.load(bias + at_out, mask=is_out, other=0.0).to(tl.float32)[:, None]
        if gated:
            more = tl.load(bias + outputs + at_out, mask=is_out, other=0.0)
            passing += more.to(tl.float32)[:, None]
    if gated:
        gate = found.to(kind).to(tl.float32)
        silu = (gate / (1.0 + tl.exp(-gate))).to(kind).to(tl.float32)
        found = silu * passing.to(kind).to(tl.float32)
    target = out + row[None, :] * outputs + at_out[:, None]
    tl.store(target, found.to(kind), mask=is_out[:, None] & is_row[None, :])


def multiply_few(rows: torch.Tensor, linear: Linear, out: torch.Tensor, *, gated: bool) -> None:
    """Run one program for so many outputs of up to `FEW` rows [rows, in], in 16 bits.

    `gated`: `linear` has gates and then what passes them; `out` is half as wide as the products,
    silu(gate) x what passes.
    """
    outputs, count = out.shape[1], len(rows)
    block_rows = HALF if 1 < count <= HALF else FEW
    # Rows that are not needed are read with the others where memory has some: masks for them take
    # longer. One row is read by itself: with 15 more a step took 1.2 times as long.
    masked = count == 1 or _rows_of_memory(rows) < block_rows
    _multiply[(triton.cdiv(outputs, OUT),)](
        rows,
        linear.weight,
        linear.weight if linear.bias is None else linear.bias,
        out,
        count,
        inputs=rows.shape[1],
        outputs=outputs,
        block_rows=block_rows,
        block_out=OUT,
        block_in=IN_GATED if gated else IN,
        biased=linear.bias is not None,
        gated=gated,
        masked=masked,
        num_warps=2,
        num_stages=6 if gated else 4,
    )


def _rows_of_memory(rows: torch.Tensor) -> int:
    values = rows.untyped_storage().nbytes() // rows.element_size()
    return int(values - rows.storage_offset()) // rows.shape[1]
