"""Which file of a checkpoint the build makes `tokenizer.json` of; servers here read no other."""

from pathlib import Path

from mm_api.documents.model_facts import InspectReason
from mm_api.families import FAMILIES
from mm_runtime.errors import InspectRefusedError
from mm_runtime.sources.identity import PARTS

TOKENIZER, CONFIG = "tokenizer.json", "tokenizer_config.json"

SENTENCE_PIECE_MODELS = ("spiece.model", "sentencepiece.bpe.model", "tokenizer.model")
"""As T5, mBART and LLaMA name theirs (VOCAB_FILES_NAMES of their tokenizers in transformers)."""


def tokenizer_folder(source: Path) -> Path:
    """Return the folder of a checkpoint's tokenizer files: VILA keeps them in llm/."""
    part = source / PARTS[0]
    other = not (source / TOKENIZER).is_file() and (part / CONFIG).is_file()
    return part if other else source


def sentence_piece_model(source: Path, family: str) -> str | None:
    """Return the file that the build makes a tokenizer of, relative to the checkpoint.

    None where the checkpoint has tokenizer.json, and for ByT5, whose tokens are bytes. VILA
    keeps its tokenizer in llm/.

    Raises:
        InspectRefusedError: there is no such file.
    """
    tokenizer, folders = FAMILIES[family].checkpoint.tokenizer, (source, source / PARTS[0])
    found = any((one / TOKENIZER).is_file() for one in folders)
    if found or tokenizer.bytes_are_tokens:
        return None
    if tokenizer.refusal:
        raise _refusal(f"{source} has no {TOKENIZER}. {tokenizer.refusal}")
    models = (one / name for one in folders for name in SENTENCE_PIECE_MODELS)
    model = next((path for path in models if path.is_file()), None)
    if model is not None:
        return model.relative_to(source).as_posix()
    wanted = f"a SentencePiece model ({', '.join(SENTENCE_PIECE_MODELS)})"
    raise _refusal(f"{source} has neither {TOKENIZER} nor {wanted}. {tokenizer.advice}")


def _refusal(message: str) -> InspectRefusedError:
    return InspectRefusedError(InspectReason.CONFIG_MISSING, message)
