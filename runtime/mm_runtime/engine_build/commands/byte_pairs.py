"""Byte pairs in `vocab.json` and `merges.txt` as `tokenizer.json`, as BART publishes them.

transformers makes it; GPT-2's algorithm of the library tokenizers checks it.
"""

import json
from pathlib import Path
from typing import Any

from tokenizers import ByteLevelBPETokenizer

from mm_runtime.engine_build.commands.library_tokenizer import (
    SAMPLES,
    advice,
    made_by_transformers,
    special_tokens,
    split_otherwise,
)
from mm_runtime.errors import PermanentError
from mm_runtime.serving.prompts.byte_letters import byte_letters

MERGES = "merges.txt"


def converted(vocabulary: Path, config: Path) -> tuple[str, dict[str, Any]]:
    """Return `tokenizer.json` and the special tokens of a vocab.json with merges.txt beside it.

    Raises:
        PermanentError: the files are cut, or their conversion splits texts in another way.
    """
    _check(vocabulary)
    plain = ByteLevelBPETokenizer.from_file(str(vocabulary), str(vocabulary.parent / MERGES))
    made = made_by_transformers(vocabulary, config, MERGES)
    tokenizer = made.backend_tokenizer
    for text in SAMPLES:
        expected = plain.encode(text).ids
        found = tokenizer.encode(text, add_special_tokens=False).ids
        if found != expected:
            raise split_otherwise(vocabulary, text, found, "the algorithm of GPT-2", expected)
    return str(tokenizer.to_str()), special_tokens(made)


def _check(vocabulary: Path) -> None:
    """Refuse a vocabulary that lacks a byte, which the library leaves out in silence, or a pair."""
    try:
        ids = json.loads(vocabulary.read_text(encoding="utf-8"))
    except ValueError as error:
        raise PermanentError(
            f"{vocabulary.name} is not a vocabulary: {error}. Copy the checkpoint again."
        ) from error
    merges = (vocabulary.parent / MERGES).read_text(encoding="utf-8").splitlines()
    pairs = {line.replace(" ", "") for line in merges if not line.startswith("#version")}
    needed = {*byte_letters().values(), *filter(None, pairs)}
    if missing := sorted(needed - ids.keys()):
        raise PermanentError(
            f"{vocabulary.name} lacks {len(missing)} of the {len(needed)} tokens that"
            f" {MERGES} and the 256 bytes make, {missing[0]!r} for one: the two files are not"
            f" of one checkpoint. {advice(vocabulary)}"
        )
