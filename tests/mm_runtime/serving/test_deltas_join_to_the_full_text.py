"""Texts of the pieces of an answer, joined, are the text of the entire answer."""

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from mm_runtime.serving.postprocess.postprocessing import text_delta
from mm_runtime.serving.prompts.tokens import TextCodec
from support.tiny_llava import CHECKPOINT


def _join(tokenizer: Tokenizer, ids: list[int], sizes: int) -> tuple[str, list[str]]:
    pieces = [ids[at : at + sizes] for at in range(0, len(ids), sizes)]
    texts, previous = [], []
    for number, piece in enumerate(pieces, start=1):
        last = number == len(pieces)
        texts.append(text_delta(tokenizer.decode, previous, piece, last=last))
        previous = [*previous, *piece]
    return "".join(texts), texts


@pytest.fixture(scope="module")
def byte_level() -> Tokenizer:
    """A tokenizer whose every token is one byte, so most characters span several tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {byte: number for number, byte in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_characters_of_several_tokens(byte_level: Tokenizer, size: int) -> None:
    text = "größer: 日本語 🦙 end"
    joined, pieces = _join(byte_level, byte_level.encode(text).ids, size)
    assert (text, True) == (joined, all("\ufffd" not in piece for piece in pieces))


def test_incomplete_character_at_the_end_is_not_swallowed(byte_level: Tokenizer) -> None:
    ids = byte_level.encode("a🦙").ids[:-1]
    joined, _ = _join(byte_level, ids, 1)
    assert byte_level.decode(ids) == joined


def test_words_keep_their_spaces() -> None:
    codec = TextCodec(CHECKPOINT)
    ids = codec.encode_word("a red square")
    first, second = (
        text_delta(codec.decode, ids[:1], ids[1:2], last=False),
        text_delta(codec.decode, ids[:2], ids[2:], last=True),
    )
    assert (first, second) == (" red", " square")
