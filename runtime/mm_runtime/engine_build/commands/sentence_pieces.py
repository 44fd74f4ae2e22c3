"""A SentencePiece model as `tokenizer.json`: transformers makes it, SentencePiece checks it.

Images hold different versions of transformers, and some convert otherwise than they should: 5.23
leaves out the normalization of mBART's model. So that is taken from the model itself, and sample
texts are split by both before anything is served.
"""

import json
import shutil
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sentencepiece import SentencePieceProcessor, sentencepiece_model_pb2
from tokenizers import Regex, Tokenizer, normalizers
from transformers import AutoTokenizer

from mm_runtime.errors import PermanentError

CONFIG = "tokenizer_config.json"

SAMPLES = (
    *("hello world", "", "line\nline\ttab", "two  spaces", "Grüße, 3 €", "naïve café"),
    *("日本語のテキスト", "안녕하세요", "Привет, мир!", "مرحبا بالعالم", "नमस्ते दुनिया"),
    *("ﬁne \uff46\uff55\uff4c\uff4c\u3000\uff57ide", "½ ² ™ …", "1,234.56", "\U0001f600 ok"),
    "\x00\x7f\x80",
)
"""Scripts of their own, and what normalization changes. None begins or ends with a space: LLaMA's
rule for those differs between versions of transformers itself."""

UNIGRAM = 1
"""`TrainerSpec.ModelType` of sentencepiece_model.proto; LLaMA's is BPE, without normalization."""

TIE = 1e-4
"""Sums of the model's scores (logarithms, float32) below which two ways to split are as good."""


def converted(model: Path, config: Path) -> tuple[str, dict[str, Any]]:
    """Return `tokenizer.json` and the tokens with names (`eos_token`) of a SentencePiece model.

    `config`: config.json, which names the class where tokenizer_config.json does not.

    Raises:
        PermanentError: it is no such model, or its conversion splits texts in another way.
    """
    pieces = _pieces(model)
    made = _made_by_transformers(model, config)
    tokenizer = made.backend_tokenizer
    proto = sentencepiece_model_pb2.ModelProto.FromString(pieces.serialized_model_proto())
    if proto.trainer_spec.model_type == UNIGRAM:
        tokenizer.normalizer = _normalizer(proto.normalizer_spec)
    _compare(model, pieces, tokenizer)
    named = made.special_tokens_map.items()  # lists of others are in tokenizer.json
    special = {name: str(token) for name, token in named if not isinstance(token, list)}
    return str(tokenizer.to_str()), special


def _pieces(model: Path) -> Any:
    try:
        return SentencePieceProcessor(model_file=str(model))
    except (OSError, RuntimeError) as error:
        raise PermanentError(
            f"{model.name} is not a SentencePiece model: {error}. Copy the checkpoint again, or"
            " save its fast tokenizer (tokenizer.json) beside it."
        ) from error


def _made_by_transformers(model: Path, config: Path) -> Any:
    with TemporaryDirectory() as folder:
        beside = {path.name: path for path in (*model.parent.glob("*.json"), model)}
        # Of a multimodal model it makes transformers 5 leave the named class aside.
        beside.pop(config.name, None)
        if not _names_class(model.parent / CONFIG) and config.is_file():
            beside[config.name] = config
        for name, path in beside.items():
            shutil.copyfile(path, Path(folder) / name)
        try:
            return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        except Exception as error:
            # Its own errors (KeyError, OSError, ValueError ...), and those of tokenizers, whose
            # Rust code raises bare Exceptions.
            raise PermanentError(
                f"transformers {version('transformers')} makes no tokenizer of {model.name}:"
                f" {error}. {_advice(model)}"
            ) from error


def _names_class(path: Path) -> bool:
    return path.is_file() and "tokenizer_class" in json.loads(path.read_text(encoding="utf-8"))


def _advice(model: Path) -> str:
    return (
        f"Save a fast tokenizer beside {model.name}:"
        " AutoTokenizer.from_pretrained(...).save_pretrained(...)."
    )


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
            raise PermanentError(
                f"transformers {version('transformers')} makes a tokenizer of {model.name} that"
                f" splits {text!r} into {found}; SentencePiece splits it into {expected}."
                f" {_advice(model)}"
            )


def _tied(pieces: Any, found: list[str], expected: list[str]) -> bool:
    """Return whether the model itself prefers neither: then the libraries may differ."""
    if "".join(found) != "".join(expected):
        return False
    first, second = (
        sum(pieces.get_score(pieces.piece_to_id(one)) for one in split)
        for split in (found, expected)
    )
    return bool(abs(first - second) < TIE)
