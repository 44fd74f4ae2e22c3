"""Engines with one wrong part and a manifest that fits: what no digest finds."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import onnx
from onnx import numpy_helper
from safetensors.torch import load_file, save_file

from mm_api.documents.engine_manifest import MANIFEST_NAME, EngineFile, EngineManifest
from mm_api.documents.evaluation import EVALUATION_NAME, Evaluation
from mm_runtime.base.durable import sha256
from support.tiny_llava import BuiltEngine


def damaged(engine: BuiltEngine, folder: Path, damage: Callable[[Path], Path]) -> BuiltEngine:
    copy = folder / engine.directory.name
    shutil.copytree(engine.directory, copy)
    changed = damage(copy)
    path = copy / MANIFEST_NAME
    manifest = EngineManifest.from_json(path.read_bytes())
    name = changed.relative_to(copy).as_posix()
    size, digest = changed.stat().st_size, sha256(changed)
    files = [
        EngineFile(path=name, size=size, sha256=digest) if one.path == name else one
        for one in manifest.files
    ]
    assert files != manifest.files, f"{name} is no file of the manifest, or is as before"
    path.write_text(manifest.model_copy(update={"files": files}).to_json())
    return BuiltEngine(copy, engine.serving)


def weights(engine: Path) -> Path:
    return negate(next(iter(sorted((engine / "llm").glob("*.safetensors")))), "down_proj")


def adapter(engine: Path) -> Path:
    """Turn the sign of half of each product of an adapter, and so of what it adds."""
    return negate(next(iter(sorted((engine / "adapters").rglob("*.safetensors")))), "lora_B")


def projector(engine: Path) -> Path:
    """Turn the sign of the last matrix before the features, which is the projector's."""
    path = engine / "vision" / "model.onnx"
    model = onnx.load(path)
    (made,) = (node for node in model.graph.node if model.graph.output[0].name in node.output)
    by_name = {one.name: one for one in model.graph.initializer}
    matrices = [one for one in by_name.values() if len(one.dims) == 2]
    last = matrices[-1]
    assert made.op_type in {"Add", "Gemm", "MatMul"}, made.op_type
    last.CopyFrom(numpy_helper.from_array(-numpy_helper.to_array(last), last.name))
    onnx.save(model, path)
    return path


def tokenizer(engine: Path) -> Path:
    """Exchange the ids of two tokens, one of them of the first answer."""
    evaluation = Evaluation.from_json((engine / EVALUATION_NAME).read_bytes())
    one, other = (step.candidates[0].token for step in evaluation.prompts[0].steps[:2])
    return exchange(engine / "processor" / "tokenizer.json", one, other)


def exchange(path: Path, one: int, other: int) -> Path:
    """Exchange the ids of two tokens in a tokenizer's file."""
    content = json.loads(path.read_text())
    exchanged = {one: other, other: one}
    vocabulary = content["model"]["vocab"]
    content["model"]["vocab"] = {
        text: exchanged.get(number, number) for text, number in vocabulary.items()
    }
    path.write_text(json.dumps(content))
    return path


def negate(path: Path, part: str) -> Path:
    tensors = load_file(path)
    names = sorted(name for name in tensors if part in name)
    assert names, sorted(tensors)
    for name in names:
        tensors[name] = -tensors[name]
    save_file(tensors, path, metadata={"format": "pt"})
    return path
