"""T5: relative positions, no biases; context FMHA must be off (#encoders)."""

from mm_api.families.family import (
    FIXED_SIZE_FACTOR,
    BlockStyle,
    Embeddings,
    Family,
    Kind,
    Recipe,
    Serving,
)

TEXT_MODELS = ("ensemble", "preprocessing", "tensorrt_llm", "postprocessing")
TEXT_TENSORS = ("text_input", "max_tokens")
_SHARED_FLAGS = (
    ("moe_plugin", "disable"),
    ("bert_attention_plugin", "{dtype}"),
    ("gpt_attention_plugin", "{dtype}"),
    ("gemm_plugin", "{dtype}"),
    ("remove_input_padding", "enable"),
)
PLUGIN_FLAGS = _SHARED_FLAGS
T5_FLAGS = (*_SHARED_FLAGS, ("context_fmha", "disable"))

T5 = Family(
    name="t5",
    title="T5",
    architectures=("T5ForConditionalGeneration",),
    kind=Kind.ENCODER_DECODER,
    dtypes=("bfloat16", "float32", "float16"),
    dtype_reason="T5's activations overflow float16; bfloat16 has their range",
    style=BlockStyle(),
    embeddings=Embeddings(relative_buckets=True),
    recipe=Recipe(
        converter="enc_dec",
        convert_flags=("--model_type", "t5"),
        build_flags=T5_FLAGS,
        encoder_flags=T5_FLAGS,
    ),
    serving=Serving(TEXT_MODELS, TEXT_TENSORS, "{text}"),
    features_per_image=lambda _: 0,
    default_input_tokens=1,
    default_output_tokens=200,  # upstream's documented decoder: max_seq_len 201
    template_tokens=0,
    pool_factor=FIXED_SIZE_FACTOR,
    max_images=0,
    max_images_reason="the family reads text only",
    context_fmha=False,
    default_encoder_tokens=1024,
    quantizations=("INT8WeightOnly", "INT4WeightOnly"),
    notes=("heads must be a multiple of the tensor parallel size",),
)
