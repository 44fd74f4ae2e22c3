"""Checkpoints as their publishers have them: in the layout that transformers wrote before 5.

python tools/published_layout.py CHECKPOINT COPY     of what transformers 5 has just written

Each version of transformers reads it, and so do TensorRT-LLM's converters and vLLM; what 5 writes
is read by 5 alone: others initialise towers at random, and scale no rotary positions.
"""

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file

TOWER = re.compile(
    r"(?<=vision_tower\.)(?=embeddings\.\w+_embedding\b|encoder\.layers\.|p(re|ost)_la|head\.)"
)
"""Where the module of CLIP's and SigLIP's towers was named once more; others' never was."""

PLAIN = {"default", "axial"}
NAMES_EVERY_ROTATION = {"mllama_text_model"}
"""`MllamaRotaryEmbedding` reads `rope_scaling["rope_type"]`, and all published ones have it."""


def published(checkpoint: Path, folder: Path) -> Path:
    """Copy a checkpoint that transformers 5 has written into a folder; return that."""
    shutil.copytree(checkpoint, folder)
    for path in folder.rglob("config.json"):
        config = as_published(json.loads(path.read_text()))
        path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    for path in folder.rglob("tokenizer_config.json"):
        text = path.read_text().replace('"TokenizersBackend"', '"PreTrainedTokenizerFast"')
        path.write_text(text)
    for path in folder.rglob("*.safetensors"):
        _rename(path, alone=path.parent.name == "vision_tower")
    return folder


def as_published(config: Any) -> Any:
    """Return a configuration with rotations and types where older versions look for them."""
    if isinstance(config, list):
        return [as_published(one) for one in config]
    if not isinstance(config, dict):
        return config
    found = {name: as_published(value) for name, value in config.items()}
    if "dtype" in found:
        found["torch_dtype"] = found.pop("dtype")
    if isinstance(rotation := found.pop("rope_parameters", None), dict):
        if "full_attention" in rotation:  # Gemma 3: one for each kind of layer
            found["rope_local_base_freq"] = rotation["sliding_attention"]["rope_theta"]
            rotation = rotation["full_attention"]
        if "rope_theta" in rotation:
            found["rope_theta"] = rotation.pop("rope_theta")
        # What scales nothing had no name then, except where the class reads one.
        plain = rotation.keys() <= {"rope_type"} and rotation.get("rope_type") in PLAIN
        if not plain or found.get("model_type") in NAMES_EVERY_ROTATION:
            found.setdefault("rope_scaling", rotation)
    return found


def _rename(path: Path, *, alone: bool) -> None:
    with safe_open(path, "pt") as file:
        weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
        metadata = file.metadata()
    prefix = "vision_model." if alone else ""
    renamed = {prefix + TOWER.sub("vision_model.", name): one for name, one in weights.items()}
    if renamed.keys() != weights.keys():
        save_file(renamed, path, metadata)


if __name__ == "__main__":
    published(Path(sys.argv[1]), Path(sys.argv[2]))
