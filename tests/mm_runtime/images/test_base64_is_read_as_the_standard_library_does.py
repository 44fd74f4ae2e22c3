"""Base64 is decoded by a faster library, with the standard library's verdicts."""

import base64
import binascii
import random

import pytest

from mm_runtime.images.data_urls import decode_base64
from mm_runtime.images.media import BadImageError

LIMIT = 1 << 20
TEXTS = 20_000
LONGEST = 13
"""Three complete groups and a part of a fourth."""

ALPHABET = "ABCabc019+/" + "=" * 4 + "-_.é\x00"


def _standard(text: str) -> bytes | str:
    """Return what the standard library makes of a text, or what it says is wrong."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        return f"the data: URL is not valid base64 ({error})"


def _ours(text: str) -> bytes | str:
    try:
        return decode_base64(text, max_bytes=LIMIT)
    except BadImageError as error:
        return str(error)


def test_short_texts_of_any_kind_are_judged_alike() -> None:
    """Right ones, wrong lengths, padding in every place, other alphabets, other scripts."""
    chance = random.Random(1)  # noqa: S311 - the same texts in each run
    texts = ["".join(chance.choices(ALPHABET, k=chance.randrange(LONGEST))) for _ in range(TEXTS)]
    assert sum(isinstance(_standard(text), bytes) for text in texts) > TEXTS // 20
    assert [text for text in texts if _ours(text) != _standard(text)] == []


def test_padding_behind_complete_groups_is_taken() -> None:
    """The standard library takes it, and the faster one does not."""
    assert _ours("QUJD=") == _standard("QUJD=") == b"ABC"


@pytest.mark.parametrize("length", [0, 1, 2, 3, 64, 65, 66, 100_000])
def test_contents_come_back(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every padding, and without the slower library."""
    content = random.Random(length).randbytes(length)  # noqa: S311 - any bytes
    text = base64.b64encode(content).decode()
    monkeypatch.setattr(base64, "b64decode", None)
    assert decode_base64(text, max_bytes=LIMIT) == content


def test_one_wrong_character_is_found_anywhere() -> None:
    """In texts long enough for what is decoded many bytes at a time."""
    text = base64.b64encode(bytes(300)).decode()
    for at in range(len(text)):
        wrong = f"{text[:at]}*{text[at + 1 :]}"
        assert _ours(wrong) == _standard(wrong)
        assert isinstance(_ours(wrong), str)
