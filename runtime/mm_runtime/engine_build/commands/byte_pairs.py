"""Byte pairs in `vocab.json` and `merges.txt` as `tokenizer.json`, as BART publishes them.

transformers makes it; GPT-2's own algorithm, which is slow and short, checks it.
"""

import json
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import regex

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

PRETOKENS = regex.compile(
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
)
"""What is merged by itself (GPT-2's encoder.py, which BART's tokenizer is one of)."""


def converted(vocabulary: Path, config: Path) -> tuple[str, dict[str, Any]]:
    """Return `tokenizer.json` and the special tokens of a vocabulary with merges beside it.

    Args:
        vocabulary: vocab.json; merges.txt, tokenizer_config.json and its like beside it.
        config: config.json of the checkpoint, which names the tokenizer's class where
            tokenizer_config.json does not.

    Raises:
        PermanentError: the files are cut, or their conversion splits texts in another way.
    """
    pairs = _BytePairs(vocabulary)
    made = made_by_transformers(vocabulary, config, MERGES)
    tokenizer = made.backend_tokenizer
    for text in SAMPLES:
        expected = pairs.encode(text)
        found = tokenizer.encode(text, add_special_tokens=False).ids
        if found != expected:
            raise split_otherwise(vocabulary, text, found, "the algorithm of GPT-2", expected)
    return str(tokenizer.to_str()), special_tokens(made)


class _BytePairs:
    """The algorithm, with nothing remembered between texts."""

    def __init__(self, vocabulary: Path) -> None:
        self._letters = byte_letters()
        merges = (vocabulary.parent / MERGES).read_text(encoding="utf-8").splitlines()
        pairs = [tuple(line.split(" ")) for line in merges if not line.startswith("#version")]
        self._ranks = {pair: rank for rank, pair in enumerate(pair for pair in pairs if pair[0])}
        self._ids = self._read(vocabulary)

    def _read(self, vocabulary: Path) -> Mapping[str, int]:
        try:
            ids: dict[str, int] = json.loads(vocabulary.read_text(encoding="utf-8"))
        except ValueError as error:
            raise PermanentError(
                f"{vocabulary.name} is not a vocabulary: {error}. Copy the checkpoint again."
            ) from error
        needed = {*self._letters.values(), *("".join(pair) for pair in self._ranks)}
        if missing := sorted(needed - ids.keys()):
            raise PermanentError(
                f"{vocabulary.name} lacks {len(missing)} of the {len(needed)} tokens that"
                f" {MERGES} and the 256 bytes make, {missing[0]!r} for one: the two files are not"
                f" of one checkpoint. {advice(vocabulary)}"
            )
        return ids

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without any around it."""
        return [
            self._ids[part]
            for piece in PRETOKENS.findall(text)
            for part in self._merged([self._letters[byte] for byte in piece.encode()])
        ]

    def _merged(self, parts: list[str]) -> list[str]:
        """Return a word's parts after the pair with the lowest rank was joined as often as any."""
        while len(parts) > 1:
            pairs = list(pairwise(parts))
            best = min(pairs, key=lambda pair: self._ranks.get(pair, len(self._ranks)))
            if best not in self._ranks:
                break
            joined: list[str] = []
            for part in parts:
                if joined and (joined[-1], part) == best:
                    joined[-1] += part
                else:
                    joined.append(part)
            parts = joined
        return parts
