"""Whisper: the encoder reads 3000 mel frames, the decoder a prompt of up to 14 ids (#encoders)."""

from dataclasses import replace

from mm_api.checkpoint.values import Dimensions, JsonObject, Sizes
from mm_api.documents.model_facts import ModelFacts
from mm_api.families import bart
from mm_api.families.checkpoint_files import Tokenizer

MEL_FRAMES = 3000
"""30 seconds at 100 frames a second; two convolutions halve them to 1500 positions."""


DEFAULTS = {
    "d_model": 384,
    "encoder_layers": 4,
    "encoder_attention_heads": 6,
    "encoder_ffn_dim": 1536,
    "decoder_layers": 4,
    "decoder_attention_heads": 6,
    "decoder_ffn_dim": 1536,
    "vocab_size": 51865,
    "max_source_positions": 1500,
    "max_target_positions": 448,
    "num_mel_bins": 80,
}


def read(config: JsonObject, _: JsonObject) -> Dimensions:
    """Return decoder and encoder of Whisper; the encoder reads two mel frames a position."""
    size = Sizes(config, DEFAULTS)
    values = config | {"max_position_embeddings": size("max_target_positions")}
    twin = bart.twin_dimensions(values, Sizes(values, DEFAULTS))
    assert twin.encoder is not None  # noqa: S101  # twins have one
    encoder = twin.encoder.model_copy(
        update={"max_positions": size("max_source_positions"), "mel_bins": size("num_mel_bins")}
    )
    return replace(twin, encoder=encoder)


_NAMES = {
    (32, 32, 1280, 128): "large-v3",
    (32, 4, 1280, 128): "large-v3-turbo",
    (32, 2, 1280, 128): "distil-large-v3",
    (32, 32, 1280, 80): "large-v2",
    (32, 2, 1280, 80): "distil-large-v2",
    (24, 24, 1024, 80): "medium",
    (12, 12, 768, 80): "small",
    (6, 6, 512, 80): "base",
    (4, 4, 384, 80): "tiny",
}
"""(encoder layers, decoder layers, width, mel bins) -> the name that the converter knows."""

_MULTILINGUAL = 51_865
_ENGLISH = frozenset({"medium", "small", "base", "tiny"})


def converter_name(facts: ModelFacts) -> str | None:
    """Return OpenAI's name of a Whisper checkpoint, None for sizes that it has no name for."""
    encoder = facts.encoder
    if encoder is None:
        return None
    shape = (encoder.layers, facts.text.layers, encoder.hidden_size, encoder.mel_bins or 0)
    name = _NAMES.get(shape)
    english = facts.text.vocabulary_size < _MULTILINGUAL and name in _ENGLISH
    return f"{name}.en" if english else name


def vllm_unfit(facts: ModelFacts) -> str | None:
    if facts.text.vocabulary_size >= _MULTILINGUAL:
        return None
    return (
        "vLLM begins each answer with tokens of a language and a task, which a checkpoint of "
        f"English alone ({facts.text.vocabulary_size} tokens) never saw"
    )


WHISPER = replace(
    bart.BART,
    name="whisper",
    title="Whisper",
    architectures=("WhisperForConditionalGeneration",),
    model_type="whisper",
    read=read,
    dtypes=("float16", "bfloat16", "float32"),
    dtype_reason="upstream's engines are float16",
    text=replace(
        bart.BART.text,
        key_bias=False,
        position_offset=0,
        embedding_norm=False,
        final_norm=True,
        adapters=False,
    ),
    trtllm=replace(
        bart.BART.trtllm,
        converter="whisper",
        convert_flags=(),
        model_name=converter_name,
        reads_pickles=True,
        build_flags=(
            ("moe_plugin", "disable"),
            ("gemm_plugin", "{dtype}"),
            ("bert_attention_plugin", "{dtype}"),
            ("gpt_attention_plugin", "{dtype}"),
        ),
        encoder_flags=(
            ("moe_plugin", "disable"),
            ("gemm_plugin", "disable"),
            ("bert_attention_plugin", "{dtype}"),
        ),
        tensor_parallel=False,
        max_images_reason="the family reads audio only",
    ),
    default_input_tokens=14,
    default_output_tokens=100,  # upstream's documented decoder: max_seq_len 114
    default_encoder_tokens=MEL_FRAMES,
    decoder_input_tokens=14,
    reads_audio=True,
    vllm_unfit=vllm_unfit,
    checkpoint=replace(bart.BART.checkpoint, tokenizer=Tokenizer()),
    notes=("whisper_bls has 8 instances: at most 8 requests are prepared at a time",),
)
