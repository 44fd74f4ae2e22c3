"""Images of a body that are decoded from base64 before its JSON is parsed.

A parser makes the `data:` URL of a megabyte's image a text twice, and what is behind its comma a
third one: of 1.4 MB of new pages each. Here the URL is taken out of the body, and its bytes stand
in the request where the parser has found a short one in its place.
"""

import binascii
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pybase64

from mm_runtime.gateway.api.messages import ImagePart, Message
from mm_runtime.images.data_urls import DecodedUrl

_OPENING = b'"data:image/'
_HEAD = re.compile(rb'"(data:image/[a-z0-9.+-]{1,32};base64,)')

_LEAST_BYTES = 64 * 1024
"""Length of a URL; a shorter one is parsed in less than 0.1 ms."""

_MOST_LOOKED_AT = 4096
"""URLs in a body. A request may have fewer images; each look costs a microsecond."""


@dataclass(frozen=True, slots=True)
class TakenOut:
    """A body without its large images."""

    body: bytes
    """With a short URL for each."""

    images: Mapping[str, DecodedUrl]
    """By that URL."""


def take_out(body: bytes) -> TakenOut:
    """Return a body without the large images in it.

    What is not exactly base64 stays: it is the parser's to judge. What is no image's URL may go, as
    a text that looks like one: `put_back` finds no place for it.
    """
    images: dict[str, DecodedUrl] = {}
    parts: list[bytes | memoryview] = []
    all_of_it = memoryview(body)
    kept = 0
    for head, end in _large_urls(body):
        content = _decoded(all_of_it[head.end() : end])
        if content is None:
            continue
        short = head[1].decode() + secrets.token_urlsafe()
        images[short] = DecodedUrl.of(short, content)
        parts += (all_of_it[kept : head.start(1)], short.encode())
        kept = end
    if not images:
        return TakenOut(body, images)
    return TakenOut(b"".join((*parts, all_of_it[kept:])), images)


def bytes_besides(body: bytes) -> int:
    """Return how much of a body is no large image's URL; one with escapes is parsed as any text."""
    urls = [(head.start(), end) for head, end in _large_urls(body)]
    return len(body) - sum(end - start for start, end in urls if body.find(b"\\", start, end) < 0)


def put_back(messages: Sequence[Message], images: Mapping[str, DecodedUrl]) -> bool:
    """Put images where their short URLs stand; return whether each stands where an image does."""
    found = 0
    for message in messages:
        if message.content is None or isinstance(message.content, str):
            continue
        for number, part in enumerate(message.content):
            if not isinstance(part, ImagePart):
                continue
            image = images.get(part.image_url.url)
            if image is not None:
                url = part.image_url.model_copy(update={"url": image})
                message.content[number] = part.model_copy(update={"image_url": url})
                found += 1
    return found == len(images)


def _large_urls(body: bytes) -> Iterator[tuple[re.Match[bytes], int]]:
    """Yield the head of each URL that may be taken out, from its quote on, and where it ends."""
    at = 0
    for _ in range(_MOST_LOOKED_AT):
        start = body.find(_OPENING, at)
        at = body.find(b'"', start + 1) if start >= 0 else -1
        if at < 0:
            return
        head = _HEAD.match(body, start)
        if head is not None and at - start >= _LEAST_BYTES:
            yield head, at


def _decoded(encoded: memoryview) -> bytes | None:
    try:
        return pybase64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return None
