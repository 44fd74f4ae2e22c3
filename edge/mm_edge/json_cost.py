"""PURE: what it would take to parse a JSON body, counted before anything is built from it.

A parser makes an object of each element: 6 MB of `{},` became 3.6 GiB and 11 s of a standing event
loop. Images are base64, which holds neither commas nor escapes, so counting both bounds the work
and refuses no image.
"""

from mm_edge.errors import InvalidRequestError

MAX_ELEMENTS = 16_384
"""Commas outside strings: as many as the most messages (4,096) with one text part each have. As
many are parsed in 10 ms."""

MAX_ESCAPES = 1_000_000
"""Backslashes: PHP writes two of 128 characters of base64 as `\\/`, some clients all of a text in
another script as `\\uXXXX`. So many are read in 30 ms."""

TEXT_BYTES = 4 * 1024 * 1024
"""Bytes that base64 does not have: blanks, punctuation, escapes, other scripts. A million tokens of
Chinese have about so many."""
_WRAPPED = 16
"""Base64 may have one such byte in so many: line breaks of 76 characters, and PHP's escaped `/`,
are one in 24."""

_CHUNK_BYTES = 1024 * 1024
"""Counted at a time, in about 2 ms, so that a thread lets the event loop run in between."""
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
_QUOTES_PER_ELEMENT = 4
"""A name and a text."""

SMALL_BYTES = 64 * 1024
"""Whatever they hold, they are parsed in about a millisecond."""

_MEDIA_BYTES = 640 * 1024
"""Bodies of few elements are copied in a quarter of one."""

_FOUND_ONE_BY_ONE = 256
"""As many are found in 0.03 ms. Python before 3.13 counts bytes one after the other, 1.3 ms a
megabyte, where it looks for a single one with `memchr`: most images are one search."""


def is_soon_parsed(body: bytes) -> bool:
    """Return whether a body is parsed in less time than a thread costs: small, or media."""
    if len(body) <= SMALL_BYTES:
        return True
    few = (_count(body, one, 0, len(body)) <= _FOUND_ONE_BY_ONE for one in (b",", b"\\"))
    return len(body) <= _MEDIA_BYTES and all(few)


def check_cost(body: bytes) -> None:
    """Refuse a body that takes much more to parse than its bytes take to receive."""
    commas = escapes = text = 0
    # It cannot hold too much text: 3 ms less of a megabyte's image.
    is_small = len(body) <= TEXT_BYTES
    for start in range(0, len(body), _CHUNK_BYTES):
        end = start + _CHUNK_BYTES
        commas += _count(body, b",", start, end)
        escapes += _count(body, b"\\", start, end)
        text += 0 if is_small else len(body[start:end].translate(None, _BASE64))
    # Texts with so many commas are rare; only those are looked into.
    if commas > MAX_ELEMENTS and _has_more_elements(body):
        raise _too_much(
            f"more than {MAX_ELEMENTS} elements", "Send fewer messages, parts or ids of tokens"
        )
    if escapes > MAX_ESCAPES:
        raise _too_much(f"{escapes} escapes, at most {MAX_ESCAPES} are read", "Send UTF-8")
    if text > TEXT_BYTES + len(body) // _WRAPPED:
        most = f"{text} bytes besides base64, at most {TEXT_BYTES} are read"
        raise _too_much(most, "Send a shorter text")


def _count(body: bytes, one: bytes, start: int, end: int) -> int:
    """Return how many of one byte are in a part of a body, quickly where they are few."""
    for found in range(_FOUND_ONE_BY_ONE):
        at = body.find(one, start, end)
        if at < 0:
            return found
        start = at + 1
    return _FOUND_ONE_BY_ONE + body.count(one, start, end)


def _too_much(what: str, remedy: str) -> InvalidRequestError:
    return InvalidRequestError(f"The body has {what}. {remedy}.", code="request_too_large")


def _has_more_elements(body: bytes) -> bool:
    """Return whether too many commas stand outside strings, or more strings than go with them."""
    commas = quotes = 0
    carried = b""
    for start in range(0, len(body), _CHUNK_BYTES):
        chunk = carried + body[start : start + _CHUNK_BYTES]
        # An escape that the end of the chunk cuts belongs to the next one.
        cut = (len(chunk) - len(chunk.rstrip(b"\\"))) % 2
        carried = b"\\" * cut
        plain = chunk[: len(chunk) - cut].replace(b"\\\\", b"").replace(b'\\"', b"")
        pieces = plain.split(b'"')
        commas += b"".join(pieces[quotes % 2 :: 2]).count(b",")
        quotes += len(pieces) - 1
        if commas > MAX_ELEMENTS or quotes > _QUOTES_PER_ELEMENT * MAX_ELEMENTS:
            return True
    return False
