"""PURE: how far an engine's answers may be from its checkpoint's, by what it computes in."""

from typing import Final

NEAR_TIE: Final = {"float32": 0.02, "float16": 0.1, "bfloat16": 0.3}
"""Standard deviations of a step's logits below which two tokens are nearly tied, by what the engine
computes in; the larger one counts when the answers were computed in another type. Against float32,
leads of the likeliest tokens changed by at most 0.016 (float16) and 0.145 (bfloat16) in the answers
of small models of nine families; larger models and GPUs were not measured. Log probabilities
changed by at most 0.6 of that, so the same bound is theirs."""

QUANTIZED: Final = {
    "INT8WeightOnly": 0.3,
    "SmoothQuant": 0.8,
    "FP8": 1.0,
    "INT4AWQ": 2.0,
    "INT4WeightOnly": 2.0,
}
"""The same of quantized weights, in place of the engine's type where it is more. With weights
rounded as each format rounds them (simulated on the processor) leads changed by up to 0.1, 0.7,
1.1, 2.8 and 2.0 in the trained model of the examples (64 wide), and by 0.15, 0.25, 0.55, 2.2 and
2.8 in a random one 1,024 wide. Published models, and engines of TensorRT-LLM, were not measured."""


def near_tie_bound(engine_dtype: str, answers_dtype: str, quantization: str | None = None) -> float:
    """Return below which distance two tokens are nearly tied, or two log probabilities equal."""
    widest = max(NEAR_TIE.values())
    bound = max(NEAR_TIE.get(one, widest) for one in (engine_dtype, answers_dtype))
    if quantization is None:
        return bound
    return max(bound, QUANTIZED.get(quantization, max(QUANTIZED.values())))
