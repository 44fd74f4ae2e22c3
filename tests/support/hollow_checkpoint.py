"""A checkpoint that is right on the outside: real headers and configs, a few zeros for weights.

Inspect reads nothing else, so its tests need no torch.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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

ITEM_BYTES = {"F32": 4, "F16": 2, "BF16": 2}


def write_safetensors(path: Path, tensors: Mapping[str, tuple[str, Sequence[int]]]) -> None:
    """Write a safetensors file of zeros: tensor name -> (dtype, shape)."""
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
        file.truncate(file.tell() + end)  # zeros that take no room: some have gigabytes


def write_checkpoint(directory: Path, config: Mapping[str, Any] = LLAVA_CONFIG) -> Path:
    """Write a checkpoint with 88 float16 and 8 float32 parameters; return its directory."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (directory / name).write_text("{}")
    (directory / "preprocessor_config.json").write_text('{"do_resize": true}')
    write_safetensors(directory / "model.safetensors", {"a": ("F16", (8, 11)), "b": ("F32", (8,))})
    return directory


def shard(directory: Path) -> None:
    """Replace the single weight file by two shards and their index."""
    (directory / "model.safetensors").unlink()
    first, second = (f"model-0000{number}-of-00002.safetensors" for number in (1, 2))
    write_safetensors(directory / first, {"a": ("F16", (8, 11))})
    write_safetensors(directory / second, {"b": ("F32", (8,))})
    index = {"metadata": {"total_size": 208}, "weight_map": {"a": first, "b": second}}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
