"""Reads request bodies within limits of size, time and memory."""

import asyncio
import io
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass

from mm_edge.asgi import Receive
from mm_edge.body_budget import BodyClaim
from mm_edge.errors import BodyEncodedError, BodyTimeoutError, BodyTooLargeError
from mm_edge.patience import Patience

_DISCARD_SECONDS = 2.0
"""How long the rest of a refused body is read before its connection is closed."""

_MOST_NAMED = 32
"""Characters of a name that an error repeats."""


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """How slowly a client may send a body.

    Attributes:
        total_seconds: for the complete body.
        window_seconds: a client may stop for so long, as a telephone between two cells does.
        window_bytes: at least so many in each window.
    """

    total_seconds: float
    window_seconds: float = 10.0
    window_bytes: int = 40 * 1024


class ClientGoneError(Exception):
    """The client closed the connection; no answer can be sent."""


async def read_body(
    receive: Receive,
    headers: Mapping[str, str],
    claim: BodyClaim,
    *,
    limit: int,
    upload: UploadLimits,
) -> bytes:
    """Return the body; `claim` holds its memory.

    Raises:
        BodyEncodedError: it is compressed.
        BodyTooLargeError: more than `limit` bytes, by its header or by what came.
        OverloadedError: bodies of other requests leave no room for it.
        BodyTimeoutError: it came more slowly than `upload` allows.
        ClientGoneError: the client left.
    """
    # Else the refusal would be that it is no JSON.
    if (coding := headers.get("content-encoding", "").strip().lower()) not in {"", "identity"}:
        raise BodyEncodedError(
            f"Bodies with Content-Encoding {coding[:_MOST_NAMED]!r} are not read. Send it without."
        )
    declared = headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared) > limit:
        raise _too_large(limit)
    try:
        async with asyncio.timeout(upload.total_seconds):
            return await _read(receive, claim, limit, upload)
    except TimeoutError:
        raise BodyTimeoutError(
            f"The body was not complete within {upload.total_seconds:g} seconds."
        ) from None


async def discard_body(receive: Receive) -> None:
    """Read on without keeping anything, so that a refusal is read before the connection closes."""
    try:
        async with asyncio.timeout(_DISCARD_SECONDS):
            while (message := await receive())["type"] == "http.request":
                if not message.get("more_body"):
                    return
    except TimeoutError:
        return


async def wait_for_disconnect(receive: Receive) -> None:
    """Return when the client has closed the connection. Call it after all of the body was read."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def until_disconnect(
    work: Coroutine[None, None, None], receive: Receive, complete: Callable[[], bool]
) -> None:
    """Do the work of an answer; cancel it when the client leaves before the answer is complete.

    Raises:
        ClientGoneError: the client left.
    """
    task = asyncio.create_task(work)
    watcher = asyncio.create_task(wait_for_disconnect(receive))
    try:
        await asyncio.wait({task, watcher}, return_when=asyncio.FIRST_COMPLETED)
        if task.done() or complete():
            await task
            return
        task.cancel()
        await asyncio.wait({task})
        raise ClientGoneError
    finally:
        watcher.cancel()
        task.cancel()
        await asyncio.wait({task, watcher})
        # An exception of the task holds this frame by its traceback, and the frame the task: such
        # a ring, with the body inside, stays until a full collection comes by.
        del task, watcher


async def _read(receive: Receive, claim: BodyClaim, limit: int, upload: UploadLimits) -> bytes:
    # Gives its content away without a copy, which is 0.4 ms of a megabyte: its pages are new.
    body, held = io.BytesIO(), 0
    due = upload.window_bytes
    try:
        async with Patience(upload.window_seconds) as window:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGoneError
                chunk = message.get("body", b"")
                if held + len(chunk) > limit:
                    raise _too_large(limit)
                claim.grow(len(chunk))
                held += body.write(chunk)
                if not message.get("more_body"):
                    return body.getvalue()
                if held >= due:
                    due = held + upload.window_bytes
                    window.restart()
    except TimeoutError:
        raise BodyTimeoutError(
            f"The body came too slowly: expected at least {upload.window_bytes} bytes in "
            f"{upload.window_seconds:g} seconds."
        ) from None


def _too_large(limit: int) -> BodyTooLargeError:
    return BodyTooLargeError(
        f"The body is larger than {limit} bytes, the limit for this model. Send fewer or smaller "
        "images, or send URLs.",
        code="request_too_large",
    )
