"""A LLaVA whose images take much longer to encode than a token to decode: random weights.

The tiny model's do not, so nothing could stall. Here the tower is CLIP ViT-L's with larger patches,
0.3 billion parameters, and an image is 64 features only: a core spends more decoding steps on a
prompt than a GPU does, and prompts are not what is measured. Files are those of the tiny model with
larger shapes; the weights are random (seed 3), and the end token's row of the output matrix is
zero: the largest of 90 random logits is above it, so every answer has the length that was queried
for.
"""

import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from support.images import data_url
from support.tiny_llava import CHECKPOINT, END_ID, BuiltEngine, build_engine

SIDE = 224
PATCH = 28
FEATURES = (SIDE // PATCH) ** 2
POSITIONS = 1024
_VISION = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "image_size": SIDE,
    "patch_size": PATCH,
}
_TEXT = {
    "hidden_size": 512,
    "intermediate_size": 1408,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 64,
}


def build_middle_llava(folder: Path, batch: int) -> BuiltEngine:
    return build_engine(
        folder,
        write_middle_llava(folder / "checkpoint"),
        max_batch_size=batch,
        max_input_len=256,
        max_seq_len=POSITIONS,
        max_multimodal_len=batch * 2 * FEATURES,
    )


def write_middle_llava(directory: Path) -> Path:
    import torch  # noqa: PLC0415 - seconds; `--help` need not pay them
    from transformers import LlavaConfig, LlavaForConditionalGeneration  # noqa: PLC0415

    shutil.copytree(CHECKPOINT, directory, ignore=shutil.ignore_patterns("*.safetensors"))
    config: dict[str, Any] = json.loads((CHECKPOINT / "config.json").read_text())
    config["vision_config"] |= _VISION
    config["text_config"] |= _TEXT
    config["image_seq_length"] = FEATURES
    torch.manual_seed(3)
    model = LlavaForConditionalGeneration(LlavaConfig(**config))
    with torch.no_grad():
        model.lm_head.weight[END_ID] = 0
    model.save_pretrained(directory)
    processor = directory / "processor_config.json"
    outer: dict[str, Any] = json.loads(processor.read_text())
    outer["patch_size"] = PATCH
    _resize(outer["image_processor"])
    processor.write_text(json.dumps(outer))
    inner: dict[str, Any] = json.loads((directory / "preprocessor_config.json").read_text())
    _resize(inner)
    (directory / "preprocessor_config.json").write_text(json.dumps(inner))
    return directory


def _resize(settings: dict[str, Any]) -> None:
    settings["crop_size"] = {"height": SIDE, "width": SIDE}
    settings["size"] = {"shortest_edge": SIDE}


def new_image(number: int) -> str:
    """Return noise as a data URL; no two numbers give the same."""
    pixels = np.random.default_rng(number).integers(0, 255, (SIDE, SIDE, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG")
    return data_url(file.getvalue(), "image/jpeg")
