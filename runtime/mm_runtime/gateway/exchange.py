"""One completion over ASGI, from the first byte to the last: the only stateful part of HTTP.

Headers go out with the first piece of text, so everything that fails before it gets its own status.
A client that leaves ends the work at once: the generation is cancelled and its slot is free.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus
from typing import Self
from uuid import uuid4

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from mm_runtime.gateway.auth import BearerAuth
from mm_runtime.gateway.body import (
    BodyBudget,
    BodyClaim,
    ClientGoneError,
    discard_body,
    read_body,
    wait_for_disconnect,
)
from mm_runtime.gateway.completions import (
    ChatCompletion,
    Completion,
    TextCompletion,
    Usage,
)
from mm_runtime.gateway.dataplane import Admitted, ChatService, Event, Finished, Piece, PreparedChat
from mm_runtime.gateway.drain import Drain
from mm_runtime.gateway.errors import (
    EngineTimeoutError,
    RetryLaterError,
    error_response,
)
from mm_runtime.gateway.metrics import GatewayMetrics
from mm_runtime.gateway.openai import ChatRequest, CompletionRequest
from mm_runtime.gateway.parsing import parse_chat, parse_completion
from mm_runtime.gateway.record import ExchangeRecord
from mm_runtime.gateway.reply import Reply

_log = logging.getLogger(__name__)

_DISCARD_SECONDS = 2.0
"""How long the rest of a refused body is read before a connection that ends is closed."""


@dataclass(frozen=True, slots=True)
class ExchangeLimits:
    """Limits of one exchange."""

    max_body_bytes: int
    body_timeout_seconds: float
    request_timeout_seconds: float


@dataclass(frozen=True, slots=True)
class _StreamForm:
    """What a streamed answer holds."""

    with_usage: bool

    @classmethod
    def of(cls, request: ChatRequest | CompletionRequest) -> Self | None:
        """Return the form a client asked for, or None for a plain answer."""
        if not request.stream:
            return None
        options = request.stream_options
        return cls(with_usage=options is not None and options.include_usage)


@dataclass(frozen=True, slots=True)
class Dialect:
    """One of OpenAI's two ways of asking and answering."""

    parse: Callable[[bytes], ChatRequest | CompletionRequest]
    completion: type[Completion]


CHAT = Dialect(parse_chat, ChatCompletion)
TEXT = Dialect(parse_completion, TextCompletion)


class Endpoint:
    """ASGI application behind `POST /v1/chat/completions` or `POST /v1/completions`."""

    def __init__(
        self,
        *,
        service: ChatService,
        metrics: GatewayMetrics,
        auth: BearerAuth,
        drain: Drain,
        limits: ExchangeLimits,
        bodies: BodyBudget,
        dialect: Dialect,
    ) -> None:
        self._service = service
        self._metrics = metrics
        self._auth = auth
        self._drain = drain
        self._limits = limits
        self._bodies = bodies
        self._dialect = dialect

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request_id = uuid4().hex
        headers = {"x-request-id": request_id}
        if self._drain.closing:
            headers["connection"] = "close"
        reply = Reply(send, headers)
        record = ExchangeRecord(self._metrics, request_id)
        try:
            with self._drain.inside():
                await self._exchange(Headers(scope=scope), receive, reply, record)
                record.status = 200
        except ClientGoneError:
            pass
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets one answer
            await self._fail(error, receive, reply, record)
        finally:
            record.close()

    async def _exchange(
        self,
        headers: Headers,
        receive: Receive,
        reply: Reply,
        record: ExchangeRecord,
    ) -> None:
        self._auth.check(headers.get("authorization"))
        with self._service.admission.place(), self._bodies.claim() as claim:
            body = read_body(
                receive,
                headers,
                claim,
                limit=self._limits.max_body_bytes,
                timeout_seconds=self._limits.body_timeout_seconds,
            )
            work = self._answer(await body, claim, reply, record)
            await _until_disconnect(work, receive, reply)

    async def _answer(
        self, body: bytes, claim: BodyClaim, reply: Reply, record: ExchangeRecord
    ) -> None:
        limit = self._limits.request_timeout_seconds
        left = limit - record.elapsed
        try:
            async with asyncio.timeout(left):
                request = self._dialect.parse(body)
                chat = await self._service.prepare(request)
                streamed = _StreamForm.of(request)
                # Up to tens of megabytes that are not needed while the request waits and runs.
                del body, request
                claim.release()
                record.prepared(chat)
                answer = self._service.answer(chat, request_id=record.request_id)
                completion = self._dialect.completion(
                    model=self._service.model,
                    request_id=record.request_id,
                    created=int(time.time()),
                )
                async with aclosing(_watched(answer, record)) as events:
                    if streamed is not None:
                        await _send_stream(streamed, events, completion, chat, reply)
                    else:
                        await _send_whole(events, completion, chat, reply)
        except TimeoutError:
            raise EngineTimeoutError(
                f"The request was not finished within {limit:g} seconds.", code="timeout"
            ) from None

    async def _fail(
        self,
        error: Exception,
        receive: Receive,
        reply: Reply,
        record: ExchangeRecord,
    ) -> None:
        response = error_response(error)
        record.status = response.status
        if isinstance(error, RetryLaterError):
            self._metrics.count_rejected(error.reason)
        if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            # Refusals are not logged: their messages can hold what the client wrote.
            _log.warning("request failed", exc_info=error, extra={"request": record.request_id})
        if reply.complete:
            return
        if reply.started:
            await reply.send_event(response.body)
            await reply.close_stream(done=False)
            return
        if "connection" in response.headers:
            await discard_body(receive, timeout_seconds=_DISCARD_SECONDS)
        await reply.send_json(response.status, response.body, response.headers)


async def _watched(
    events: AsyncGenerator[Event, None], record: ExchangeRecord
) -> AsyncGenerator[Piece | Finished, None]:
    """Record every event; pass on those that a client sees."""
    async with aclosing(events):
        async for event in events:
            record.event(event)
            if not isinstance(event, Admitted):
                yield event


async def _send_whole(
    events: AsyncGenerator[Piece | Finished, None],
    completion: Completion,
    chat: PreparedChat,
    reply: Reply,
) -> None:
    pieces = []
    async for event in events:
        match event:
            case Piece():
                pieces.append(event.text)
            case Finished():
                usage = Usage(chat.budget.prompt_tokens, event.completion_tokens)
                await reply.send_json(200, completion.whole("".join(pieces), event.reason, usage))


async def _send_stream(
    form: _StreamForm,
    events: AsyncGenerator[Piece | Finished, None],
    completion: Completion,
    chat: PreparedChat,
    reply: Reply,
) -> None:
    with_usage = form.with_usage
    async for event in events:
        if not reply.started:
            await reply.open_stream()
            if completion.opens:
                await reply.send_event(completion.chunk(None, with_usage=with_usage))
        match event:
            case Piece() if event.text:
                await reply.send_event(completion.chunk(event.text, with_usage=with_usage))
            case Finished():
                last = completion.chunk("", reason=event.reason, with_usage=with_usage)
                await reply.send_event(last)
                if with_usage:
                    usage = Usage(chat.budget.prompt_tokens, event.completion_tokens)
                    await reply.send_event(completion.usage_chunk(usage))
                await reply.close_stream(done=True)


async def _until_disconnect(
    work: Coroutine[None, None, None], receive: Receive, reply: Reply
) -> None:
    """Do the work; cancel it when the client leaves before the answer is complete.

    Raises:
        ClientGoneError: the client left.
    """
    task = asyncio.create_task(work)
    watcher = asyncio.create_task(wait_for_disconnect(receive))
    try:
        await asyncio.wait({task, watcher}, return_when=asyncio.FIRST_COMPLETED)
        if task.done() or reply.complete:
            await task
            return
        task.cancel()
        await asyncio.wait({task})
        raise ClientGoneError
    finally:
        watcher.cancel()
        task.cancel()
        await asyncio.wait({task, watcher})
