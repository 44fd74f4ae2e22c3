"""T5: relative positions, no biases; context FMHA must be off (#encoders)."""

from dataclasses import replace

from mm_api.checkpoint.values import Dimensions, JsonObject, Sizes
from mm_api.documents.model_facts import EncoderFacts, TextFacts
from mm_api.families.checkpoint_files import NO_DECODER
from mm_api.families.family import Family, Kind, TensorRTLLM
from mm_api.families.image_layouts.layout import SQUARE
from mm_api.families.text_block import LLAMA

PLUGIN_FLAGS = (
    ("moe_plugin", "disable"),
    ("bert_attention_plugin", "{dtype}"),
    ("gpt_attention_plugin", "{dtype}"),
    ("gemm_plugin", "{dtype}"),
    ("remove_input_padding", "enable"),
)
T5_FLAGS = (*PLUGIN_FLAGS, ("context_fmha", "disable"))

T5_DEFAULTS = {
    "d_model": 512,
    "d_kv": 64,
    "d_ff": 2048,
    "num_layers": 6,
    "num_heads": 8,
    "vocab_size": 32128,
}
T5_POSITIONS = 32768
"""T5's positions are relative: nothing but memory bounds its sequences. A number that no table
needs, so that limits have a bound."""


def read(config: JsonObject, _: JsonObject) -> Dimensions:
    """Return decoder and encoder of T5, Flan-T5, mT5 and ByT5; their depths may differ."""
    size = Sizes(config, T5_DEFAULTS)
    gate = "gated" in str(config.get("feed_forward_proj", "relu"))
    layers, hidden, heads = size("num_layers"), size("d_model"), size("num_heads")
    head_size, inner = size("d_kv"), size("d_ff")
    text = TextFacts(
        hidden_size=hidden,
        intermediate_size=inner,
        layers=size("num_decoder_layers", layers),
        attention_heads=heads,
        key_value_heads=heads,
        head_size=head_size,
        vocabulary_size=size("vocab_size"),
        max_position_embeddings=T5_POSITIONS,
        gated_mlp=gate,
        tied_embeddings=bool(config.get("tie_word_embeddings", True)),
    )
    encoder = EncoderFacts(
        hidden_size=hidden,
        intermediate_size=inner,
        layers=layers,
        attention_heads=heads,
        head_size=head_size,
    )
    return Dimensions(text, encoder=encoder)


def reads_bytes(config: JsonObject) -> bool:
    """Return whether the checkpoint is ByT5, which calls itself `t5` too."""
    return config.get("tokenizer_class") == "ByT5Tokenizer"


def gated(config: JsonObject) -> bool:
    """Return whether feed-forward layers have a gate, as Flan-T5's and T5 1.1's do.

    Nothing else distinguishes T5 and Flan-T5; T5 1.1 is served as Flan-T5 is.
    """
    return "gated" in str(config.get("feed_forward_proj"))


T5 = Family(
    name="t5",
    title="T5",
    architectures=("T5ForConditionalGeneration",),
    model_type="t5",
    recognised=lambda config: not reads_bytes(config) and not gated(config),
    read=read,
    kind=Kind.ENCODER_DECODER,
    dtypes=("bfloat16", "float32", "float16"),
    dtype_reason="T5's activations overflow float16; bfloat16 has their range",
    text=replace(LLAMA, gated=False, relative_buckets=True, adapters=False),
    checkpoint=NO_DECODER,
    trtllm=TensorRTLLM(
        pipeline_parallel=False,
        converter="enc_dec",
        convert_flags=("--model_type", "t5"),
        build_flags=T5_FLAGS,
        encoder_flags=T5_FLAGS,
        max_images=0,
        max_images_reason="the family reads text only",
        quantizations=("INT8WeightOnly", "INT4WeightOnly"),
    ),
    layout=replace(SQUARE, features_per_image=lambda _: 0),
    default_input_tokens=1,
    default_output_tokens=200,  # upstream's documented decoder: max_seq_len 201
    template_tokens=0,
    default_encoder_tokens=1024,
    notes=("heads must be a multiple of the tensor parallel size",),
)
