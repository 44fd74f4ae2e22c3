"""The gateway makes text of token ids: pieces of a stream, joined, are the text of all of them."""

from collections.abc import Sequence

import pytest
from tokenizers import Tokenizer, decoders, models

from mm_runtime.gateway.backends.token_text import REPLACEMENT, TokenText
from support.cases import cases

SENTENCE_PIECES = ("▁The", "▁cat", "▁s", "at", "<0xE2>", "<0x82>", "<0xAC>", "▁", ".", "</s>")
BYTE_LEVEL = ("The", "Ġcat", "Ġs", "at", "â", "Ĥ", "¬", "Ġ", ".", "</s>")
"""The same tokens as GPT's and Qwen's tokenizers write them; the euro sign has three."""


def tokenizer(words: Sequence[str], decoder: decoders.Decoder) -> Tokenizer:
    found = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}, "."))
    found.decoder = decoder
    found.add_special_tokens([words[-1]])
    return found


LLAMA = tokenizer(
    SENTENCE_PIECES,
    decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    ),
)
QWEN = tokenizer(BYTE_LEVEL, decoders.ByteLevel())
TOKENIZERS = [pytest.param(LLAMA, id="sentence-pieces"), pytest.param(QWEN, id="byte-level")]


def pieces(tokens: Tokenizer, ids: Sequence[int]) -> list[str]:
    text = TokenText(lambda some: tokens.decode(list(some), skip_special_tokens=True))
    return [*(text.push([token]) for token in ids), text.end()]


@pytest.mark.parametrize("tokens", TOKENIZERS)
@cases(
    "ids expected",
    {
        "spaces": ([0, 1, 2, 3], ["The", " cat", " s", "at", ""]),
        "character-of-three": ([0, 4, 5, 6, 8], ["The", "", "", "€", ".", ""]),
        "cut-inside-a-character": ([4, 5], ["", "", REPLACEMENT]),
        "special-tokens": ([0, 9, 1, 9], ["The", "", " cat", "", ""]),
        "nothing": ([], [""]),
    },
)
def test_pieces(tokens: Tokenizer, ids: list[int], expected: list[str]) -> None:
    """Spaces stay; a character comes when it is complete, a broken one at the end."""
    found = pieces(tokens, ids)
    if ids == [4, 5]:  # decoders write one mark for each byte, or one for both
        found = [*found[:-1], found[-1][:1]]
    assert expected == found


@pytest.mark.parametrize("tokens", TOKENIZERS)
@pytest.mark.parametrize("together", [2, 3, 7, 300])
def test_tokens_that_come_together(tokens: Tokenizer, together: int) -> None:
    """However tokens are joined on their way, the text is the same, and all of them count."""
    ids = [0, *((1, 4, 5, 6, 2, 3, 9, 7) * 40)]
    text = TokenText(lambda some: tokens.decode(list(some), skip_special_tokens=True))
    joined = "".join(text.push(ids[at : at + together]) for at in range(0, len(ids), together))
    assert tokens.decode(ids, skip_special_tokens=True) == joined + text.end()
    assert text.tokens == len(ids)


def test_an_incomplete_character_holds_back_no_other() -> None:
    """Of tokens that came together, those before it have their text at once."""
    text = TokenText(lambda some: QWEN.decode(list(some)))
    assert (text.push([1, 4]), text.push([5, 6, 8])) == (" cat", "€.")


@pytest.mark.parametrize(
    ("token", "most"), [(1, 2), (4, 99), (9, 99)], ids=["word", "broken-character", "special-token"]
)
def test_tokens_cost_no_more_each_time(token: int, most: int) -> None:
    """A thousand, which may never become text, are not decoded from the first one each time."""
    lengths: list[int] = []

    def decode(ids: Sequence[int]) -> str:
        lengths.append(len(ids))
        return QWEN.decode(list(ids), skip_special_tokens=True)

    text = TokenText(decode)
    for _ in range(1000):
        text.push([token])
    assert (max(lengths) <= most, text.tokens) == (True, 1000)
