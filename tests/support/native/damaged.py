"""Native engines with one wrong part: their files name a damaged copy of the Reference engine."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import onnx
from onnx import numpy_helper

from support import damaged_engines


def weights(engine: Path) -> Path:
    return _pointing(engine / "llm" / "rank0.engine", "reference", damaged_engines.weights)


def adapter(engine: Path) -> Path:
    return _pointing(engine / "llm" / "rank0.engine", "reference", damaged_engines.adapter)


def projector(engine: Path) -> Path:
    (file,) = engine.glob("*/model.engine")
    return _pointing(file, "onnx", damaged_engines.projector)


def blind(engine: Path) -> Path:
    (file,) = engine.glob("*/model.engine")
    return _pointing(file, "onnx", _blinded)


def tokenizer(engine: Path) -> Path:
    return damaged_engines.tokenizer(engine)


def _blinded(engine: Path) -> Path:
    """Make the last matrix, which is the projector's, zero: what is left is its bias."""
    path = engine / "vision" / "model.onnx"
    model = onnx.load(path)
    *_, last = (one for one in model.graph.initializer if len(one.dims) == 2)
    last.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(last) * 0, last.name))
    onnx.save(model, path)
    return path


def _pointing(file: Path, name: str, damage: Callable[[Path], Path]) -> Path:
    """Let an engine's file name a damaged copy of what it named."""
    content = json.loads(file.read_text())
    named = Path(content[name])
    inside = named.parents[1] if named.is_file() else named
    copy = file.parents[2] / "damaged-reference"
    shutil.copytree(inside, copy)
    damage(copy)
    content[name] = str(copy / named.relative_to(inside))
    file.write_text(json.dumps(content))
    return file
