"""Engines that a build of ours makes of vision halves: read, built, compared, opened, refused.

Parser and builder are those of TensorRT for RTX, which need no GPU; what runs is the stand-in.
"""

import base64
import gc
import importlib
import json
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from mm_runtime.backends import steps
from mm_runtime.engine_build.commands import build_vision as command
from mm_runtime.engine_build.commands.build_vision import profile
from mm_runtime.errors import PermanentError
from mm_runtime.serving.directory import EngineDirectory
from mm_runtime.serving.encode.vision.load import load_encoder
from mm_runtime.serving.encode.vision.tensorrt_open import check_origin
from support.families.images import write
from support.families.pipeline import build
from support.native import image

pytest.importorskip("tensorrt_rtx_bindings")

# TensorRT for RTX has deprecated timing caches, which TensorRT has not.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

RUNNER = "mm_runtime.serving.encode.vision.tensorrt_runner"
FAMILIES = [
    "llava",
    *(pytest.param(one, marks=pytest.mark.slow) for one in ("blip2-opt", "qwen2-5-vl", "mllama")),
]


@pytest.fixture(scope="module", name="tensorrt")
def installed() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(image.HERE) / "packages"))
        patch.setattr(command, "gpu_here", lambda planned: planned)
        yield importlib.import_module("tensorrt")
    for name in ("tensorrt", "tensorrt.building", RUNNER):
        sys.modules.pop(name, None)


@pytest.fixture(scope="module", params=FAMILIES)
def engine(
    request: pytest.FixtureRequest, tensorrt: ModuleType, tmp_path_factory: pytest.TempPathFactory
) -> EngineDirectory:
    assert tensorrt
    folder = tmp_path_factory.mktemp(request.param)
    return build(write(request.param, folder / "checkpoint"), folder / "store", vision="TensorRT")


def test_an_engine_is_compared_and_says_where_it_runs(engine: EngineDirectory) -> None:
    """In half precision, by the norm; the exported graph is no part of it."""
    manifest = engine.manifest
    assert manifest.verification
    assert 1e-5 < (manifest.verification.relative_difference or 0) < 1e-2
    assert manifest.gpu
    assert manifest.gpu.product == "NVIDIA-H200"
    assert manifest.versions["tensorrt"] == "10.10.0.31"
    built = {one.name for one in engine.vision_folder.iterdir()}
    assert "model.engine" in built <= {"model.engine", "extras.npz"}
    assert list((engine.root.parents[1] / "timing-caches").iterdir())
    names = [step.name for step in steps(manifest.plan)]
    assert names == ["fetch", "export-vision", "build-vision", "verify-vision", "evaluation"]


def test_the_serving_code_opens_it(
    engine: EngineDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the same names, and refuses one of another TensorRT or GPU."""
    assert engine.vision
    load_encoder(engine, engine.vision, device="CUDA")
    older = engine.manifest.model_copy(update={"versions": {"tensorrt": "10.6.0"}})
    with pytest.raises(ValueError, match=r"TensorRT 10\.6\.0 built this.*this image has 10\.10"):
        check_origin(engine.root, older)
    monkeypatch.setattr("mm_runtime.serving.device.compute_capability", lambda: "8.0")
    with pytest.raises(ValueError, match=r"NVIDIA-H200 \(9\.0\), and this GPU has .* 8\.0"):
        check_origin(engine.root, engine.manifest)


def test_captured_runs_keep_their_contexts(
    engine: EngineDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replay of a graph whose context was gone killed the process (TensorRT 10.6, H200)."""
    runner_module = importlib.import_module(RUNNER)
    runner = runner_module.TensorRTRunner(engine.vision_folder / "model.engine")
    made: list[Any] = []

    class Context:
        """What a graph runs on."""

    def context() -> Context:
        one = Context()
        made.append(weakref.ref(one))
        return one

    monkeypatch.setattr(runner.engine, "context", context)
    captured = runner._fixed()
    del captured  # a capture keeps the graph and the result alone
    gc.collect()
    assert made[0]() is not None


@pytest.mark.parametrize("engine", ["llava"], indirect=True)
def test_few_and_many_images_have_a_profile_each(
    tensorrt: Any, engine: EngineDirectory, tmp_path: Path
) -> None:
    """A run has the profile of its batch; one that no profile has is refused by what all have."""
    assert [command.batch_profiles(most) for most in (1, 3, 4, 8, 16)] == [
        [(1, 1, 1)],
        [(1, 1, 3)],
        [(1, 2, 4)],
        [(1, 4, 4), (5, 5, 8)],
        [(1, 4, 4), (5, 8, 16)],
    ]
    assert engine.vision
    assert engine.facts.vision
    plan = engine.vision.model_copy(update={"max_batch_size": 6})
    model = tmp_path / "model.onnx"
    known = json.loads((engine.vision_folder / "model.engine").read_bytes())
    model.write_bytes(base64.b64decode(known["graph"]))
    built, _ = command.build_engine(tensorrt, model, plan, engine.facts.vision, b"")
    (tmp_path / "model.engine").write_bytes(built)
    runner = importlib.import_module(RUNNER).TensorRTRunner(tmp_path / "model.engine")
    (name,) = runner.engine.inputs
    side = runner.engine.least(name)[-1]
    images = np.random.default_rng(0).normal(size=(7, 3, side, side)).astype(np.float32)
    ones = np.concatenate([runner({name: images[at : at + 1]}) for at in range(6)])
    for count in (6, 4, 5, 2):
        np.testing.assert_allclose(runner({name: images[:count]}), ones[:count], atol=1e-3)
    with pytest.raises(ValueError, match=r"got shape \[7, .* built for \[1, .* to \[6, "):
        runner({name: images})


def test_refusals_have_tensorrts_words(
    tensorrt: Any, engine: EngineDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the parser with its node; and without a GPU the builder is a null pointer."""
    plan, facts = engine.vision, engine.facts.vision
    assert plan
    assert facts
    assert profile("batch", (2, 3, 3), facts) == (2, 3, 3)
    assert not facts.min_pixels or profile("patches", (1, 1, 1), facts) == (16, 72, 128)
    with pytest.raises(PermanentError, match="free size 'depth'"):
        profile("depth", (1, 1, 1), facts)
    (tmp_path / "model.onnx").write_bytes(b"no model")
    with pytest.raises(PermanentError, match=r"does not read the vision half: .*parse"):
        command.build_engine(tensorrt, tmp_path / "model.onnx", plan, facts, b"")

    def null(*_: Any) -> None:
        raise TypeError("pybind11::init(): factory function returned nullptr")

    monkeypatch.setattr(importlib.import_module("tensorrt.building"), "Builder", null)
    with pytest.raises(PermanentError, match=r"finds no GPU that it can use.*driver"):
        command.build_engine(tensorrt, tmp_path / "model.onnx", plan, facts, b"")
