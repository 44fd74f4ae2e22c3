"""What a host sends: its headers do not say what an image is, and no part of it may be missing."""

import gzip

import numpy as np
import pytest

from mm_runtime.images.fetch import FetchPolicy, FetchRefusedError, ImageFetcher
from mm_runtime.images.media import BadImageError, decode
from support.http_servers import Exchange, serve_local
from support.image_files import photograph
from support.images import encode

LIMIT = 100_000
IMAGE = encode(photograph())

TAKEN = {
    "its-type": (IMAGE, {"content-type": "image/png"}),
    "another-type": (IMAGE, {"content-type": "image/jpeg"}),
    "a-type-of-texts": (IMAGE, {"content-type": "text/html; charset=utf-8"}),
    "no-type": (IMAGE, {}),
    "nosniff": (IMAGE, {"content-type": "text/plain", "x-content-type-options": "nosniff"}),
    "identity": (IMAGE, {"content-encoding": "identity"}),
}

REFUSED = {
    "cut": (IMAGE[:-9], {"content-length": str(len(IMAGE))}, "could not be fetched"),
    "gzip": (gzip.compress(IMAGE), {"content-encoding": "GZIP"}, "Content-Encoding 'GZIP'"),
    "brotli": (IMAGE, {"content-encoding": "br"}, "Content-Encoding 'br', though identity"),
    "a-page": (
        b"<!doctype html><title>Sign in</title>",
        {"content-type": "image/png"},
        "an HTML page",
    ),
    "json": (b'{"error": "no such image"}', {}, "they look like JSON"),
    "nothing": (b"", {"content-type": "image/png"}, r"empty \(0 bytes\)"),
}


async def _fetched(content: bytes, headers: dict[str, str]) -> bytes:
    async def handler(exchange: Exchange) -> None:
        length = "content-length" not in headers
        await exchange.answer(200, content, length=length, **headers)

    policy = FetchPolicy((), allow_private_networks=True, timeout_seconds=60, max_bytes=LIMIT)
    async with serve_local(handler) as server:
        return await ImageFetcher(policy).fetch(f"http://localhost:{server.port}/")


@pytest.mark.parametrize("name", TAKEN)
async def test_headers_say_nothing_of_the_image(name: str) -> None:
    found = decode(await _fetched(*TAKEN[name]), max_pixels=LIMIT)
    assert np.array_equal(np.asarray(found), np.asarray(photograph()))


@pytest.mark.parametrize("name", REFUSED)
async def test_what_is_no_complete_image_is_refused(name: str) -> None:
    content, headers, words = REFUSED[name]
    with pytest.raises((FetchRefusedError, BadImageError), match=words):
        decode(await _fetched(content, headers), max_pixels=LIMIT)


@pytest.mark.parametrize("status", [204, 206, 301, 404])
async def test_only_a_complete_answer_is_an_image(status: int) -> None:
    """Whatever stands in the body of another one."""

    async def handler(exchange: Exchange) -> None:
        await exchange.answer(status, b"" if status == 204 else IMAGE)

    policy = FetchPolicy((), allow_private_networks=True, timeout_seconds=60, max_bytes=LIMIT)
    async with serve_local(handler) as server:
        with pytest.raises(FetchRefusedError, match=f"status {status}|without saying where to"):
            await ImageFetcher(policy).fetch(f"http://localhost:{server.port}/")
