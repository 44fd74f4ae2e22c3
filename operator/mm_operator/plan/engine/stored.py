"""Checkpoints that are quantized already: what their weights and cache take, and who reads them.

Which GPUs: the hardware table of docs/source/features/quantization.md in NVIDIA/TensorRT-LLM.
"""

from collections.abc import Iterator

from mm_api.documents.model_facts import ModelFacts
from mm_api.families.family import Family
from mm_api.families.upstream_classes import pytorch_of
from mm_operator.errors import SpecError
from mm_operator.plan.engine.checks import Case, plan_error
from mm_operator.plan.engine.dtypes import FP8_SINCE, capability
from mm_operator.plan.engine.request import PlanRequest
from mm_operator.plan.engine.serve_options import CACHE_TYPE
from mm_operator.plan.engine.weights import matrix_elements

NVFP4_SINCE = (10, 0)
"""Blackwell: of sm100, sm103 and sm120 the table says yes, of Hopper and before no."""

_SINCE = {"FP8": FP8_SINCE, "NVFP4": NVFP4_SINCE}


def weights_format(requested: str | None, facts: ModelFacts) -> str | None:
    """Return how weights lie on the GPU: as requested, or as the checkpoint stores them."""
    return facts.quantization.weights if facts.quantization else requested


def cache_format(request: PlanRequest, facts: ModelFacts) -> str | None:
    """Return how the cache is stored: as requested, as the checkpoint says, or as the weights."""
    if (CACHE_TYPE, "fp8") in request.serve_options:
        return "FP8"
    return facts.quantization.kv_cache if facts.quantization else request.quantization


def check_stored_for_servers(now: Case) -> Iterator[SpecError]:
    """Yield what keeps TensorRT-LLM on PyTorch from serving a quantized checkpoint."""
    stored = now.facts.quantization
    if stored is None:
        return
    least = _SINCE[stored.weights]
    if capability(now.gpu) < least:
        yield plan_error(
            "runtime.gpu.product",
            "QuantizationNeedsGpu",
            f"the checkpoint is stored as {stored.weights}, which needs compute capability "
            f"{least[0]}.{least[1]}, and {now.gpu.product} has {now.gpu.compute_capability}: use "
            f"{'a Blackwell GPU' if stored.weights == 'NVFP4' else 'another GPU'}, or the "
            "checkpoint that it was made of",
        )
    text = now.facts.text
    most = matrix_elements(now.facts, now.family) + text.vocabulary_size * text.hidden_size
    if stored.quantized_parameters > most:
        yield plan_error(
            "model.source",
            "TowerQuantized",
            f"{stored.quantized_parameters:,} numbers are stored as {stored.weights}, and the "
            f"language model's matrices have {most:,}: upstream's classes load a tower as it was "
            "trained. Quantize without it (hf_ptq.py of NVIDIA/Model-Optimizer leaves it out)",
        )


def check_stored_for_engines(now: Case) -> Iterator[SpecError]:
    """Yield an error for a checkpoint that the converters do not read."""
    yield from unreadable(now.family, now.facts)


def unreadable(family: Family, facts: ModelFacts) -> Iterator[SpecError]:
    """Yield an error where only TensorRT-LLM on PyTorch reads the checkpoint's weights."""
    stored = facts.quantization
    if stored is None:
        return
    served = pytorch_of(family, facts) is not None
    yield plan_error(
        "engine.backend",
        "QuantizedCheckpoint",
        f"the checkpoint is stored as {stored.weights} (hf_quant_config.json), which backend "
        "PyTorch alone reads: "
        + ("use that, or " if served else f"it has no class for {family.name}; use ")
        + "the checkpoint that it was made of",
    )
