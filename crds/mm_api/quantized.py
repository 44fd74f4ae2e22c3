"""PURE: how the weights of a planned engine are quantized, as the commands of its build say."""

from itertools import pairwise
from typing import Final

from mm_api.documents.build_plan import BuildPlan

FORMATS: Final = {
    "--qformat": {"fp8": "FP8", "int4_awq": "INT4AWQ", "int8_sq": "SmoothQuant"},
    "--weight_only_precision": {"int8": "INT8WeightOnly", "int4": "INT4WeightOnly"},
}
"""Flag of quantize.py or of a converter -> its value -> `spec.engine.quantization`."""


def quantization_of(plan: BuildPlan) -> str | None:
    """Return the quantization as `spec.engine.quantization` names it; None: there is none."""
    if plan.facts.quantization is not None:
        return plan.facts.quantization.weights
    words = plan.trtllm.convert.argv if plan.trtllm else []
    for flag, value in pairwise(words):
        if flag in FORMATS:
            return FORMATS[flag].get(value, value)
    return None
