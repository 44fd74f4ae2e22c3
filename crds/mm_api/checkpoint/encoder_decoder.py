"""Dimensions of encoder-decoders: T5 and its kin, BART, mBART, FairSeq's transformer, Whisper."""

from mm_api.checkpoint.values import JsonObject, Sizes, invalid
from mm_api.documents.model_facts import EncoderFacts, TextFacts

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

BART_DEFAULTS = {
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
WHISPER_DEFAULTS = BART_DEFAULTS | {
    "vocab_size": 51865,
    "max_source_positions": 1500,
    "max_target_positions": 448,
    "num_mel_bins": 80,
}
MBART_FIRST_LANGUAGE = 250_000
"""Ids from here on are language codes: a checkpoint that starts its answers with one, or forces
one, translates into one language."""

Parts = tuple[TextFacts, EncoderFacts]


def t5(config: JsonObject) -> Parts:
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
    return text, encoder


def bart(config: JsonObject) -> Parts:
    """Return decoder and encoder of BART."""
    return _twin(config, Sizes(config, BART_DEFAULTS), "d_model", "encoder_ffn_dim")


def mbart(config: JsonObject) -> Parts:
    """Return decoder and encoder of mBART.

    Raises:
        CheckpointError: a many-to-many checkpoint: TensorRT-LLM's converter has no way to tell the
            engine the language of each answer.
    """
    forced, start = config.get("forced_bos_token_id"), config.get("decoder_start_token_id")
    if forced is None and not (isinstance(start, int) and start >= MBART_FIRST_LANGUAGE):
        raise invalid(
            "config.json fixes no target language (forced_bos_token_id is absent): many-to-many"
            " mBART is not supported by TensorRT-LLM. Use a many-to-one checkpoint, or set"
            " forced_bos_token_id to the language that the model shall answer in."
        )
    return bart(config)


def nmt(config: JsonObject) -> Parts:
    """Return decoder and encoder of FairSeq's transformer.

    From its args namespace, which TensorRT-LLM's converter reads, or from transformers' FSMT.
    """
    if config.get("model_type") == "fsmt":
        return bart(config | {"vocab_size": config.get("tgt_vocab_size")})
    dictionary = config.get("dictionary")
    types = dictionary.get("types") if isinstance(dictionary, dict) else config.get("vocab_size")
    values = config | {
        "vocab_size": types,
        "decoder_ffn_dim": config.get("decoder_ffn_embed_dim"),
        "max_position_embeddings": config.get("max_target_positions"),
    }
    size = Sizes(values, {"max_position_embeddings": 1024})
    return _twin(values, size, "encoder_embed_dim", "encoder_ffn_embed_dim")


def whisper(config: JsonObject) -> Parts:
    """Return decoder and encoder of Whisper; the encoder reads two mel frames a position."""
    size = Sizes(config, WHISPER_DEFAULTS)
    values = config | {"max_position_embeddings": size("max_target_positions")}
    text, encoder = _twin(values, Sizes(values, WHISPER_DEFAULTS), "d_model", "encoder_ffn_dim")
    return text, encoder.model_copy(
        update={"max_positions": size("max_source_positions"), "mel_bins": size("num_mel_bins")}
    )


def _twin(config: JsonObject, size: Sizes, hidden_key: str, ffn_key: str) -> Parts:
    hidden, heads, head_size = size.heads(hidden_key, "decoder_attention_heads")
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
    _, encoder_heads, encoder_head = size.heads(hidden_key, "encoder_attention_heads")
    encoder = EncoderFacts(
        hidden_size=hidden,
        intermediate_size=size(ffn_key),
        layers=size("encoder_layers"),
        attention_heads=encoder_heads,
        head_size=encoder_head,
        max_positions=positions,
    )
    return text, encoder
