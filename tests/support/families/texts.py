"""Small random checkpoints of the encoder-decoder families."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.families.checkpoints import t
from support.families.words import BEGIN, END, PAD, SIZE, id_of, vocabulary, write_tokenizer

HIDDEN = 32
HEADS = 2
LAYERS = 2
MEL_BINS = 8
AUDIO_POSITIONS = 50
"""Of the encoder: half as many as frames, so the window is one second."""

RECEIVED = (
    *("<|startoftranscript|>", "<|en|>", "<|de|>"),
    *("<|transcribe|>", "<|translate|>", "<|startofprev|>"),
)
TIMES = ("<|notimestamps|>", *(f"<|{at * 0.02:.2f}|>" for at in range(AUDIO_POSITIONS + 1)))
"""The last of the vocabulary."""

NO_TIMES = SIZE
"""Id of `<|notimestamps|>`; that of the time 0.00 follows."""

SUPPRESSED, SUPPRESSED_FIRST = (11, 12), (13,)
LANGUAGE = 7
"""Stands for the language that mBART answers in."""

SEEDS = {"whisper": 75}
"""It detects both languages, says something else in each, and answers in several segments."""

MARKS: dict[str, dict[str, Any]] = {
    "byt5": {"tokenizer_class": "ByT5Tokenizer"},
    "mbart": {"forced_bos_token_id": LANGUAGE},
}
"""What published checkpoints have in config.json and transformers 5 does not write there."""

TWIN: dict[str, Any] = {
    "d_model": HIDDEN,
    "encoder_layers": LAYERS,
    "decoder_layers": LAYERS,
    "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 128,
    "bos_token_id": BEGIN,
    "eos_token_id": END,
    "pad_token_id": PAD,
}


def write(family: str, folder: Path) -> Path:
    import torch  # noqa: PLC0415 (seconds)

    torch.manual_seed(SEEDS.get(family, 13))
    folder.mkdir(parents=True, exist_ok=True)
    _save(WRITERS[family](), folder, late=NO_TIMES if family == "whisper" else None)
    if family == "whisper":
        write_tokenizer(folder, RECEIVED, TIMES)
        _write_extractor(folder)
    else:
        write_tokenizer(folder, ends=True)
    if family in MARKS:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | MARKS[family]))
    return folder


def _write_extractor(folder: Path) -> None:
    t.WhisperFeatureExtractor(feature_size=MEL_BINS, chunk_length=1).save_pretrained(folder)


def _save(model: Any, folder: Path, late: int | None = None) -> None:
    """Make weights large enough that answers are no endless repetition of one token.

    Tokens from `late` on are a little quieter: there are as many of them as of all others.
    """
    import torch  # noqa: PLC0415

    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 1:
                weight.add_(torch.randn_like(weight) * 0.2)
            elif "embed_positions" not in name:
                weight.copy_(torch.randn_like(weight) * 0.3)
        if late is not None:
            model.model.decoder.embed_tokens.weight[late:] *= 0.85
    generation = model.generation_config
    generation.eos_token_id, generation.pad_token_id = END, PAD
    # TensorRT-LLM ends an answer at its limit; it forces no end token there.
    generation.forced_eos_token_id = None
    generation.num_beams = 1
    model.save_pretrained(folder)


def _t5(**changes: Any) -> Any:
    return t.T5ForConditionalGeneration(t.T5Config(**_t5_sizes() | changes))


def _t5_sizes() -> dict[str, Any]:
    return {
        "d_model": HIDDEN,
        "d_kv": 16,
        "d_ff": 64,
        "num_layers": LAYERS,
        "num_decoder_layers": 1,
        "num_heads": HEADS,
        "vocab_size": SIZE,
        "relative_attention_num_buckets": 8,
        "relative_attention_max_distance": 16,
        "decoder_start_token_id": PAD,
        "eos_token_id": END,
        "pad_token_id": PAD,
    }


def _mt5() -> Any:
    return t.MT5ForConditionalGeneration(t.MT5Config(**_t5_sizes(), tie_word_embeddings=False))


def _bart() -> Any:
    return t.BartForConditionalGeneration(t.BartConfig(**_beginning(BEGIN)))


def _mbart() -> Any:
    return t.MBartForConditionalGeneration(t.MBartConfig(**_beginning(LANGUAGE)))


def _beginning(token: int) -> dict[str, Any]:
    ends = {"decoder_start_token_id": END, "forced_eos_token_id": None}
    return {**TWIN, "vocab_size": SIZE, **ends, "forced_bos_token_id": token}


def _nmt() -> Any:
    config = t.FSMTConfig(
        **TWIN,
        langs=["en", "de"],
        src_vocab_size=SIZE,
        tgt_vocab_size=SIZE,
        decoder_start_token_id=END,
        forced_eos_token_id=None,
        num_beams=1,
    )
    return t.FSMTForConditionalGeneration(config)


def _whisper() -> Any:
    import torch  # noqa: PLC0415

    sizes = {name: value for name, value in TWIN.items() if name != "max_position_embeddings"}
    config = t.WhisperConfig(
        **sizes,
        vocab_size=len(vocabulary(RECEIVED, TIMES)),
        num_mel_bins=MEL_BINS,
        max_source_positions=AUDIO_POSITIONS,
        max_target_positions=64,
        decoder_start_token_id=id_of(RECEIVED[0], RECEIVED),
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    model = t.WhisperForConditionalGeneration(config)
    with torch.no_grad():
        # Without places that differ, an answer is one word over and over.
        model.model.decoder.embed_positions.weight.normal_()
    model.generation_config = t.GenerationConfig(
        decoder_start_token_id=config.decoder_start_token_id,
        is_multilingual=True,
        lang_to_id={token: id_of(token, RECEIVED) for token in RECEIVED[1:3]},
        task_to_id={
            "transcribe": id_of(RECEIVED[3], RECEIVED),
            "translate": id_of(RECEIVED[4], RECEIVED),
        },
        no_timestamps_token_id=NO_TIMES,
        suppress_tokens=list(SUPPRESSED),
        begin_suppress_tokens=list(SUPPRESSED_FIRST),
    )
    return model


WRITERS: dict[str, Callable[[], Any]] = {
    "t5": _t5,
    "flan-t5": lambda: _t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False),
    "byt5": lambda: _t5(feed_forward_proj="gated-gelu"),
    "mt5": _mt5,
    "bart": _bart,
    "mbart": _mbart,
    "nmt": _nmt,
    "whisper": _whisper,
}
