"""Weights of a decoder of Llama's shape, side by side where one product computes several.

Llama, Mistral, Qwen2 and Qwen2-VL's text model are one network: root mean square norms, rotated
queries and keys, a gated perceptron; Qwen2's attention has biases.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
import transformers

from mm_runtime.reference_engine.fused.kernels import Heads, Linear

KINDS = ("LlamaModel", "MistralModel", "Qwen2Model", "Qwen2VLTextModel")
"""Classes of transformers with this shape."""

ROTATIONS = frozenset({"default", "linear", "llama3", "yarn"})
"""Rotations of positions alone; others change with the length of a prompt."""


@dataclass(frozen=True)
class Layer:
    """One layer's weights."""

    input_norm: torch.Tensor
    attention: Linear
    """Queries, keys, values."""

    output: Linear
    inner_norm: torch.Tensor
    gates: Linear
    """Gates, then what passes them."""

    down: Linear


@dataclass(frozen=True)
class Weights:
    """A decoder on a device."""

    layers: tuple[Layer, ...]
    norm: torch.Tensor
    embeddings: torch.Tensor
    """[vocabulary, hidden], shared with what embeds prompts."""

    turns: torch.Tensor
    """float32 [positions, head size]: cosines of a head's first half, then sines."""

    heads: Heads
    epsilon: float

    @property
    def dtype(self) -> torch.dtype:
        return self.embeddings.dtype

    @property
    def hidden_size(self) -> int:
        return self.embeddings.shape[1]

    @property
    def inner_size(self) -> int:
        return self.layers[0].down.weight.shape[1]


def has_llama_shape(model: Any, config: Any) -> bool:
    """Return whether a decoder of transformers can be computed from `Weights`."""
    kinds = tuple(getattr(transformers, name) for name in KINDS if hasattr(transformers, name))
    return (
        isinstance(model, kinds)
        and config.hidden_act == "silu"
        and getattr(config, "sliding_window", None) is None
        and getattr(model.rotary_emb, "rope_type", None) in ROTATIONS
    )


@torch.inference_mode()
def take_weights(model: Any, *, max_length: int, device: torch.device) -> Weights:
    """Move the weights of a decoder to a device, layer by layer; the model is empty afterwards.

    `model`: of transformers, on the processor; its embeddings may be on the device already.
    `max_length`: positions that rotations are computed for.
    """
    attention = model.layers[0].self_attn
    size = int(attention.head_dim)
    heads = Heads(
        queries=attention.q_proj.weight.shape[0] // size,
        keys=attention.k_proj.weight.shape[0] // size,
        size=size,
        scale=float(attention.scaling),
    )
    epsilon = float(model.norm.variance_epsilon)
    positions = torch.arange(max_length)[None]
    if isinstance(model, transformers.Qwen2VLTextModel):
        positions = positions.expand(3, 1, -1)  # of text, all three coordinates are equal
    turns = _turns(model.rotary_emb, positions).to(device)
    layers = []
    for layer in model.layers:
        inner = layer.self_attn, layer.mlp
        layers.append(
            Layer(
                input_norm=_on(device, layer.input_layernorm.weight),
                attention=_joined(device, (inner[0].q_proj, inner[0].k_proj, inner[0].v_proj)),
                output=_joined(device, (inner[0].o_proj,)),
                inner_norm=_on(device, layer.post_attention_layernorm.weight),
                gates=_joined(device, (inner[1].gate_proj, inner[1].up_proj)),
                down=_joined(device, (inner[1].down_proj,)),
            )
        )
        layer.to("meta")
    return Weights(
        layers=tuple(layers),
        norm=_on(device, model.norm.weight),
        embeddings=_on(device, model.get_input_embeddings().weight),
        turns=turns,
        heads=heads,
        epsilon=epsilon,
    )


def _on(device: torch.device, weight: torch.Tensor) -> torch.Tensor:
    return weight.detach().to(device)


def _joined(device: torch.device, linears: Iterable[Any]) -> Linear:
    parts = tuple(linears)
    weight = torch.cat([one.weight.detach() for one in parts])
    biases = [one.bias for one in parts if one.bias is not None]
    bias = torch.cat([one.detach() for one in biases]).to(device) if biases else None
    return Linear(weight.to(device), bias)


def _turns(rotary: Any, positions: torch.Tensor) -> torch.Tensor:
    """Return cosines and sines, float32 [positions, head size], of positions [..., positions]."""
    cosines, sines = rotary(torch.zeros(1), positions)
    size, count = cosines.shape[-1], positions.shape[-1]
    halves = (one.reshape(-1, size)[:count, : size // 2] for one in (cosines, sines))
    return torch.cat(tuple(halves), dim=-1)
