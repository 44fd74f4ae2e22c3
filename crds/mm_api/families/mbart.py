"""mBART: BART with a norm after each stack, answering in one fixed language (#encoders)."""

from dataclasses import replace

from mm_api.families.bart import BART

MBART = replace(
    BART,
    name="mbart",
    title="mBART",
    architectures=("MBartForConditionalGeneration",),
    embeddings=replace(BART.embeddings, final_norm=True),
    notes=("many-to-many checkpoints are refused: the engine cannot be told the language",),
)
