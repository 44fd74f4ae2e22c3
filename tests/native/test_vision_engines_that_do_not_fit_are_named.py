"""What is wrong with an image or a vision engine is said when it is loaded, or with the shape."""

import importlib
import inspect
import json
import sys
from collections.abc import Iterator
from hashlib import sha256
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper

from mm_api.documents.engine_manifest import EngineFile
from mm_api.documents.model_facts import VisionFacts
from mm_api.families.image_layouts.layout import SQUARE, TILES
from mm_runtime.base import manifest as manifests
from mm_runtime.errors import EngineCorruptError
from mm_runtime.serving.device import GpuUnusableError
from mm_runtime.serving.encode.vision.tensorrt_open import open_tensorrt
from mm_runtime.serving.errors import is_out_of_memory
from mm_runtime.serving.gpu_guard import guard_of
from support.documents import FACTS
from support.native import image
from support.native_engines import native_engine

SIDE, ROWS, HIDDEN = 28, 4, 8
RUNNER = "mm_runtime.serving.encode.vision.tensorrt_runner"
PROFILE = [[1, 3, SIDE, SIDE], [1, 3, SIDE, SIDE], [2, 3, SIDE, SIDE]]
VISION = FACTS.vision or VisionFacts.model_construct()
BINDINGS = json.loads((image.HERE / "tensorrt_bindings.json").read_text())
"""Of the real module: version -> numbers and parameters."""


def write_tower(path: Path) -> None:
    """Write a graph that gives as many rows as a real tower, all of the pixels' mean."""
    ones = numpy_helper.from_array(np.ones((1, ROWS, HIDDEN), np.float32), "ones")
    last = numpy_helper.from_array(np.array([2, 3], np.int64), "last")
    channels = numpy_helper.from_array(np.array([1], np.int64), "channels")
    graph = helper.make_graph(
        [
            helper.make_node("ReduceMean", ["pixel_values", "last"], ["means"], keepdims=0),
            helper.make_node("ReduceMean", ["means", "channels"], ["mean"], keepdims=1),
            helper.make_node("Unsqueeze", ["mean", "channels"], ["one"]),
            helper.make_node("Mul", ["one", "ones"], ["features"]),
        ],
        "tower",
        [helper.make_tensor_value_info("pixel_values", 1, ["batch", 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("features", 1, ["batch", ROWS, HIDDEN])],
        [ones, last, channels],
    )
    opset = helper.make_opsetid("", 18)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=9), str(path))


@pytest.fixture(name="tensorrt")
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(Path(image.HERE) / "packages"))
    yield importlib.import_module("tensorrt")
    for name in ("tensorrt", RUNNER):
        sys.modules.pop(name, None)


def write_engine(folder: Path, **changes: Any) -> None:
    """Write a vision engine of squares; `changes` replace what it says."""
    model = folder / "model.onnx"
    write_tower(model)
    built = {
        "tensorrt": "10.10.0.31",
        "onnx": str(model),
        "kind": "pixels",
        "hidden": HIDDEN,
        "rows": ROWS,
        "inputs": {"input": {"dtype": "HALF", "profile": PROFILE}},
        "output": {"dtype": "HALF"},
    }
    (folder / "model.engine").write_text(json.dumps(built | changes))


def test_an_image_without_tensorrt(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no Python module tensorrt.*tritonserver"):
        open_tensorrt(tmp_path, SQUARE, VISION)


@pytest.mark.usefixtures("tensorrt")
def test_an_engine_of_another_version(tmp_path: Path) -> None:
    write_engine(tmp_path, tensorrt="10.9.0.34")
    with pytest.raises(ValueError, match=r"TensorRT 10\.10\.0\.31 cannot load this engine"):
        open_tensorrt(tmp_path, SQUARE, VISION)


def test_a_process_without_a_gpu(
    tensorrt: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where CUDA does not start, the constructor gets a null pointer; the log has the reason."""
    write_engine(tmp_path)
    monkeypatch.setattr(tensorrt.MACHINE, "driver", False)
    with pytest.raises(GpuUnusableError, match=r"TensorRT 10\.10\.0\.31 finds no GPU.*error: 35"):
        open_tensorrt(tmp_path, SQUARE, VISION)


def test_a_gpu_that_torch_does_not_see(
    tensorrt: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine on a GPU is never given addresses of the host."""
    write_engine(tmp_path)
    on_gpu = tensorrt.TensorLocation.DEVICE
    monkeypatch.setattr(tensorrt.ICudaEngine, "get_tensor_location", lambda *_: on_gpu)
    with pytest.raises(GpuUnusableError, match="torch cannot give it tensors"):
        open_tensorrt(tmp_path, SQUARE, VISION)


@pytest.mark.parametrize(
    ("lacks", "words"),
    [("weights_bytes", "no memory for /"), ("context_bytes", "no memory for the largest images")],
)
def test_a_gpu_without_memory(
    lacks: str, words: str, tensorrt: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TensorRT gives no engine, or no context; either counts as a full GPU."""
    write_engine(tmp_path, **{lacks: 2})
    monkeypatch.setattr(tensorrt.MACHINE, "free_bytes", 1)
    with pytest.raises(RuntimeError, match=words) as caught:
        open_tensorrt(tmp_path, SQUARE, VISION)
    assert is_out_of_memory(caught.value)


def test_a_gpu_that_is_lost(
    tensorrt: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The failed run says what TensorRT wrote, which stands on stderr, too."""
    write_engine(tmp_path)
    runner = open_tensorrt(tmp_path, SQUARE, VISION)
    monkeypatch.setattr(tensorrt.MACHINE, "driver", False)
    with pytest.raises(RuntimeError, match="an illegal access") as caught:
        runner({"pixel_values": np.ones((1, 3, SIDE, SIDE), np.float32)})
    assert "[TRT] Error Code 1: Cuda Runtime (an illegal access)" in capfd.readouterr().err
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: _raise(caught.value))
    assert guard_of("CUDA").lost(RuntimeError("any"))


def _raise(error: Exception) -> None:
    raise error


@pytest.mark.usefixtures("tensorrt")
def test_damage_is_found_by_its_digest_alone(tmp_path: Path) -> None:
    """TensorRT loads an engine whose middle is zeros; one that is cut it refuses."""
    write_engine(tmp_path, weights="w" * 999)
    file = tmp_path / "model.engine"
    written = file.read_bytes()
    listed = EngineFile(path=file.name, size=len(written), sha256=sha256(written).hexdigest())
    file.write_bytes(written.replace(b"w" * 64, bytes(64), 1))
    open_tensorrt(tmp_path, SQUARE, VISION)
    engine = native_engine("llava")[0].model_copy(update={"files": [listed]})
    with pytest.raises(EngineCorruptError, match=r"model\.engine"):
        manifests.verify(tmp_path, engine)
    file.write_bytes(written[:100])
    with pytest.raises(ValueError, match=r"another version.*Serialization"):
        open_tensorrt(tmp_path, SQUARE, VISION)


@pytest.mark.parametrize("version", [one for one in BINDINGS if one != "source"])
def test_the_stand_in_has_nothing_that_the_real_module_lacks(
    tensorrt: ModuleType, version: str
) -> None:
    """Numbers of enumerations, and parameters by their names and order."""
    real, found = BINDINGS[version]["parameters"], {}
    for kind in ("ILogger", "Logger", "Runtime", "ICudaEngine", "IExecutionContext"):
        for name, one in vars(getattr(tensorrt, kind)).items():
            called, path = getattr(one, "fget", one), f"{kind}.{name}"
            if inspect.isfunction(called) and (path in real or name[0] != "_"):
                found[path] = list(inspect.signature(called).parameters)[1:]
    assert found == {path: real[path][: len(given)] for path, given in found.items()}
    for path, numbers in BINDINGS[version]["numbers"].items():
        own = attrgetter(path)(tensorrt).__members__
        assert {name: one.value for name, one in own.items()}.items() <= numbers.items()


@pytest.mark.usefixtures("tensorrt")
def test_a_batch_that_it_was_not_built_for(tmp_path: Path) -> None:
    """What came, and what the engine takes; one that fits is run."""
    write_engine(tmp_path)
    runner = open_tensorrt(tmp_path, SQUARE, VISION)
    ones = np.ones((3, 3, SIDE, SIDE), np.float32)
    with pytest.raises(ValueError, match=r"got shape \[3, 3, 28, 28\].*\[2, 3, 28, 28\]"):
        runner({"pixel_values": ones})
    features = runner({"pixel_values": ones[:2]})
    assert (features.shape, features.dtype) == ((2, ROWS, HIDDEN), np.float32)
    assert np.array_equal(features, np.ones((2, ROWS, HIDDEN)))


@pytest.mark.usefixtures("tensorrt")
def test_tensors_of_another_name(tmp_path: Path) -> None:
    write_engine(tmp_path)
    runner = open_tensorrt(tmp_path, TILES, VISION)
    with pytest.raises(ValueError, match=r"takes \['input'\]"):
        runner({"pixel_values": np.ones((1, 3, SIDE, SIDE), np.float32)})
