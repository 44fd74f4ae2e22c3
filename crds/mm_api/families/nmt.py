"""FairSeq's transformer: sinusoidal positions, padding kept, no GEMM plugin (#encoders)."""

from dataclasses import replace

from mm_api.families.bart import BART
from mm_api.families.family import Embeddings, Recipe

_FLAGS = (
    ("moe_plugin", "disable"),
    ("bert_attention_plugin", "{dtype}"),
    ("gpt_attention_plugin", "{dtype}"),
    ("remove_input_padding", "disable"),
)

NMT = replace(
    BART,
    name="nmt",
    title="FairSeq NMT",
    architectures=("transformer", "transformer_vaswani_wmt_en_fr_big"),
    dtypes=("float32", "float16", "bfloat16"),
    dtype_reason="upstream's example is float32",
    embeddings=Embeddings(final_norm=False),
    recipe=Recipe(
        converter="enc_dec",
        convert_flags=("--model_type", "nmt"),
        build_flags=_FLAGS,
        encoder_flags=_FLAGS,
    ),
    notes=(
        "Triton's guide names T5 and BART only: expect to be the first to serve it",
        "the weights are a pickle (model.pt): spec.model.allowPickle is needed",
    ),
)
