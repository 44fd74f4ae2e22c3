"""BART: learned positions, LayerNorm and biases everywhere; context FMHA stays on (#encoders)."""

from dataclasses import replace

from mm_api.families.family import BlockStyle, Embeddings, Recipe
from mm_api.families.t5 import PLUGIN_FLAGS, T5

BART = replace(
    T5,
    name="bart",
    title="BART",
    architectures=("BartForConditionalGeneration", "BartModel"),
    dtypes=("float16", "bfloat16", "float32"),
    dtype_reason="context FMHA needs a 16-bit type; upstream's example is float16",
    style=BlockStyle(qkv_bias=True, dense_bias=True, mlp_bias=True, norm_vectors=2),
    embeddings=Embeddings(position_offset=2, embedding_norm=True, final_norm=False),
    recipe=Recipe(
        converter="enc_dec",
        convert_flags=("--model_type", "bart"),
        build_flags=PLUGIN_FLAGS,
        encoder_flags=PLUGIN_FLAGS,
    ),
    context_fmha=True,
    notes=(),
)
