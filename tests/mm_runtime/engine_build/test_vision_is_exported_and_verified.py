"""The entire build of a LLaVA: torch to ONNX, compared, resumed after a kill."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mm_api.documents.build_result import BuildResult
from mm_runtime.base import manifest as manifests
from mm_runtime.engine_build.commands import vision_samples
from mm_runtime.engine_build.commands.step import StepContext
from mm_runtime.engine_build.commands.verify_vision import verify_vision
from mm_runtime.errors import VerificationFailedError
from support.build_sites import Site
from support.cases import cases

DEADLINE_SECONDS = 240
"""Torch's imports alone take 7 s on a quiet machine."""


def mm_runtime(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "mm_runtime", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_killed_build_resumes_and_verifies(vision_site: Site) -> None:
    with mm_runtime(*vision_site.arguments) as first:
        assert first.stderr is not None
        for line in first.stderr:
            if "step 2/4 export-vision" in line:
                break
        first.send_signal(signal.SIGKILL)
    assert not vision_site.paths.engine.exists()
    with mm_runtime(*vision_site.arguments) as second:
        output, log = second.communicate(timeout=DEADLINE_SECONDS)
    assert second.returncode == 0, log
    assert "step 1/4 fetch: finished before" in log
    result = BuildResult.from_json(output)
    assert list(result.step_seconds) == ["fetch", "export-vision", "verify-vision", "evaluation"]

    manifest = manifests.read(vision_site.paths.manifest)
    manifests.verify(vision_site.paths.engine, manifest)
    assert manifest.verification is not None
    assert manifest.verification.max_abs_difference < 1e-4
    assert {"torch", "onnxruntime"} <= set(manifest.versions)
    files = {file.path for file in manifest.files}
    assert {"vision/model.onnx", "build/reproduce.sh", "build/export-vision.log"} <= files
    _assert_other_batches_agree(vision_site)


def _assert_other_batches_agree(site: Site) -> None:
    """Run batches the exporter never saw: a baked-in batch dimension would fail or mix images."""
    import onnxruntime  # noqa: PLC0415 (only here)

    session = onnxruntime.InferenceSession(str(site.paths.engine / "vision" / "model.onnx"))
    images = vision_samples.images(28)[:5]
    together = session.run(["features"], {"pixel_values": images})[0]
    alone = session.run(["features"], {"pixel_values": images[3:4]})[0]
    assert together.shape == (5, 4, 32)
    assert np.abs(together).max() > 1e-4  # not all zero: the comparison means something
    np.testing.assert_allclose(together[3:4], alone, atol=1e-6)


@cases(
    "change words",
    {
        "shifted": (0.1, "differs from torch by 0.1"),
        "not-a-number": (np.nan, "differs from torch by nan"),
    },
)
def test_difference_to_torch_is_refused(vision_site: Site, change: float, words: str) -> None:
    context = StepContext(vision_site.plan, vision_site.source, vision_site.paths)
    context.paths.vision.mkdir(parents=True)
    _write_identity_like_model(context.paths.vision / "model.onnx")
    images = vision_samples.images(28)
    features = images.reshape(8, 3, -1)
    right = ({"pixel_values": images}, features)
    vision_samples.write(context.paths.reference, [right])
    verify_vision(context)  # the same numbers pass
    stored = json.loads(context.paths.verification.read_text())
    assert (stored["samples"], stored["maxAbsDifference"]) == (1, 0.0)
    changed = features.copy()
    changed[7, 0, 0] += change
    wrong = ({"pixel_values": images}, changed)
    vision_samples.write(context.paths.reference, [right, wrong])
    with pytest.raises(VerificationFailedError, match=words):
        verify_vision(context)


def _write_identity_like_model(path: Path) -> None:
    """Write an ONNX model that only reshapes: its right answer is known without torch."""
    import onnx  # noqa: PLC0415 (only here)
    from onnx import TensorProto, helper  # noqa: PLC0415

    shape = helper.make_tensor("shape", TensorProto.INT64, [3], [0, 3, -1])
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["pixel_values", "shape"], ["features"])],
        "reshape",
        [helper.make_tensor_value_info("pixel_values", TensorProto.FLOAT, ["b", 3, 28, 28])],
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["b", 3, 784])],
        [shape],
    )
    opset = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=10), path)


def test_pickles_become_safetensors(tmp_path: Path, vision_site: Site) -> None:
    import torch  # noqa: PLC0415 (seconds)
    from safetensors.torch import load_file  # noqa: PLC0415

    from mm_runtime.engine_build.build_paths import BuildPaths  # noqa: PLC0415
    from mm_runtime.engine_build.commands.step import StepContext  # noqa: PLC0415
    from mm_runtime.engine_build.commands.unpickle import unpickle  # noqa: PLC0415
    from mm_runtime.inspect.checkpoint import InspectOptions, inspect  # noqa: PLC0415
    from support.build_plans import build_plan  # noqa: PLC0415

    facts = inspect(vision_site.source, InspectOptions())
    plan = build_plan(facts, allow_pickle=True)
    paths = BuildPaths(tmp_path, plan.fingerprint)
    for folder in (paths.pickles, paths.llm):
        folder.mkdir(parents=True)
    weight = torch.arange(6.0).reshape(2, 3)
    torch.save({"a": weight, "tied": weight, "turned": weight.T}, paths.pickles / "one.bin")
    unpickle(StepContext(plan, vision_site.source, paths))
    found = load_file(paths.llm / "model.safetensors")
    assert torch.equal(found["tied"], weight)
    assert torch.equal(found["turned"], weight.T)
