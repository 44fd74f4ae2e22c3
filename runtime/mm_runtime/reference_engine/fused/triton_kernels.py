"""The kernels of a fused decoder in Triton's language (the compiler, not the inference server).

A step of decoding reads all weights (`triton_products`); what is not a product of matrices is to
take no time beside that. So a layer has five or six kernels beside its four products, two of them
attention's (`triton_attention`). They compute in float32 and round where
transformers' modules round. Lengths come from memory, so that one captured graph serves all.
"""
# mypy: disallow-untyped-decorators=False, disallow-untyped-defs=False
# mypy: disallow-incomplete-defs=False, disallow-untyped-calls=False
# ruff: noqa: ANN001, ANN202, PLR0917 (the language has types and calls of its own)

import torch
import triton  # type: ignore[import-not-found]  # comes with torch for CUDA
import triton.language as tl  # type: ignore[import-not-found]

from mm_runtime.reference_engine.fused.attention import Attention
from mm_runtime.reference_engine.fused.kernels import Heads, Linear, Stored, multiply
from mm_runtime.reference_engine.fused.triton_products import FEW, multiply_few

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


class TritonKernels(Attention):
    """Kernels of one GPU, each compiled when a shape is first seen: before graphs are captured."""

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

    def gate(self, products: torch.Tensor, out: torch.Tensor) -> None:
        rows, width = out.shape
        _gate[(rows, triton.cdiv(width, GATED))](products, out, width=width, block=GATED)

    def multiply(self, rows: torch.Tensor, linear: Linear, out: torch.Tensor) -> None:
        """Run one program for some outputs of few rows; of many, torch's."""
        if _are_few(rows):
            multiply_few(rows, linear, out, gated=False)
        else:
            multiply(rows, linear, out)

    def multiply_gated(
        self, rows: torch.Tensor, linear: Linear, products: torch.Tensor, out: torch.Tensor
    ) -> None:
        if _are_few(rows):
            multiply_few(rows, linear, out, gated=True)
        else:
            multiply(rows, linear, products)
            self.gate(products, out)


def _are_few(rows: torch.Tensor) -> bool:
    return len(rows) <= FEW and rows.dtype in {torch.float16, torch.bfloat16}
