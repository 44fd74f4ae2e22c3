"""A linear layer of a fused decoder, and its product by torch."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Linear:
    """A product of rows [rows, in] and a weight [out, in]."""

    weight: torch.Tensor
    bias: torch.Tensor | None


def multiply(rows: torch.Tensor, linear: Linear, out: torch.Tensor) -> None:
    """Write the products of rows [rows, in] to `out` [rows, out]."""
    if linear.bias is None:
        torch.mm(rows, linear.weight.t(), out=out)
    else:
        torch.addmm(linear.bias, rows, linear.weight.t(), out=out)
