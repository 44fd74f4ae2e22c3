"""Attention of vision halves that this package computes itself, in each engine's best form."""

from typing import Any

import torch


class Attention(torch.nn.Module):
    """Queries, keys and values [batch, heads, n, size] to what they mix.

    As products it stores its scores, batch x heads x n^2. ONNX Runtime has no attention without
    them: the exporter's form of the one operation stores a third copy beside the two of products
    and takes 2.6 times as long (4,096 patches, 16 heads). In programs for torch it is the one
    operation, which stores none; `fusing.fuse` says which.
    """

    def __init__(self, scaling: float) -> None:
        super().__init__()
        self.scaling = scaling
        self.is_one_operation = False

    def forward(
        self,
        queries: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        hidden: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return [batch, n, heads x size]; `hidden` is added to the scores, None: all are seen."""
        if self.is_one_operation:
            attend: Any = torch.nn.functional.scaled_dot_product_attention
            mixed: torch.Tensor = attend(
                queries, keys, values, attn_mask=hidden, scale=self.scaling
            )
        else:
            scores = queries @ keys.transpose(-1, -2) * self.scaling
            mixed = (scores if hidden is None else scores + hidden).softmax(dim=-1) @ values
        return mixed.transpose(1, 2).flatten(2)
