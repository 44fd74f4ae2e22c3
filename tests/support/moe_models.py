"""Models with experts that `generic` reads: configurations, and facts as of an inspection."""

from typing import Any

from mm_api.documents.model_facts import ModelFacts
from mm_api.families import FAMILIES
from support.model_configs import facts_of

GENERIC = FAMILIES["generic"]
SCOUT = {"text_config": {"num_hidden_layers": 48, "num_local_experts": 16}}
"""Llama 4 Scout: 109 billion weights."""

MAVERICK = {"text_config": {"num_local_experts": 128, "interleave_moe_layer_step": 2}}
"""Llama 4 Maverick: 400 billion, experts in every other layer."""

QWEN3 = {
    "tie_word_embeddings": False,
    "text_config": {
        "tie_word_embeddings": False,
        "hidden_size": 2048,
        "num_hidden_layers": 48,
        "num_attention_heads": 32,
        "head_dim": 128,
        "num_key_value_heads": 4,
        "intermediate_size": 6144,
        "moe_intermediate_size": 768,
        "num_experts": 128,
        "num_experts_per_tok": 8,
    },
}
"""Qwen3-VL-30B-A3B."""

MIXED = {
    "tie_word_embeddings": False,
    "text_config": {
        "tie_word_embeddings": False,
        "num_hidden_layers": 6,
        "mlp_only_layers": [1],
        "decoder_sparse_step": 2,
        "num_experts": 8,
    },
}

THIN = {"text_config": {"moe_intermediate_size": 1400, "num_hidden_layers": 2}}

LLAMA4 = ("llama4", "Llama4ForConditionalGeneration")
QWEN3_VL = ("qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration")

CASES: dict[str, tuple[tuple[str, str], dict[str, Any], int]] = {
    "scout": (LLAMA4, SCOUT, 108_225_039_360),
    "maverick": (LLAMA4, MAVERICK, 401_167_027_200),
    "qwen3": (QWEN3_VL, QWEN3, 31_099_071_728),
    "mixed": (QWEN3_VL, MIXED, 1_566_827_248),
    "thin": (QWEN3_VL, THIN, 2_255_281_904),
}
"""Name -> model_type and class, configuration, weights as the class of transformers counts them."""


def facts_of_experts(name: str) -> ModelFacts:
    (kind, architecture), config, parameters = CASES[name]
    read = GENERIC.read({"model_type": kind} | config, {})
    return facts_of("generic").model_copy(
        update={
            "architecture": architecture,
            "parameters": parameters,
            "text": read.text,
            "vision": read.vision,
        }
    )
