"""mT5: Flan-T5's blocks with a vocabulary of 250,112, most of its weights (#encoders)."""

from dataclasses import replace

from mm_api.families.family import always
from mm_api.families.flan_t5 import FLAN_T5

MT5 = replace(
    FLAN_T5,
    name="mt5",
    title="mT5",
    architectures=("MT5ForConditionalGeneration",),
    model_type="mt5",
    recognised=always,
    dtype_reason="mT5 was trained in bfloat16 and overflows float16",
)
