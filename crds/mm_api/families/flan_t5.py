"""Flan-T5 and T5 1.1: T5 with a gated perceptron; never float16 (#encoders)."""

from dataclasses import replace

from mm_api.families.t5 import T5, gated, reads_bytes

FLAN_T5 = replace(
    T5,
    name="flan-t5",
    title="Flan-T5",
    recognised=lambda config: gated(config) and not reads_bytes(config),
    dtypes=("bfloat16", "float32"),
    dtype_reason="Flan-T5 gives wrong answers in float16",
    text=replace(T5.text, gated=True),
)
