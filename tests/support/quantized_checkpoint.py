"""Qwen2.5-VL as Model-Optimizer exports it in NVFP4 or FP8: names and shapes of a real one, small.

The layout is that of NVIDIA/Model-Optimizer's exports (modelopt/torch/export): packed `weight`,
`weight_scale` in FP8 for 16 numbers, `weight_scale_2` and `input_scale` in FP32; the tower and the
output matrix as they were trained. Weights are a hole in the file: inspections read headers only.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from support.hollow_checkpoint import CHAT, write_safetensors, write_words
from support.model_configs import folder_of

Header = dict[str, tuple[str, list[int]]]

TOWER_LAYERS = 32
TOWER = TOWER_LAYERS * 31_250
"""Numbers of the tower, as one tensor a layer."""


def matrices(config: Mapping[str, Any]) -> Iterator[tuple[str, int, int]]:
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    keys = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    for layer in range(config["num_hidden_layers"]):
        where = f"model.layers.{layer}"
        yield f"{where}.self_attn.q_proj", hidden, hidden
        yield f"{where}.self_attn.k_proj", keys, hidden
        yield f"{where}.self_attn.v_proj", keys, hidden
        yield f"{where}.self_attn.o_proj", hidden, hidden
        yield f"{where}.mlp.gate_proj", inner, hidden
        yield f"{where}.mlp.up_proj", inner, hidden
        yield f"{where}.mlp.down_proj", hidden, inner


def tensors(config: Mapping[str, Any], kind: str, kept: str = "") -> Header:
    """Return name -> dtype and shape; modules whose name ends with `kept` are left as they were."""
    hidden, words = config["hidden_size"], config["vocab_size"]
    found: Header = {
        "model.embed_tokens.weight": ("BF16", [words, hidden]),
        "lm_head.weight": ("BF16", [words, hidden]),
        "model.norm.weight": ("BF16", [hidden]),
    }
    for layer in range(TOWER_LAYERS):
        found[f"visual.blocks.{layer}.norm1.weight"] = ("BF16", [TOWER // TOWER_LAYERS])
    for layer in range(config["num_hidden_layers"]):
        keys = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
        for name, size in (("q", hidden), ("k", keys), ("v", keys)):
            found[f"model.layers.{layer}.self_attn.{name}_proj.bias"] = ("BF16", [size])
        for name in ("input_layernorm", "post_attention_layernorm"):
            found[f"model.layers.{layer}.{name}.weight"] = ("BF16", [hidden])
        found[f"model.layers.{layer}.self_attn.k_proj.k_scale"] = ("F32", [])
        found[f"model.layers.{layer}.self_attn.v_proj.v_scale"] = ("F32", [])
    for name, outputs, inputs in matrices(config):
        if kept and name.endswith(kept):
            found[f"{name}.weight"] = ("BF16", [outputs, inputs])
            continue
        if kind == "NVFP4":
            found[f"{name}.weight"] = ("U8", [outputs, inputs // 2])
            found[f"{name}.weight_scale"] = ("F8_E4M3", [outputs, inputs // 16])
            found[f"{name}.weight_scale_2"] = ("F32", [])
        else:
            found[f"{name}.weight"] = ("F8_E4M3", [outputs, inputs])
            found[f"{name}.weight_scale"] = ("F32", [])
        found[f"{name}.input_scale"] = ("F32", [])
    return found


def settings(kind: str, cache: str | None = "FP8", **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "quant_algo": kind,
        "kv_cache_quant_algo": cache,
        "exclude_modules": ["lm_head", "visual*"],
        **({"group_size": 16} if kind == "NVFP4" else {}),
        **more,
    }
    return {"producer": {"name": "modelopt", "version": "0.37.0"}, "quantization": found}


def quantized_qwen(
    folder: Path, kind: str = "NVFP4", *, cache: str | None = "FP8", kept: str = "", **more: Any
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder_of("qwen2-5-vl").iterdir():
        if path.is_file() and path.suffix == ".json" and "index" not in path.name:
            (folder / path.name).write_bytes(path.read_bytes())
    config = json.loads((folder / "config.json").read_text())
    stated = {"quant_method": "modelopt", "quant_algo": kind}
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": stated}))
    write_words(folder, {"<|image_pad|>": config["image_token_id"]}, CHAT)
    text = config.get("text_config", config)
    write_safetensors(folder / "model.safetensors", tensors(text, kind, kept))
    (folder / "hf_quant_config.json").write_text(json.dumps(settings(kind, cache, **more)))
    return folder
