"""Places of a key at the router that counts it: an open answer is a place that is taken.

A claim carries the token of the client and nothing else. Who has the token may use up its limits
anyway, so routers need no secret between them. While it is held, tokens are reserved and settled by
its number, which only its answer has: so a key gets back what its own claim has taken, and no more.
"""

import asyncio
import secrets
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from urllib.parse import parse_qs

from mm_edge.asgi import Receive, Scope, Send
from mm_edge.body import ClientGoneError, wait_for_disconnect
from mm_edge.drain import Drain
from mm_edge.errors import GatewayError, InvalidRequestError, KeyLimitError
from mm_edge.key_limits import KeyClaim
from mm_router.client_response import ClientResponse

PATH = "/claims"
TOKENS_PATH = "/claims/tokens"
"""Query: `claim` is the number of one that is held, `reserve` or `used` a number of tokens."""

NUMBER = "x-claim"
"""Header of the answer to a claim; that of a router of an older version has none."""

_SIGN_OF_LIFE_SECONDS = 10.0
"""Between two bytes that an owner sends; the kernel finds out that no acknowledgement comes."""

_DIGITS = 18


class Claims:
    """ASGI application for other routers.

    Args:
        claimed: counts a request of a token while its block runs.
    """

    def __init__(
        self,
        claimed: Callable[[str | None], AbstractAsyncContextManager[KeyClaim]],
        drain: Drain,
    ) -> None:
        self._claimed = claimed
        self._drain = drain
        self._held: dict[str, KeyClaim] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hold a place until the other router closes the connection, or count its tokens."""
        response = ClientResponse(send, self._drain)
        try:
            match scope["method"], scope["path"]:
                case "POST", path if path == PATH:
                    await self._hold(scope, receive, response)
                case "POST", path if path == TOKENS_PATH:
                    self._count(parse_qs(scope["query_string"].decode("latin-1")))
                    await response.send_json(HTTPStatus.OK, {}, {})
                case _:
                    message = f"Other routers send POST {PATH} and {TOKENS_PATH} here."
                    raise InvalidRequestError(message)
        except ClientGoneError:
            pass
        except KeyLimitError as error:
            refusal = {"message": error.message, "reason": error.reason}
            wait = {"retryAfterSeconds": error.retry_after_seconds}
            await response.send_json(error.status, {**refusal, **wait}, {})
        except GatewayError as error:
            await response.fail(error, receive)

    async def _hold(self, scope: Scope, receive: Receive, response: ClientResponse) -> None:
        headers = dict(scope["headers"])
        async with self._claimed(headers.get(b"authorization", b"").decode("latin-1")) as claim:
            number = secrets.token_urlsafe(16)
            self._held[number] = claim
            try:
                head = {"content-type": "text/plain", NUMBER: number}
                await response.start(HTTPStatus.OK, head)
                await _held(response, receive)
            finally:
                del self._held[number]

    def _count(self, query: dict[str, list[str]]) -> None:
        match query:
            case {"claim": [number], "reserve": [tokens]} if number in self._held:
                claim, reserved = self._held[number], _number(tokens)
                claim.reserve(reserved)
                # Until the other router says less: it may end before it does.
                claim.used += reserved
            case {"claim": [number], "used": [tokens]} if number in self._held:
                self._held[number].used = _number(tokens)
            case _:
                raise InvalidRequestError("There is no such claim.")


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise InvalidRequestError("The number of tokens is none.")
    return int(text)


async def _held(response: ClientResponse, receive: Receive) -> None:
    gone = asyncio.create_task(wait_for_disconnect(receive))
    try:
        while not gone.done():
            await response.write(b"\n", more=True)
            await asyncio.wait({gone}, timeout=_SIGN_OF_LIFE_SECONDS)
    finally:
        gone.cancel()
        await asyncio.wait({gone})
