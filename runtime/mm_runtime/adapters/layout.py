"""PURE: what the tensors of a LoRA adapter are called, and which sizes they must have.

Module names and ids are TensorRT-LLM's (tensorrt_llm/lora_manager.py), the correspondence is that
of its examples/hf_lora_convert.py.
"""

import re
from dataclasses import dataclass
from typing import Final

from mm_api.documents.model_facts import EncoderFacts, ModelFacts, TextFacts
from mm_runtime.errors import PermanentError

MODULE_IDS: Final = {
    "attn_qkv": 0,
    "attn_q": 1,
    "attn_k": 2,
    "attn_v": 3,
    "attn_dense": 4,
    "mlp_h_to_4h": 5,
    "mlp_4h_to_h": 6,
    "mlp_gate": 7,
    "cross_attn_q": 9,
    "cross_attn_k": 10,
    "cross_attn_v": 11,
    "cross_attn_dense": 12,
}

MODULES: Final = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_dense",
    "self_attn.out_proj": "attn_dense",
    "encoder_attn.q_proj": "cross_attn_q",
    "encoder_attn.k_proj": "cross_attn_k",
    "encoder_attn.v_proj": "cross_attn_v",
    "encoder_attn.out_proj": "cross_attn_dense",
    "mlp.gate_proj": "mlp_h_to_4h",
    "mlp.up_proj": "mlp_gate",
    "mlp.down_proj": "mlp_4h_to_h",
    "fc1": "mlp_h_to_4h",
    "fc2": "mlp_4h_to_h",
}
"""Hugging Face's module -> TensorRT-LLM's."""

_ATTENTION: Final = {"q": "q", "k": "k", "v": "v", "o": "dense"}
_PERCEPTRON: Final = {
    "wi": "mlp_h_to_4h",
    "wi_0": "mlp_h_to_4h",
    "wi_1": "mlp_gate",
    "wo": "mlp_4h_to_h",
}

BLOCK_MODULES: Final = {
    **{f"layer.0.SelfAttention.{one}": f"attn_{name}" for one, name in _ATTENTION.items()},
    **{f"layer.1.EncDecAttention.{one}": f"cross_attn_{name}" for one, name in _ATTENTION.items()},
    # An encoder's block has no attention to another stack in between.
    **{
        f"layer.{at}.DenseReluDense.{one}": name
        for at in (1, 2)
        for one, name in _PERCEPTRON.items()
    },
}
"""The same of T5 and its kin, whose layers are blocks of layers."""

VISION: Final = re.compile(r"vision_tower|vision_model|visual\.|multi_modal_projector|qformer")

TENSOR: Final = re.compile(
    r"^(?P<stack>.*?)\.?(?P<list>layers|block)\.(?P<layer>\d+)\.(?P<module>[a-zA-Z_.0-9]+)"
    r"\.lora_(?P<side>[AB])(?:\.default)?\.weight$"
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where one matrix of an adapter belongs."""

    engine: str
    """llm, encoder or decoder."""

    layer: int
    module: str
    """TensorRT-LLM's name."""

    side: str
    """A: from the hidden state down to the rank. B: from the rank up to the output."""

    path: str
    """The module inside its stack of layers, by Hugging Face's name."""


def place_of(name: str, facts: ModelFacts) -> Place:
    """Return where a tensor of an adapter belongs; PermanentError: an engine cannot apply it."""
    found = TENSOR.match(name)
    if VISION.search(name):
        raise PermanentError(
            f"{name} changes the vision half, which engines cannot do at run time; expected"
            " an adapter of the language model only."
        )
    known, parts = MODULES, "layers"
    if found and found["list"] == "block":
        known, parts = BLOCK_MODULES, "block"
    module = known.get(found["module"]) if found else None
    if found is None or module is None:
        raise PermanentError(
            f"{name} is not a tensor that an engine can take from a LoRA; expected"
            f" ...{parts}.N.MODULE.lora_A.weight with one of {', '.join(sorted(known))}."
        )
    engine = "llm"
    if facts.encoder:
        engine = "encoder" if "encoder" in found["stack"].split(".") else "decoder"
    layer = int(found["layer"])
    return Place(engine, layer, module, found["side"], f"{parts}.{layer}.{found['module']}")


def expected_sizes(place: Place, facts: ModelFacts) -> tuple[int, int]:
    """Return the lengths of a module's input and output; PermanentError: there is no such layer."""
    stack: TextFacts | EncoderFacts = facts.text
    if place.engine == "encoder" and facts.encoder:
        stack = facts.encoder
    if place.layer >= stack.layers:
        raise PermanentError(
            f"The adapter has a layer {place.layer}, and the {place.engine} has {stack.layers}."
        )
    hidden, wide = stack.hidden_size, stack.intermediate_size
    heads = stack.attention_heads * stack.head_size
    pairs = stack.key_value_heads * stack.head_size if isinstance(stack, TextFacts) else heads
    source = facts.encoder.hidden_size if facts.encoder else hidden
    return {
        "attn_q": (hidden, heads),
        "attn_k": (hidden, pairs),
        "attn_v": (hidden, pairs),
        "attn_dense": (heads, hidden),
        "cross_attn_q": (hidden, heads),
        "cross_attn_k": (source, pairs),
        "cross_attn_v": (source, pairs),
        "cross_attn_dense": (heads, hidden),
        "mlp_h_to_4h": (hidden, wide),
        "mlp_gate": (hidden, wide),
        "mlp_4h_to_h": (wide, hidden),
    }[place.module]
