"""BART: learned positions, LayerNorm and biases everywhere; context FMHA stays on (#encoders)."""

from dataclasses import replace

from mm_api.checkpoint.values import Dimensions, JsonObject, Sizes
from mm_api.documents.model_facts import EncoderFacts, TextFacts
from mm_api.families.checkpoint_files import Tokenizer
from mm_api.families.family import always
from mm_api.families.t5 import PLUGIN_FLAGS, T5

DEFAULTS = {
    "d_model": 1024,
    "encoder_layers": 12,
    "encoder_attention_heads": 16,
    "encoder_ffn_dim": 4096,
    "decoder_layers": 12,
    "decoder_attention_heads": 16,
    "decoder_ffn_dim": 4096,
    "vocab_size": 50265,
    "max_position_embeddings": 1024,
}


def read(config: JsonObject, _: JsonObject) -> Dimensions:
    return twin_dimensions(config, Sizes(config, DEFAULTS))


def twin_dimensions(config: JsonObject, size: Sizes) -> Dimensions:
    """Return the dimensions of an encoder and a decoder of one width, or a CheckpointError.

    `size`: `config` with the defaults of missing values.
    """
    hidden, heads, head_size = size.heads("d_model", "decoder_attention_heads")
    positions = size("max_position_embeddings")
    text = TextFacts(
        hidden_size=hidden,
        intermediate_size=size("decoder_ffn_dim"),
        layers=size("decoder_layers"),
        attention_heads=heads,
        key_value_heads=heads,
        head_size=head_size,
        vocabulary_size=size("vocab_size"),
        max_position_embeddings=positions,
        gated_mlp=False,
        tied_embeddings=bool(config.get("tie_word_embeddings", True)),
    )
    _, encoder_heads, encoder_head = size.heads("d_model", "encoder_attention_heads")
    encoder = EncoderFacts(
        hidden_size=hidden,
        intermediate_size=size("encoder_ffn_dim"),
        layers=size("encoder_layers"),
        attention_heads=encoder_heads,
        head_size=encoder_head,
        max_positions=positions,
    )
    return Dimensions(text, encoder=encoder)


BART = replace(
    T5,
    name="bart",
    title="BART",
    architectures=("BartForConditionalGeneration", "BartModel"),
    model_type="bart",
    recognised=always,
    read=read,
    dtypes=("float16", "bfloat16", "float32"),
    dtype_reason="context FMHA needs a 16-bit type; upstream's example is float16",
    text=replace(
        T5.text,
        qkv_bias=True,
        dense_bias=True,
        mlp_bias=True,
        norm_vectors=2,
        position_offset=2,
        embedding_norm=True,
        relative_buckets=False,
        final_norm=False,
        adapters=True,
    ),
    trtllm=replace(
        T5.trtllm,
        convert_flags=("--model_type", "bart"),
        build_flags=PLUGIN_FLAGS,
        encoder_flags=PLUGIN_FLAGS,
    ),
    checkpoint=replace(
        T5.checkpoint,
        tokenizer=Tokenizer(
            refusal="Save a fast tokenizer beside vocab.json and merges.txt:"
            " AutoTokenizer.from_pretrained(...).save_pretrained(...)."
        ),
    ),
    decoder_input_tokens=2,  # the start token, and the one that checkpoints force after it
    notes=(),
)
