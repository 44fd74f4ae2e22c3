"""A SentencePiece model as `tokenizer.json`: transformers makes it, SentencePiece checks it.

transformers 5.23 leaves out the normalization of mBART's model, so it is taken from the model
itself, and texts are split by both before anything is served.
"""

from pathlib import Path
from typing import Any

from sentencepiece import SentencePieceProcessor, sentencepiece_model_pb2
from tokenizers import Regex, Tokenizer, normalizers

from mm_runtime.engine_build.commands.library_tokenizer import (
    SAMPLES,
    made_by_transformers,
    special_tokens,
    split_otherwise,
)
from mm_runtime.errors import PermanentError

UNIGRAM = 1
"""`TrainerSpec.ModelType` of sentencepiece_model.proto; LLaMA's is BPE, without normalization."""

TIE = 1e-4
"""Sums of the model's scores (logarithms, float32) below which two ways to split are as good."""


def converted(model: Path, config: Path) -> tuple[str, dict[str, Any]]:
    """Return `tokenizer.json` and the special tokens of a SentencePiece model.

    Raises:
        PermanentError: it is no such model, or its conversion splits texts in another way.
    """
    pieces = _pieces(model)
    made = made_by_transformers(model, config)
    tokenizer = made.backend_tokenizer
    proto = sentencepiece_model_pb2.ModelProto.FromString(pieces.serialized_model_proto())
    if proto.trainer_spec.model_type == UNIGRAM:
        tokenizer.normalizer = _normalizer(proto.normalizer_spec)
    _compare(model, pieces, tokenizer)
    return str(tokenizer.to_str()), special_tokens(made)


def _pieces(model: Path) -> Any:
    try:
        return SentencePieceProcessor(model_file=str(model))
    except (OSError, RuntimeError) as error:
        raise PermanentError(
            f"{model.name} is not a SentencePiece model: {error}. Copy the checkpoint again, or"
            " save its fast tokenizer (tokenizer.json) beside it."
        ) from error


def _normalizer(spec: Any) -> Any:
    """Return what SentencePiece does to a text before it splits it."""
    chain: list[Any] = []
    if spec.precompiled_charsmap:
        chain.append(normalizers.Precompiled(spec.precompiled_charsmap))
    if spec.remove_extra_whitespaces:
        chain += [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    return normalizers.Sequence(chain)


def _compare(model: Path, pieces: Any, tokenizer: Tokenizer) -> None:
    for text in SAMPLES:
        expected = [pieces.id_to_piece(one) for one in pieces.encode(text)]
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        found = [str(tokenizer.id_to_token(one)) for one in ids]
        if found != expected and not _tied(pieces, found, expected):
            raise split_otherwise(model, text, found, "SentencePiece", expected)


def _tied(pieces: Any, found: list[str], expected: list[str]) -> bool:
    """Return whether the model itself prefers neither: then the libraries may differ."""
    if "".join(found) != "".join(expected):
        return False
    first, second = (
        sum(pieces.get_score(pieces.piece_to_id(one)) for one in split)
        for split in (found, expected)
    )
    return bool(abs(first - second) < TIE)
