"""Checkpoints of chosen sizes with random weights: tokenizer and processor of an example's.

    python bench/gpu/checkpoints.py --folder /tmp/checkpoints --shapes 1.3b 7b

writes them for several benches. The tokenizer gets a word for each further token of a vocabulary,
so that streams have a piece of text for each token. The rows of the output matrix are zero for the
end token, so that answers have the length that is requested, and for the other special tokens. Were
they zero for all but 91 of 32,064, a step's logits would have a twentieth of their standard
deviation, which is what evaluations measure distances in.
"""

import argparse
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gpu_record  # noqa: F401 - makes the tests' helpers importable

from support.tiny_llava import CHECKPOINT, END_ID

QWEN = CHECKPOINT.parents[1] / "tiny-qwen2-5-vl" / "checkpoint"
PATCH = 14
VOCABULARY = 32_064
POSITIONS = 4096
TOKENS = 91
"""Of tiny-llava's tokenizer."""

MOST_PIXELS = 1280 * 28 * 28
"""Of an image of Qwen2.5-VL: 1280 x 720 keeps its size."""


@dataclass(frozen=True)
class Shape:
    """Dimensions of one checkpoint."""

    layers: int
    hidden: int
    heads: int
    inner: int
    side: int = 336
    vision_layers: int = 24
    vision_hidden: int = 1024
    dtype: str = "bfloat16"
    vocabulary: int = VOCABULARY
    key_value_heads: int | None = None
    """None: as many as heads."""

    example: Path = CHECKPOINT


SHAPES = {
    "toy": Shape(2, 64, 2, 128, 56, 2, 128, "float32", 91),
    "wide": Shape(1, 4096, 32, 1024, 336, 2, 64, "float16", 91),
    "tower": Shape(1, 4096, 32, 1024, dtype="float32", vocabulary=91),
    "1.3b": Shape(24, 2048, 16, 5504),
    "7b": Shape(32, 4096, 32, 11008),
    "bigg": Shape(32, 2048, 16, 5504, 448, 48, 1664),
    "qwen-toy": Shape(2, 64, 2, 128, 0, 2, 64, "float32", 91, 1, QWEN),
    "qwen-7b": Shape(28, 3584, 28, 18944, 0, 32, 1280, "bfloat16", 152_064, 4, QWEN),
}
"""`wide` has the prompt table of the 7 B model (4,718,592 bytes in 16 bits) and hardly computes;
`tower` has the vision half of the large ones. `bigg` has the 48 layers of ViT-bigG/14 (1.6 B) for
the 1,024 patches of an image, beside 1.6 B: encoding takes at least as long as the prompt. Those of
Qwen2.5-VL take images as they are."""


def write_checkpoint(directory: Path, name: str, *, device: str) -> Path:
    """Write a checkpoint and return its directory.

    Args:
        directory: that does not exist.
        name: of a shape.
        device: where torch makes the weights: billions take minutes on a processor.
    """
    import torch  # noqa: PLC0415 - seconds
    from transformers import AutoConfig, AutoModelForImageTextToText  # noqa: PLC0415

    shape = SHAPES[name]
    shutil.copytree(shape.example, directory, ignore=shutil.ignore_patterns("*.safetensors"))
    config: dict[str, Any] = json.loads((directory / "config.json").read_text())
    special = _special(directory)
    config["text_config"] |= {
        "hidden_size": shape.hidden,
        "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.key_value_heads or shape.heads,
        "head_dim": shape.hidden // shape.heads,
        "max_position_embeddings": POSITIONS,
        "vocab_size": shape.vocabulary,
    }
    if shape.example == QWEN:
        _size_qwen(config, shape)
    else:
        _size_llava(config, shape)
    (directory / "config.json").write_text(json.dumps(config | {"dtype": shape.dtype}))
    torch.manual_seed(3)
    torch.set_default_dtype(getattr(torch, shape.dtype))
    with torch.device(device):
        sized = AutoConfig.from_pretrained(directory)
        model = AutoModelForImageTextToText.from_config(sized)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        model.lm_head.weight[special] = 0
    model.save_pretrained(directory, max_shard_size="4GB")
    torch.set_default_dtype(torch.float32)
    del model
    _add_words(directory / "tokenizer.json", shape.vocabulary)
    for file in ("processor_config.json", "preprocessor_config.json"):
        if (directory / file).exists():
            settings: dict[str, Any] = json.loads((directory / file).read_text())
            inner = settings.get("image_processor", settings)
            inner |= _processor(shape)
            (directory / file).write_text(json.dumps(settings))
    return directory


def _size_llava(config: dict[str, Any], shape: Shape) -> None:
    config["vision_config"] |= {
        "hidden_size": shape.vision_hidden,
        "intermediate_size": 4 * shape.vision_hidden,
        "num_hidden_layers": shape.vision_layers,
        "num_attention_heads": max(1, shape.vision_hidden // 64),
        "image_size": shape.side,
        "patch_size": PATCH,
    }
    config["image_seq_length"] = (shape.side // PATCH) ** 2


def _size_qwen(config: dict[str, Any], shape: Shape) -> None:
    """Attention spans the image in each eighth layer of the tower, and 8 patches in the others."""
    text, half = config["text_config"], shape.hidden // shape.heads // 2
    text |= {"layer_types": ["full_attention"] * shape.layers, "max_window_layers": shape.layers}
    text["rope_scaling"]["mrope_section"] = [half - 2 * (3 * half // 8), *[3 * half // 8] * 2]
    config["vision_config"] |= {
        "depth": shape.vision_layers,
        "hidden_size": shape.vision_hidden,
        "intermediate_size": 171 * shape.vision_hidden // 64,
        "num_heads": max(1, shape.vision_hidden // 80),
        "out_hidden_size": shape.hidden,
        "window_size": 8 * PATCH,
        "fullatt_block_indexes": list(range(7, shape.vision_layers, 8)) or [1],
    }


def _processor(shape: Shape) -> dict[str, Any]:
    if shape.example == QWEN:
        return {"min_pixels": 4 * 28 * 28, "max_pixels": MOST_PIXELS}
    side = shape.side
    return {"crop_size": {"height": side, "width": side}, "size": {"shortest_edge": side}}


def _special(directory: Path) -> list[int]:
    tokenizer: dict[str, Any] = json.loads((directory / "tokenizer.json").read_text())
    return sorted({END_ID, *(one["id"] for one in tokenizer["added_tokens"])})


def _add_words(file: Path, vocabulary: int) -> None:
    tokenizer: dict[str, Any] = json.loads(file.read_text())
    words = tokenizer["model"]["vocab"]
    words |= {f"word{at}": at for at in range(len(words), vocabulary)}
    file.write_text(json.dumps(tokenizer))


def made(folder: Path, name: str, *, device: str) -> Path:
    """Return the checkpoint of a shape in a folder, written unless it is there."""
    directory = folder / name
    return directory if directory.is_dir() else write_checkpoint(directory, name, device=device)


def main() -> None:
    """Write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--shapes", nargs="+", default=["1.3b", "7b"], choices=SHAPES)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.shapes:
        print(made(options.folder, name, device=options.device), flush=True)


if __name__ == "__main__":
    main()
