"""What a fused decoder computes.

Rows of a pass are described by `inputs`, int32 [rows, 4]: token, position in its slot, slot, and
row of the rotation table. A row with position -1 is unused: it is stored nowhere, and nothing reads
what is computed of it.
"""

from dataclasses import dataclass
from typing import Protocol

import torch

TOKEN, POSITION, SLOT, TURN = range(4)
"""Columns of `inputs`."""

INPUTS = 4


@dataclass(frozen=True)
class Linear:
    """A product of rows [rows, in] and a weight [out, in]."""

    weight: torch.Tensor
    bias: torch.Tensor | None


@dataclass(frozen=True)
class Heads:
    """Attention of a decoder; all layers are alike."""

    queries: int
    keys: int
    """Heads of values, too; a divisor of `queries`."""

    size: int
    """Even."""

    scale: float
    """Factor of the products of queries and keys."""

    @property
    def width(self) -> int:
        """Values of a row: its queries, its keys and its values, in this order."""
        return (self.queries + 2 * self.keys) * self.size


@dataclass(frozen=True)
class Stored:
    """Keys and values of one layer, each [slots, key heads, positions, head size]."""

    keys: torch.Tensor
    values: torch.Tensor


class Kernels(Protocol):
    """Everything is written to tensors that exist: captured graphs have no others."""

    def add_norm(
        self,
        states: torch.Tensor,
        more: torch.Tensor | None,
        weight: torch.Tensor,
        epsilon: float,
        out: torch.Tensor,
    ) -> None:
        """Add `more` to `states` [rows, hidden] in place; write the root mean square norm."""

    def rotate(
        self,
        products: torch.Tensor,
        turns: torch.Tensor,
        inputs: torch.Tensor,
        stored: Stored,
        heads: Heads,
    ) -> None:
        """Rotate queries in place; rotate and store keys; store values.

        `products`: [rows, `Heads.width`]. `turns`: float32 [any, head size], cosines of a head's
        first half, then sines.
        """

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
        """Write what rows read, each up to its position: [rows, query width].

        `products`: as `rotate` left them. `decoded`: the first rows, each in a slot of its own; the
        others are all in the slot of the first one of them.
        """

    def gate(self, products: torch.Tensor, out: torch.Tensor) -> None:
        """Write silu(first half) x second half of rows [rows, 2 inner]."""

    def multiply(self, rows: torch.Tensor, linear: Linear, out: torch.Tensor) -> None:
        """Write the products of rows [rows, in] to `out` [rows, out]."""

    def multiply_gated(
        self, rows: torch.Tensor, linear: Linear, products: torch.Tensor, out: torch.Tensor
    ) -> None:
        """Write what `gate` makes of the products of rows [rows, in] to `out` [rows, inner].

        `linear`: gates, then what passes them. `products`: memory for them, [rows, 2 inner]; what
        it holds afterwards is not defined.
        """


def multiply(rows: torch.Tensor, linear: Linear, out: torch.Tensor) -> None:
    """Write the products of rows [rows, in] to `out` [rows, out]."""
    if linear.bias is None:
        torch.mm(rows, linear.weight.t(), out=out)
    else:
        torch.addmm(linear.bias, rows, linear.weight.t(), out=out)
