"""Reads request bodies within limits of size and time."""

import asyncio
from collections.abc import Mapping

from starlette.types import Receive

from mm_runtime.gateway.errors import BodyTimeoutError, BodyTooLargeError

_TEXT_BYTES = 1024 * 1024
"""Room for everything that is not an image."""


class ClientGoneError(Exception):
    """The client closed the connection; nobody is left to answer."""


def max_body_bytes(*, images: int, image_bytes: int) -> int:
    """Return the size of a body that holds the most and largest images as base64."""
    return images * (image_bytes * 4 // 3 + 1024) + _TEXT_BYTES


async def read_body(
    receive: Receive, headers: Mapping[str, str], *, limit: int, timeout_seconds: float
) -> bytes:
    """Return the body.

    Raises:
        BodyTooLargeError: more than `limit` bytes, by its header or by what came.
        BodyTimeoutError: it was not complete within `timeout_seconds`.
        ClientGoneError: the client left.
    """
    declared = headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared) > limit:
        raise _too_large(limit)
    try:
        async with asyncio.timeout(timeout_seconds):
            return await _read(receive, limit)
    except TimeoutError:
        raise BodyTimeoutError(
            f"The body was not complete within {timeout_seconds:g} seconds."
        ) from None


async def discard_body(receive: Receive, *, timeout_seconds: float) -> None:
    """Read on without keeping anything, so that a refusal is read before the connection closes."""
    try:
        async with asyncio.timeout(timeout_seconds):
            while (message := await receive())["type"] == "http.request":
                if not message.get("more_body"):
                    return
    except TimeoutError:
        return


async def wait_for_disconnect(receive: Receive) -> None:
    """Return when the client has closed the connection. Call it after the whole body was read."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _read(receive: Receive, limit: int) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        body += message.get("body", b"")
        if len(body) > limit:
            raise _too_large(limit)
        if not message.get("more_body"):
            return bytes(body)


def _too_large(limit: int) -> BodyTooLargeError:
    return BodyTooLargeError(
        f"The body is larger than {limit} bytes, the limit for this model. Send fewer or smaller "
        "images, or send URLs.",
        code="request_too_large",
    )
