"""Checkpoints that are quantized already: bytes on the GPU, which GPUs, and who reads them."""

from pathlib import Path
from typing import Any

import pytest

from mm_api.documents.model_facts import ModelFacts
from mm_api.documents.model_plan import ModelPlan
from mm_runtime.inspect.checkpoint import InspectOptions, inspect
from support.cases import cases
from support.model_configs import planned
from support.quantized_checkpoint import quantized_qwen

BLACKWELL, HOPPER, AMPERE = "b200-180gb", "h100-80gb", "a100-40gb"

MATRICES = 28 * (3584 * (2 * 3584 + 2 * 512) + 3 * 3584 * 18944)
AROUND = 2 * 152064 * 3584 + 3584 + 28 * (2 * 3584 + 3584 + 2 * 512)
"""Embedding, output matrix, norms and biases."""
FUSED = 28 * 5
"""TensorRT-LLM keeps queries, keys and values as one matrix."""


def quantized(folder: Path, kind: str = "NVFP4", **more: Any) -> ModelFacts:
    return inspect(quantized_qwen(folder, kind, **more), InspectOptions())


def plan(facts: ModelFacts, gpu: str = BLACKWELL, **engine: Any) -> ModelPlan:
    return planned("qwen2-5-vl", {"backend": "PyTorch", **engine}, facts=facts, gpu=gpu)


def weights(found: ModelPlan) -> int:
    assert not found.errors, found.errors
    return found.memory.per_gpu[0].weights_bytes


def codes(found: ModelPlan) -> list[str]:
    return [error.code for error in found.errors]


@cases(
    "kind expected",
    {
        # 4 bits a number, 8 for 16 of them, four scalars of a matrix. Rows of this model are
        # multiples of 128, so that nothing is padded.
        "NVFP4": ("NVFP4", MATRICES // 2 + MATRICES // 16 + FUSED * 16),
        "FP8": ("FP8", MATRICES + FUSED * 8),
    },
)
def test_weights_take_what_the_checkpoint_stores(tmp_path: Path, kind: str, expected: int) -> None:
    """With their scales; what is not quantized takes 16 bits."""
    gate_and_up = 28 * (16 if kind == "NVFP4" else 8)

    found = weights(plan(quantized(tmp_path, kind)))

    assert abs(found - (expected + 2 * AROUND)) <= gate_and_up


def test_kept_matrices_take_sixteen_bits(tmp_path: Path) -> None:
    all_of_them = weights(plan(quantized(tmp_path / "all")))
    kept = weights(plan(quantized(tmp_path / "kept", kept="down_proj")))

    assert kept - all_of_them == 28 * 3584 * 18944 * 12 // 8


def test_the_cache_is_stored_as_the_checkpoint_says(tmp_path: Path) -> None:
    """One byte a number where it says FP8, else the model's two."""
    half = plan(quantized(tmp_path / "fp8")).memory
    full = plan(quantized(tmp_path / "none", cache=None)).memory

    assert full.kv_bytes_per_token == 2 * half.kv_bytes_per_token == 2 * 28 * 2 * 4 * 128


def test_the_server_reads_it_as_it_is(tmp_path: Path) -> None:
    """Nothing is quantized by the build, and the server takes the formats from the checkpoint."""
    found = plan(quantized(tmp_path))

    assert "dtype" not in str(found.serve.options["kv_cache_config"])
    assert "EvaluationUnavailable" in {one.code for one in found.warnings}


@pytest.mark.parametrize(
    ("kind", "gpu", "expected"),
    [
        ("NVFP4", BLACKWELL, []),
        ("NVFP4", HOPPER, ["QuantizationNeedsGpu"]),
        ("FP8", HOPPER, []),
        ("FP8", AMPERE, ["QuantizationNeedsGpu"]),
    ],
)
def test_the_gpu_must_compute_in_the_format(
    tmp_path: Path, kind: str, gpu: str, expected: list[str]
) -> None:
    """NVFP4 needs Blackwell, FP8 Ada: upstream's table."""
    assert codes(plan(quantized(tmp_path, kind), gpu)) == expected


def test_other_backends_refuse_it_by_name(tmp_path: Path) -> None:
    """Reference and TensorRT read weights as they were trained."""
    facts = quantized(tmp_path)

    for backend in ("Reference", "TensorRT"):
        assert "QuantizedCheckpoint" in codes(plan(facts, backend=backend))


def test_a_quantized_tower_is_refused(tmp_path: Path) -> None:
    """More numbers are quantized than the language model has."""
    facts = quantized(tmp_path)
    most = MATRICES + 152064 * 3584
    changed = facts.quantization.model_copy(update={"quantized_parameters": most + 1})

    assert codes(plan(facts.model_copy(update={"quantization": changed}))) == ["TowerQuantized"]


def test_no_second_quantization_is_suggested(tmp_path: Path) -> None:
    found = plan(quantized(tmp_path, "FP8"), "l4-24gb", maxSeqLen=65536, maxBatchSize=64)

    assert found.fit.verdict != "Fits"
    changed = [one.path for option in found.fit.suggestions for one in option.changes]
    assert changed
    assert "spec.engine.quantization" not in changed
