"""Which file of a checkpoint the build makes `tokenizer.json` of; servers here read no other."""

from dataclasses import dataclass
from pathlib import Path

from mm_api.documents.model_facts import InspectReason
from mm_runtime.build.source import PARTS
from mm_runtime.errors import InspectRefusedError

TOKENIZER = "tokenizer.json"

SENTENCE_PIECE_MODELS = ("spiece.model", "sentencepiece.bpe.model", "tokenizer.model")
"""As T5, mBART and LLaMA name theirs (VOCAB_FILES_NAMES of their tokenizers in transformers)."""

VOCABULARY, MERGES = "vocab.json", "merges.txt"
"""As BART names its two. Other families with such files split texts by rules of their own."""


@dataclass(frozen=True, slots=True)
class TokenizerSource:
    """A path relative to the checkpoint, or none: it needs no other file."""

    pieces: str | None = None
    byte_pairs: str | None = None


def tokenizer_source(source: Path, family: str) -> TokenizerSource:
    """Return what the build makes a tokenizer of.

    Nothing where the checkpoint has tokenizer.json, and for ByT5, whose tokens are bytes. VILA
    keeps its tokenizer in llm/.

    Raises:
        InspectRefusedError: there is no such file.
    """
    folders = (source, source / PARTS[0])
    if family == "byt5" or any((one / TOKENIZER).is_file() for one in folders):
        return TokenizerSource()
    if family == "nmt":
        raise _refusal(
            f"{source} has no {TOKENIZER}. FairSeq's dictionaries stand for words that Moses and"
            f" BPE codes have made, which no server here does: add a {TOKENIZER} that does both."
        )
    if family == "bart" and (source / VOCABULARY).is_file():
        if (source / MERGES).is_file():
            return TokenizerSource(byte_pairs=VOCABULARY)
        raise _refusal(
            f"{source} has {VOCABULARY} and neither {TOKENIZER} nor {MERGES}, without which no"
            " text can be split: add one of them."
        )
    found = (one / name for one in folders for name in SENTENCE_PIECE_MODELS)
    model = next((path for path in found if path.is_file()), None)
    if model is not None:
        return TokenizerSource(pieces=model.relative_to(source).as_posix())
    wanted = f"a SentencePiece model ({', '.join(SENTENCE_PIECE_MODELS)})"
    if family == "bart":
        wanted = f"{VOCABULARY} with {MERGES}"
    raise _refusal(f"{source} has neither {TOKENIZER} nor {wanted}. {_advice(family)}")


def _advice(family: str) -> str:
    if family == "vila":
        return (
            "Save a fast tokenizer into llm/:"
            " AutoTokenizer.from_pretrained('llm').save_pretrained('llm')."
        )
    return (
        "Save the processor with a fast tokenizer beside the weights:"
        " AutoProcessor.from_pretrained(...).save_pretrained(...)."
    )


def _refusal(message: str) -> InspectRefusedError:
    return InspectRefusedError(InspectReason.CONFIG_MISSING, message)
