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

from mm_runtime.reference_engine.fused.linear import Linear

FEW = 16
"""Rows of a tile, the least that tensor cores take; more are torch's."""

OUT, IN = 16, 256
"""Weights of one program at one time: its outputs, and inputs of each."""


@triton.jit(do_not_specialize=["count"])
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
):
    at_out = tl.program_id(0) * block_out + tl.arange(0, block_out)
    at_in = tl.arange(0, block_in)
    row = tl.arange(0, block_rows)
    # What is past the end is the last one again: masks of rows take longer than their products.
    kept = tl.minimum(at_out, outputs - 1).to(tl.int64)
    source = weight + kept[:, None] * inputs + at_in[None, :]
    given = rows + tl.minimum(row, count - 1)[None, :] * inputs + at_in[:, None]
    found = tl.zeros([block_out, block_rows], tl.float32)
    passing = tl.zeros([block_out, block_rows], tl.float32)
    for first in range(0, inputs, block_in):
        left = at_in < inputs - first
        values = tl.load(given + first, mask=left[:, None], other=0.0)
        weights = tl.load(
            source + first, mask=left[None, :], other=0.0, eviction_policy="evict_first"
        )
        found = tl.dot(weights, values, found)
        if gated:
            weights = tl.load(
                source + outputs * inputs + first,
                mask=left[None, :],
                other=0.0,
                eviction_policy="evict_first",
            )
            passing = tl.dot(weights, values, passing)
    kind = out.dtype.element_ty
    if biased:
        found += tl.load(bias + kept).to(tl.float32)[:, None]
        if gated:
            passing += tl.load(bias + outputs + kept).to(tl.float32)[:, None]
    if gated:
        gate = found.to(kind).to(tl.float32)
        silu = (gate / (1.0 + tl.exp(-gate))).to(kind).to(tl.float32)
        found = silu * passing.to(kind).to(tl.float32)
    target = out + row[None, :] * outputs + at_out[:, None]
    used = (at_out < outputs)[:, None] & (row < count)[None, :]
    tl.store(target, found.to(kind), mask=used)


def multiply_few(rows: torch.Tensor, linear: Linear, out: torch.Tensor, *, gated: bool) -> None:
    """Run one program for so many outputs of up to `FEW` rows [rows, in], in 16 bits.

    Args:
        rows: that are multiplied, one behind the other.
        linear: where `gated`, gates and then what passes them.
        out: [rows, out]; where `gated`, half as wide as the products, silu(gate) x what passes.
        gated: whether it is computed of both halves.
    """
    outputs = out.shape[1]
    _multiply[(triton.cdiv(outputs, OUT),)](
        rows,
        linear.weight,
        linear.weight if linear.bias is None else linear.bias,
        out,
        len(rows),
        inputs=rows.shape[1],
        outputs=outputs,
        block_rows=FEW,
        block_out=OUT,
        block_in=IN,
        biased=linear.bias is not None,
        gated=gated,
        num_warps=2,
        # 64 and 72 kB of a multiprocessor's memory, which a block has everywhere (99 kB, sm_86).
        num_stages=3 if gated else 4,
    )
