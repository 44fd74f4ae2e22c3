"""LoRA adapters of a fused decoder: the matrices of all of them beside each product.

A pass multiplies its rows with the first matrices of all adapters, sets what is not of a row's own
adapter to zero, and adds the products with the second ones. So rows of one pass have adapters of
their own or none, and shapes are fixed: a row without an adapter gets zeros added, which is exactly
what the checkpoint computes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from mm_runtime.reference_engine.adapters import Adapter, AdapterFolder, adapter_scale, matrices
from mm_runtime.reference_engine.fused.kernels import Heads
from mm_runtime.reference_engine.fused.weights import Weights

NO_ADAPTER = 0
"""Row of the mask for rows without an adapter."""

PRODUCTS = {
    "attention": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "output": ("self_attn.o_proj",),
    "gates": ("mlp.gate_proj", "mlp.up_proj"),
    "down": ("mlp.down_proj",),
}
"""Product of a layer -> the modules that it computes side by side."""


@dataclass(frozen=True)
class LowRank:
    """What all adapters add to one product."""

    first: torch.Tensor
    """[modules x adapters x rank, in], of the modules that any adapter changes."""

    second: tuple[tuple[slice, torch.Tensor], ...]
    """For these: which columns of the product, and [out, adapters x rank], the scale included."""

    def add(
        self, rows: torch.Tensor, mask: torch.Tensor, low: torch.Tensor, out: torch.Tensor
    ) -> None:
        """Add to the product `out` of `rows`, both [rows, ...].

        `mask`: [rows, adapters x rank], one where a row's own adapter is. `low`: flat, room for the
        products with the first matrices.
        """
        width = self.first.shape[0]
        found = low[: len(rows) * width].view(len(rows), width)
        torch.mm(rows, self.first.t(), out=found)
        found.view(len(rows), len(self.second), -1).mul_(mask[:, None])
        width = mask.shape[1]
        for at, (columns, second) in enumerate(self.second):
            out[:, columns].addmm_(found[:, at * width : (at + 1) * width], second.t())


@dataclass(frozen=True)
class LowRanks:
    """All adapters of a decoder."""

    layers: tuple[Mapping[str, LowRank], ...]
    """Product -> what is added to it; those that no adapter changes are missing."""

    mask: torch.Tensor
    """[1 + adapters, adapters x rank]."""

    places: Mapping[Adapter, int]
    """Adapter -> its row of the mask."""

    @property
    def widest(self) -> int:
        """Return the values of a row between the two matrices, at the most."""
        return max(
            (one.first.shape[0] for layer in self.layers for one in layer.values()), default=0
        )


@torch.inference_mode()
def take_adapters(
    folders: Sequence[AdapterFolder], weights: Weights, device: torch.device
) -> LowRanks:
    """Read the adapters of a decoder's layers to a device, in the dtype of its weights."""
    read = [(matrices("llm", one), adapter_scale(one)) for one in folders]
    rank = max(
        (len(one) for found, _ in read for name, one in found.items() if "lora_A" in name),
        default=1,
    )
    layers = tuple(
        dict(_products(read, at, rank, weights, device)) for at in range(len(weights.layers))
    )
    count = len(folders)
    own = torch.eye(count).repeat_interleave(rank, dim=1)
    mask = torch.cat((torch.zeros(1, count * rank), own)).to(device, weights.dtype)
    places: dict[Adapter, int] = {one.uid: 1 + at for at, one in enumerate(folders)}
    return LowRanks(layers, mask, {None: NO_ADAPTER, **places})


_Read = Sequence[tuple[Mapping[str, torch.Tensor], float]]
"""Matrices of each adapter by name, and its scale."""


def _products(
    read: _Read, layer: int, rank: int, weights: Weights, device: torch.device
) -> Iterator[tuple[str, LowRank]]:
    columns = _columns(weights.heads, weights.inner_size, weights.hidden_size)
    for product, modules in PRODUCTS.items():
        firsts, seconds = [], []
        for module, (start, end) in zip(modules, columns[product], strict=True):
            name = f"layers.{layer}.{module}.lora_{{}}.weight"
            if not any(name.format("A") in found for found, _ in read):
                continue
            size = getattr(weights.layers[layer], product).weight.shape[1]
            first = torch.zeros(len(read), rank, size)
            second = torch.zeros(end - start, len(read), rank)
            for at, (found, scale) in enumerate(read):
                if name.format("A") in found:
                    own = found[name.format("A")]
                    first[at, : len(own)] = own
                    second[:, at, : len(own)] = found[name.format("B")].float() * scale
            firsts.append(first.flatten(0, 1))
            moved = second.flatten(1).to(device, weights.dtype)
            seconds.append((slice(start, end), moved))
        if firsts:
            yield product, LowRank(torch.cat(firsts).to(device, weights.dtype), tuple(seconds))


def _columns(heads: Heads, inner: int, hidden: int) -> dict[str, list[tuple[int, int]]]:
    """Return where the modules of each product stand in it."""
    queries, keys = heads.queries * heads.size, heads.keys * heads.size
    return {
        "attention": [
            (0, queries),
            (queries, queries + keys),
            (queries + keys, queries + 2 * keys),
        ],
        "output": [(0, hidden)],
        "gates": [(0, inner), (inner, 2 * inner)],
        "down": [(0, hidden)],
    }
