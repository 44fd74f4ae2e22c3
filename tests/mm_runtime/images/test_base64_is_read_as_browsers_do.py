"""Base64 is decoded by a fast library, with the verdicts of WHATWG's forgiving-base64 decode."""

import base64
import random
import re
from string import ascii_letters, digits

import pytest

from mm_runtime.images.data_urls import decode_base64
from mm_runtime.images.media import BadImageError

LIMIT = 1 << 20
TEXTS = 20_000
LONGEST = 13
"""Three complete groups and a part of a fourth."""

ALPHABET = f"{ascii_letters[26:]}{ascii_letters[:26]}{digits}+/"
SENT = "ABCabc019+/" + "=" * 4 + "-_.é\x00 \n\t"


def _forgiving(text: str) -> bytes | None:
    """Return what the Infra standard makes of a text, None: failure."""
    text = re.sub(r"[\t\n\f\r ]", "", text)
    if len(text) % 4 == 0:
        text = re.sub("={1,2}$", "", text)
    if len(text) % 4 == 1 or any(one not in ALPHABET for one in text):
        return None
    bits = "".join(f"{ALPHABET.index(one):06b}" for one in text)
    return bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits) // 8 * 8, 8))


def _ours(text: str) -> bytes | None:
    try:
        return decode_base64(text, max_bytes=LIMIT)
    except BadImageError as error:
        assert str(error).startswith("the data: URL is not valid base64 (")  # noqa: PT017
        return None


def test_short_texts_of_any_kind_are_judged_alike() -> None:
    chance = random.Random(1)  # noqa: S311 - the same texts in each run
    texts = ["".join(chance.choices(SENT, k=chance.randrange(LONGEST))) for _ in range(TEXTS)]
    assert sum(_forgiving(text) is not None for text in texts) > TEXTS // 20
    assert [text for text in texts if _ours(text) != _forgiving(text)] == []


@pytest.mark.parametrize("length", [0, 1, 2, 3, 64, 65, 66, 100_000])
def test_contents_come_back(length: int) -> None:
    content = random.Random(length).randbytes(length)  # noqa: S311 - any bytes
    text = base64.b64encode(content).decode()
    lines = "\r\n".join(text[at : at + 76] for at in range(0, len(text), 76))
    escaped = text.replace("+", "%2B").replace("/", "%2f").replace("=", "%3D")
    for sent in (text, text.rstrip("="), lines, escaped):
        assert decode_base64(sent, max_bytes=LIMIT) == content


def test_one_wrong_character_is_found_anywhere() -> None:
    """In texts long enough for what is decoded many bytes at a time."""
    text = base64.b64encode(bytes(300)).decode()
    for at in range(len(text)):
        with pytest.raises(BadImageError, match=rf"'\*' at character {at}"):
            decode_base64(f"{text[:at]}*{text[at + 1 :]}", max_bytes=LIMIT)
