"""Vision engines besides ONNX Runtime: torch's own program, and engines that TensorRT builds."""

from pathlib import Path

import numpy as np
import pytest
import torch

from mm_api.documents.build_plan import VisionPlan
from mm_api.documents.model_facts import ModelFacts
from mm_runtime.backends import steps
from mm_runtime.engine_build.commands.build_vision import build_engine
from mm_runtime.engine_build.commands.export_vision import write_onnx, write_program
from mm_runtime.engine_build.commands.towers import load_tower
from mm_runtime.engine_build.commands.towers.tower import Tower
from mm_runtime.engine_build.commands.vision_profile import Range, profile
from mm_runtime.errors import PermanentError
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from mm_runtime.serving.encode.vision.session import VisionSession, open_runner
from support.families.images import CASES, write
from support.families.pipeline import plan_of

QUICK = ("llava",)
"""In every run; the others take their time and are marked slow."""

FAMILIES = [
    one if one in QUICK else pytest.param(one, marks=pytest.mark.slow) for one in sorted(CASES)
]


def _vision(facts: ModelFacts) -> VisionPlan:
    vision = plan_of(facts).engine.vision
    assert vision is not None
    return vision


@pytest.fixture(scope="module", params=FAMILIES)
def tower(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Tower, ModelFacts, Path]:
    """The vision half of one family, its facts and its folder."""
    folder = write(request.param, tmp_path_factory.mktemp("family") / request.param)
    facts = inspect(folder, InspectOptions())
    return load_tower(folder, facts, trust_remote_code=False), facts, folder


def test_torch_program_equals_the_checkpoint(tower: tuple[Tower, ModelFacts, Path]) -> None:
    """Batches are cut to the limit; features are the class's own."""
    one, _, folder = tower
    write_program(one, folder / "model.pt2")
    session = VisionSession(open_runner("Torch", folder), max_batch_size=3)
    for sample in one.samples:
        with torch.inference_mode():
            wanted = one.reference(sample).numpy()
        assert np.abs(session.run(sample) - wanted).max() < 1e-4


def test_tensorrt_for_rtx_builds_an_engine(tower: tuple[Tower, ModelFacts, Path]) -> None:
    """Parsed, profiled, serialized without a GPU, weights included."""
    tensorrt = pytest.importorskip("tensorrt_rtx_bindings")
    one, facts, folder = tower
    assert facts.vision is not None
    write_onnx(one, folder / "model.onnx", opset=18)
    plan = _vision(facts)
    engine, measured = build_engine(tensorrt, folder / "model.onnx", plan, facts.vision, None)
    assert len(engine) > sum(weight.nbytes for weight in one.module.parameters())
    assert measured is None


def test_refused_models_are_reported(tmp_path: Path, tower: tuple[Tower, ModelFacts, Path]) -> None:
    """What the parser does not read ends the build for good, with its words."""
    tensorrt = pytest.importorskip("tensorrt_rtx_bindings")
    _, facts, _ = tower
    assert facts.vision is not None
    (tmp_path / "model.onnx").write_bytes(b"no model")
    with pytest.raises(PermanentError, match=r"TensorRT does not read model\.onnx"):
        build_engine(tensorrt, tmp_path / "model.onnx", _vision(facts), facts.vision, None)


def test_profile_follows_plan_and_images(tower: tuple[Tower, ModelFacts, Path]) -> None:
    """The batch is the plan's; patches are those of the smallest and the largest image."""
    _, facts, _ = tower
    assert facts.vision is not None
    plan = _vision(facts).model_copy(update={"max_batch_size": 8})
    assert Range(1, 4, 8) == profile("batch", plan, facts.vision)
    if facts.family == "qwen2-vl":
        assert Range(16, 72, 128) == profile("patches", plan, facts.vision)
    with pytest.raises(PermanentError, match="free size 'depth'"):
        profile("depth", plan, facts.vision)


def test_only_tensorrt_has_a_step_more(tower: tuple[Tower, ModelFacts, Path]) -> None:
    """The engine is built after the graph was verified, by the module that the plan names."""
    plan = plan_of(tower[1])
    for engine in ("ONNXRuntime", "Torch", "TensorRTRTX", "TensorRT"):
        vision = _vision(tower[1]).model_copy(update={"engine": engine})
        spec = plan.engine.model_copy(update={"vision": vision})
        names = [step.name for step in steps(plan.model_copy(update={"engine": spec}))]
        expected = ["fetch", "export-vision", "verify-vision"]
        last = "build-vision" if vision.builder else "evaluation"
        assert [*expected, last] == names


def test_tensorrt_engines_are_not_served_here(tmp_path: Path) -> None:
    """They run inside NVIDIA's container; the message says what to build instead."""
    with pytest.raises(ValueError, match=r"vision\.engine ONNXRuntime or Torch"):
        open_runner("TensorRTRTX", tmp_path)
