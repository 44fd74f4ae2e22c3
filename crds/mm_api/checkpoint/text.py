"""Dimensions of decoder-only language models, wherever a family keeps them.

A key that is left out means the default of the configuration class, not an error: the real
llava-1.5-7b has no hidden_size in its text_config at all.
"""

from collections.abc import Sequence
from typing import Any

from mm_api.checkpoint.values import Dimensions, JsonObject, Sizes, invalid, section
from mm_api.checkpoint.vision import image_token
from mm_api.documents.model_facts import TextFacts, VisionFacts

_SIZES = (
    *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
    *("vocab_size", "max_position_embeddings"),
)


def decoder_sizes(*sizes: int) -> dict[str, int]:
    """Return widths of states and perceptron, layers, heads, vocabulary and positions by key."""
    return dict(zip(_SIZES, sizes, strict=True))


_QWEN = decoder_sizes(4096, 22016, 32, 32, 151_936, 32768) | {"num_key_value_heads": 32}
TEXT_DEFAULTS: dict[str, dict[str, int]] = {
    "llama": decoder_sizes(4096, 11008, 32, 32, 32000, 2048),
    "mistral": decoder_sizes(4096, 14336, 32, 32, 32000, 131_072) | {"num_key_value_heads": 8},
    "qwen2": _QWEN,
    "qwen3": _QWEN | {"head_dim": 128},
    "qwen3_vl_text": _QWEN | {"head_dim": 128, "max_position_embeddings": 128000},
    "gemma3_text": decoder_sizes(2304, 9216, 26, 8, 262_208, 131_072)
    | {"num_key_value_heads": 4, "head_dim": 256},
    "opt": {
        "hidden_size": 768,
        "ffn_dim": 3072,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "vocab_size": 50272,
        "max_position_embeddings": 2048,
    },
}
"""Defaults of the configuration classes of transformers 5.23, by `text_config.model_type`. A text
model that is not here must name every key itself."""


def decoder_of(config: JsonObject, kinds: Sequence[str], expected: str = "") -> JsonObject:
    """Return text_config with its type, the first of `kinds` where it names none.

    Another type is refused (CheckpointError) with what is `expected`.
    """
    text = section(config, "text_config") or {}
    kind = text.get("model_type", kinds[0])
    if kind not in kinds:
        raise invalid(f"text_config.model_type is {kind!r}; expected {expected or kinds[0]}")
    return {"model_type": kind} | text


def text_facts(values: JsonObject, *, where: str = "text_config", **more: Any) -> TextFacts:
    """Return the dimensions of a text model; CheckpointError: `ConfigInvalid`."""
    kind = str(values.get("model_type", "llama"))
    size = Sizes(values, TEXT_DEFAULTS.get(kind, {}), where)
    hidden, heads, head_size = size.heads("hidden_size", "num_attention_heads")
    defaults = TEXT_DEFAULTS.get(kind, {})
    return TextFacts(
        hidden_size=hidden,
        intermediate_size=size("ffn_dim" if kind == "opt" else "intermediate_size"),
        layers=size("num_hidden_layers"),
        attention_heads=heads,
        key_value_heads=size("num_key_value_heads", defaults.get("num_key_value_heads", heads)),
        head_size=head_size,
        vocabulary_size=size("vocab_size"),
        max_position_embeddings=size("max_position_embeddings"),
        **more,
    )


def beside_tower(config: JsonObject, text: JsonObject, vision: VisionFacts | None) -> Dimensions:
    """Return the parts of a checkpoint whose decoder is beside a tower; CheckpointError as above.

    `text`: the section of the decoder, or `config` where there is none.
    """
    tied = bool(text.get("tie_word_embeddings", config.get("tie_word_embeddings", False)))
    where = "" if text is config else "text_config"
    facts = text_facts(text, where=where, tied_embeddings=tied)
    return Dimensions(facts, vision, image_token_id=image_token(config))
