"""build_multimodal_engine.py (until 0.18 build_visual_engine.py): the vision engine."""

import json
from pathlib import Path
from typing import Any

from arguments import VERSION, parse, refuse
from files import read_json, write_engine

MODELS = {
    "blip2": "blip-2",
    "llava": "llava",
    "llava_next": "llava_next",
    "llava_onevision": "llava_onevision",
    "vila": "llava_llama",
    "mllama": "mllama",
    "qwen2_vl": "qwen2_vl",
}
"""--model_type -> model_type of config.json."""

TWO_NAMES_UNTIL = (0, 18)
"""Until then Triton loads MLLAMA's engine under another name."""


def main(program: str) -> None:
    arguments = parse(program)
    if arguments.model_type is None or arguments.model_path is None:
        refuse("--model_type and --model_path must be given")
    source = Path(arguments.model_path)
    complete = read_json(source / "config.json")
    expected = MODELS.get(arguments.model_type)
    if complete.get("model_type") != expected:
        refuse(
            f"{source} is a {complete.get('model_type')}; {arguments.model_type} is a {expected}"
        )
    if arguments.model_type == "vila" and not Path(arguments.vila_path or "?").is_dir():
        refuse("VILA's source is needed: --vila_path")
    target = Path(arguments.output_dir or f"tmp/trt_engines/{source.name}/multimodal_encoder")
    target.mkdir(parents=True, exist_ok=True)
    config = _config(arguments.model_type, arguments.max_batch_size or 4, complete)
    (target / "config.json").write_text(json.dumps(config))
    print(f"Exporting onnx to {target}/onnx/model.onnx\nBuilding TRT engine 100%")
    names = ["model.engine"]
    if arguments.model_type == "mllama" and _release() <= TWO_NAMES_UNTIL:
        names.append("visual_encoder.engine")
    for name in names:
        write_engine(target / name, json.dumps(config))
    if arguments.model_type in {"llava_next", "llava_onevision"}:
        write_engine(target / "image_newlines.safetensors", "newlines")


def _config(kind: str, batch: int, complete: dict[str, Any]) -> dict[str, Any]:
    text = complete.get("text_config") or complete.get("llm_cfg") or complete
    written = kind
    if kind == "blip2":
        written = f"blip2-{text.get('model_type', 'opt')}"
    return {
        "builder_config": {
            "name": kind,
            "precision": "bfloat16" if kind == "mllama" else "float16",
            "model_type": written,
            "max_batch_size": batch,
            "output_shape": [batch, -1, text.get("hidden_size") or text.get("d_model", 4096)],
        }
    }


def _release() -> tuple[int, int]:
    major, minor = VERSION.split(".")[:2]
    return int(major), int(minor)
