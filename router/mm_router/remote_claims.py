"""Claims places of keys, and their tokens, at the routers that count them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import aiohttp
import orjson

from mm_edge.errors import KeyLimitError
from mm_router.claims import NUMBER, PATH, TOKENS_PATH
from mm_router.ejection import Ejections, Failure

_CLAIM_SECONDS = 1.0
"""For a place; the answer takes a millisecond. What a request waits longest for a lost owner."""

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
        self._ejections.keep(addresses)

    @asynccontextmanager
    async def claim(
        self, owner: str, authorization: str, name: str
    ) -> AsyncIterator["RemoteClaim"]:
        """Hold a place at a router while the block runs.

        Raises:
            OwnerLostError: it cannot be reached, or does not know the token (yet).
            KeyLimitError: the key has used up what it may.
        """
        if not self._ejections.some_open([owner], self._clock()):
            raise OwnerLostError("it did not answer before")
        self._ejections.chosen(owner)
        try:
            response = await self._request(owner, PATH, {"authorization": authorization})
        finally:
            self._ejections.left(owner)
        self._ejections.answered(owner)
        try:
            await _check(response, name)
            yield RemoteClaim(self, owner, response.headers.get(NUMBER, ""), name)
        finally:
            response.close()

    async def count_tokens(self, owner: str, number: str, name: str, counted: str) -> None:
        """Reserve or settle tokens of a claim that is held.

        Raises:
            OwnerLostError: the router that holds it does not answer, or holds it no longer.
            KeyLimitError: the key has not so many now.
        """
        if not number:
            raise OwnerLostError("it does not count tokens")
        target = f"{TOKENS_PATH}?claim={number}&{counted}"
        async with await self._request(owner, target, {}) as response:
            await _check(response, name)

    async def close(self) -> None:
        await self._session.close()

    async def _request(
        self, owner: str, target: str, headers: dict[str, str]
    ) -> aiohttp.ClientResponse:
        try:
            async with asyncio.timeout(_CLAIM_SECONDS):
                return await self._session.post(
                    f"http://{owner}{target}", headers=headers, allow_redirects=False
                )
        except (aiohttp.ClientError, OSError) as error:
            self._ejections.failed(owner, Failure.UNREACHABLE, self._clock())
            raise OwnerLostError(type(error).__name__) from None


class RemoteClaim:
    """A place that is held at another router, and the tokens that it has reserved there."""

    def __init__(self, claims: RemoteClaims, owner: str, number: str, name: str) -> None:
        self._claims = claims
        self._owner = owner
        self._number = number
        self._name = name
        self._reserved = False

    async def reserve(self, tokens: int) -> None:
        """Take tokens of the key's limit.

        Raises:
            OwnerLostError, KeyLimitError: as for the claim.
        """
        counted = f"reserve={tokens}"
        await self._claims.count_tokens(self._owner, self._number, self._name, counted)
        self._reserved = True

    async def settle(self, used: int) -> None:
        """Say what was used; without it everything that was reserved counts.

        Raises:
            OwnerLostError: the router that holds it does not answer.
        """
        if self._reserved:
            counted = f"used={used}"
            await self._claims.count_tokens(self._owner, self._number, self._name, counted)


async def _check(response: aiohttp.ClientResponse, name: str) -> None:
    """Raise what an answer of an owner means where it is no grant."""
    if response.status == HTTPStatus.TOO_MANY_REQUESTS:
        raise await _refusal(response, name)
    if response.status != HTTPStatus.OK:
        raise OwnerLostError(f"status {response.status}")


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
