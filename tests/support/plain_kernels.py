"""The kernels of a fused decoder in plain torch: for tests, and what the others are compared with.

Loops over rows: clear, not fast.
"""

import torch
from torch.nn.functional import scaled_dot_product_attention, silu

from mm_runtime.reference_engine.fused.kernels import (
    POSITION,
    SLOT,
    TURN,
    Heads,
    Linear,
    Stored,
    multiply,
)


class PlainKernels:
    """Kernels of any device."""

    def add_norm(
        self,
        states: torch.Tensor,
        more: torch.Tensor | None,
        weight: torch.Tensor,
        epsilon: float,
        out: torch.Tensor,
    ) -> None:
        if more is not None:
            states += more
        wide = states.float()
        scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)
        out.copy_(weight * scaled.to(states.dtype))

    def rotate(
        self,
        products: torch.Tensor,
        turns: torch.Tensor,
        inputs: torch.Tensor,
        stored: Stored,
        heads: Heads,
    ) -> None:
        split = products.view(len(products), -1, heads.size)
        turned = split[:, : heads.queries + heads.keys]
        cosines, sines = turns[inputs[:, TURN].long()][:, None].chunk(2, dim=-1)
        first, second = turned.float().chunk(2, dim=-1)
        rotated = (first * cosines - second * sines, second * cosines + first * sines)
        turned.copy_(torch.cat(rotated, dim=-1))
        for row, (position, slot) in enumerate(inputs[:, [POSITION, SLOT]].tolist()):
            if position >= 0:
                stored.keys[slot, :, position] = split[row, heads.queries : -heads.keys]
                stored.values[slot, :, position] = split[row, -heads.keys :]

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
        """Attend row by row, whatever rows are."""
        del decoded
        for row, (position, slot) in enumerate(inputs[:, [POSITION, SLOT]].tolist()):
            if position >= 0:
                query = products[row, : heads.queries * heads.size]
                out[row] = scaled_dot_product_attention(
                    query.view(1, heads.queries, 1, heads.size),
                    stored.keys[slot : slot + 1, :, : position + 1],
                    stored.values[slot : slot + 1, :, : position + 1],
                    scale=heads.scale,
                    enable_gqa=True,
                ).flatten()

    def gate(self, products: torch.Tensor, out: torch.Tensor) -> None:
        gates, values = products.chunk(2, dim=-1)
        out.copy_(silu(gates) * values)

    def multiply(self, rows: torch.Tensor, linear: Linear, out: torch.Tensor) -> None:
        multiply(rows, linear, out)

    def multiply_gated(
        self, rows: torch.Tensor, linear: Linear, products: torch.Tensor, out: torch.Tensor
    ) -> None:
        multiply(rows, linear, products)
        self.gate(products, out)
