"""A checkpoint that is right on the outside: real headers and configs, a few zeros for weights.

Inspect reads nothing else, so its tests need no torch.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import Any

from mm_api.checkpoint import CheckpointError, Dimensions
from mm_api.families import FAMILIES
from mm_api.families.detection import resolve

LLAVA_CONFIG: Mapping[str, Any] = {
    "architectures": ["LlavaForConditionalGeneration"],
    "model_type": "llava",
    "image_token_index": 7,
    "text_config": {
        "model_type": "llama",
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 16,
        "max_position_embeddings": 128,
    },
    "vision_config": {
        "hidden_size": 16,
        "num_hidden_layers": 3,
        "image_size": 28,
        "patch_size": 14,
    },
    "vision_feature_layer": -2,
    "vision_feature_select_strategy": "default",
}

ITEM_BYTES = {"F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "U8": 1}


def write_safetensors(path: Path, tensors: Mapping[str, tuple[str, Sequence[int]]]) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (dtype, shape) in tensors.items():
        begin = end
        size = ITEM_BYTES[dtype]
        for length in shape:
            size *= length
        end += size
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(file.tell() + end)  # zeros that take no space: some have gigabytes


Tensors = dict[str, tuple[str, Sequence[int]]]


def described(dimensions: Dimensions, dtype: str = "F16") -> Tensors:
    """Return a weight of each layer that configurations describe, embedding and output matrix."""
    text, encoder, vision = dimensions.text, dimensions.encoder, dimensions.vision
    ends = (text.vocabulary_size, text.hidden_size)
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(
        ("model.embed_tokens.weight", "lm_head.weight"), ends
    )
    parts = {
        "model.decoder" if encoder else "model.language_model": text,
        "model.encoder": encoder,
        "model.vision_tower": vision,
    }
    for name, part in parts.items():
        for layer in range(part.layers if part else 0):
            assert part is not None
            shapes[f"{name}.layers.{layer}.norm.weight"] = (part.hidden_size,)
    for layer in range(text.cross_attention_layers or 0):
        shapes[f"model.language_model.layers.{layer}.cross_attn_attn_gate"] = (1,)
    return {name: (dtype, shape) for name, shape in shapes.items()}


def write_words(folder: Path, tokens: Mapping[str, int], template: str = "") -> None:
    """Write a tokenizer of few tokens, and a chat template."""
    vocabulary = {"<unk>": 0, "</s>": 2, **tokens}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added = [
        {"id": id_, "content": text, "special": True, **flags} for text, id_ in vocabulary.items()
    ]
    parts = ("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder")
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"}
    content = {"version": "1.0", **dict.fromkeys(parts), "added_tokens": added, "model": model}
    (folder / "tokenizer.json").write_text(json.dumps(content))
    named = {"eos_token": "</s>", **({"chat_template": template} if template else {})}
    (folder / "tokenizer_config.json").write_text(json.dumps(named))


CHAT = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }} {% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


def write_checkpoint(directory: Path, config: Mapping[str, Any] = LLAVA_CONFIG) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config))
    image = config.get("image_token_index", LLAVA_CONFIG["image_token_index"])
    write_words(directory, {"<image>": image}, CHAT)
    (directory / "preprocessor_config.json").write_text('{"do_resize": true}')
    write_safetensors(directory / "model.safetensors", hollow_tensors(config))
    return directory


def hollow_tensors(config: Mapping[str, Any] = LLAVA_CONFIG) -> Tensors:
    known: Tensors = {}
    with suppress(CheckpointError):  # the test is about config.json
        known = described(FAMILIES[resolve(dict(config), None)].read(dict(config), {}))
    return known | {"a": ("F16", (8, 11)), "b": ("F32", (8,))}


LLAVA_PARAMETERS = sum(prod(shape) for _, shape in hollow_tensors().values())


def shard(directory: Path) -> None:
    (directory / "model.safetensors").unlink()
    first, second = (f"model-0000{number}-of-00002.safetensors" for number in (1, 2))
    tensors = hollow_tensors()
    last = {"b": tensors.pop("b")}
    write_safetensors(directory / first, tensors)
    write_safetensors(directory / second, last)
    index = {"metadata": {}, "weight_map": dict.fromkeys(tensors, first) | {"b": second}}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
