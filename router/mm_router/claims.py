"""Places of a key at the router that counts it: an open answer is a place that is taken.

A claim carries the token of the client and nothing else. Who has the token may use up its limits
anyway, so routers need no secret between them.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from http import HTTPStatus
from typing import Any

import aiohttp
import orjson

from mm_edge.asgi import Receive, Scope, Send
from mm_edge.body import ClientGoneError, wait_for_disconnect
from mm_edge.drain import Drain
from mm_edge.errors import GatewayError, InvalidRequestError, KeyLimitError
from mm_router.client_response import ClientResponse
from mm_router.ejection import Ejections, Failure

PATH = "/claims"

_CLAIM_SECONDS = 1.0
"""For a place; the answer takes a millisecond. What a request waits longest for a lost owner."""

_SIGN_OF_LIFE_SECONDS = 10.0
"""Between two bytes that an owner sends; the kernel finds out that no acknowledgement comes."""

_REFUSAL_BYTES = 4096


class OwnerLostError(Exception):
    """The router that counts a key did not say whether there is a place."""


class RemoteClaims:
    """Claims places at other routers; one that does not answer is left alone for a while.

    Args:
        clock: seconds that only go forward.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ejections = Ejections()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),  # each is of a client's request
            timeout=aiohttp.ClientTimeout(total=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )

    def keep(self, addresses: Collection[str]) -> None:
        """Forget routers that are gone."""
        self._ejections.keep(addresses)

    @asynccontextmanager
    async def claim(self, owner: str, authorization: str, name: str) -> AsyncIterator[None]:
        """Hold a place at a router while the block runs.

        Raises:
            OwnerLostError: it cannot be reached, or does not know the token (yet).
            KeyLimitError: the key has used up what it may.
        """
        if not self._ejections.some_open([owner], self._clock()):
            raise OwnerLostError("it did not answer before")
        self._ejections.chosen(owner)
        try:
            response = await self._request(owner, authorization)
        finally:
            self._ejections.left(owner)
        self._ejections.answered(owner)
        try:
            if response.status == HTTPStatus.TOO_MANY_REQUESTS:
                raise await _refusal(response, name)
            if response.status != HTTPStatus.OK:
                raise OwnerLostError(f"status {response.status}")
            yield
        finally:
            response.close()

    async def close(self) -> None:
        """Give every place back."""
        await self._session.close()

    async def _request(self, owner: str, authorization: str) -> aiohttp.ClientResponse:
        try:
            async with asyncio.timeout(_CLAIM_SECONDS):
                return await self._session.post(
                    f"http://{owner}{PATH}",
                    headers={"authorization": authorization},
                    allow_redirects=False,
                )
        except (aiohttp.ClientError, OSError) as error:
            self._ejections.failed(owner, Failure.UNREACHABLE, self._clock())
            raise OwnerLostError(type(error).__name__) from None


class Claims:
    """ASGI application for other routers.

    Args:
        claimed: counts a request of a token while its block runs.
    """

    def __init__(
        self,
        claimed: Callable[[str | None], AbstractAsyncContextManager[None]],
        drain: Drain,
    ) -> None:
        self._claimed = claimed
        self._drain = drain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hold a place until the other router closes the connection."""
        response = ClientResponse(send, self._drain)
        try:
            if (scope["method"], scope["path"]) != ("POST", PATH):
                raise InvalidRequestError(f"Other routers send POST {PATH} here, and nothing else.")
            headers = dict(scope["headers"])
            async with self._claimed(headers.get(b"authorization", b"").decode("latin-1")):
                await response.start(HTTPStatus.OK, {"content-type": "text/plain"})
                await _held(response, receive)
        except ClientGoneError:
            pass
        except KeyLimitError as error:
            refusal = {"message": error.message, "reason": error.reason}
            wait = {"retryAfterSeconds": error.retry_after_seconds}
            await response.send_json(error.status, {**refusal, **wait}, {})
        except GatewayError as error:
            await response.fail(error, receive)


async def _held(response: ClientResponse, receive: Receive) -> None:
    gone = asyncio.create_task(wait_for_disconnect(receive))
    try:
        while not gone.done():
            await response.write(b"\n", more=True)
            await asyncio.wait({gone}, timeout=_SIGN_OF_LIFE_SECONDS)
    finally:
        gone.cancel()
        await asyncio.wait({gone})


async def _refusal(response: aiohttp.ClientResponse, name: str) -> KeyLimitError:
    """Return what an owner refuses with, as this router's own refusal."""
    try:
        async with asyncio.timeout(_CLAIM_SECONDS):
            content = await response.content.read(_REFUSAL_BYTES)
        refusal: Any = orjson.loads(content)
        message, reason = str(refusal["message"]), str(refusal["reason"])
        seconds = int(refusal["retryAfterSeconds"])
    except (aiohttp.ClientError, OSError, ValueError, KeyError, TypeError) as cause:
        raise OwnerLostError("its refusal cannot be read") from cause
    return KeyLimitError(
        message,
        key=name,
        retry_after_seconds=seconds,
        reason=reason,
        code="rate_limit_exceeded",
    )
