"""One chat completion over ASGI, from the first byte to the last: the only stateful part of HTTP.

Headers go out with the first piece of text, so everything that fails before it gets its own status.
A client that leaves ends the work at once: the generation is cancelled and its slot is free.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from uuid import uuid4

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from mm_runtime.gateway.auth import BearerAuth
from mm_runtime.gateway.body import ClientGoneError, discard_body, read_body, wait_for_disconnect
from mm_runtime.gateway.completions import Completion, Usage
from mm_runtime.gateway.dataplane import Admitted, ChatService, Event, Finished, Piece, PreparedChat
from mm_runtime.gateway.drain import Drain
from mm_runtime.gateway.errors import (
    EngineTimeoutError,
    GatewayError,
    RetryLaterError,
    error_response,
)
from mm_runtime.gateway.metrics import CLIENT_GONE, GatewayMetrics
from mm_runtime.gateway.openai import ChatRequest
from mm_runtime.gateway.parsing import parse_chat
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


@dataclass(slots=True)
class _Record:
    """What metrics and the log line say about one exchange."""

    started: float
    status: int = 0
    first_token: float | None = None
    last_token: float | None = None
    waited_seconds: float = 0.0
    images: int = 0
    prompt_tokens: int = 0
    image_tokens: int = 0
    output_tokens: int = 0


class ChatEndpoint:
    """ASGI application behind `POST /v1/chat/completions`."""

    def __init__(
        self,
        *,
        service: ChatService,
        metrics: GatewayMetrics,
        auth: BearerAuth,
        drain: Drain,
        limits: ExchangeLimits,
    ) -> None:
        self._service = service
        self._metrics = metrics
        self._auth = auth
        self._drain = drain
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request_id = uuid4().hex
        headers = {"x-request-id": request_id}
        if self._drain.closing:
            headers["connection"] = "close"
        reply = Reply(send, headers)
        record = _Record(started=time.monotonic())
        try:
            with self._drain.inside():
                await self._exchange(Headers(scope=scope), receive, reply, record, request_id)
                record.status = 200
        except ClientGoneError:
            record.status = CLIENT_GONE
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets one answer
            await self._fail(error, receive, reply, record, request_id)
        finally:
            self._finish(record, request_id)

    async def _exchange(
        self, headers: Headers, receive: Receive, reply: Reply, record: _Record, request_id: str
    ) -> None:
        self._auth.check(headers.get("authorization"))
        with self._service.admission.place():
            body = await read_body(
                receive,
                headers,
                limit=self._limits.max_body_bytes,
                timeout_seconds=self._limits.body_timeout_seconds,
            )
            request = parse_chat(body)
            work = self._answer(request, reply, record, request_id)
            await _until_disconnect(work, receive, reply)

    async def _answer(
        self, request: ChatRequest, reply: Reply, record: _Record, request_id: str
    ) -> None:
        limit = self._limits.request_timeout_seconds
        left = limit - (time.monotonic() - record.started)
        try:
            async with asyncio.timeout(left):
                chat = await self._service.prepare(request)
                self._record_prompt(chat, record)
                answer = self._service.answer(chat, request_id=request_id)
                completion = Completion(
                    model=self._service.model, request_id=request_id, created=int(time.time())
                )
                async with aclosing(self._watched(answer, record)) as events:
                    if request.stream:
                        await _send_stream(request, events, completion, chat, reply)
                    else:
                        await _send_whole(events, completion, chat, reply)
        except TimeoutError:
            raise EngineTimeoutError(
                f"The request was not finished within {limit:g} seconds.", code="timeout"
            ) from None

    async def _watched(
        self, events: AsyncGenerator[Event, None], record: _Record
    ) -> AsyncGenerator[Piece | Finished, None]:
        """Pass events on and measure them."""
        async with aclosing(events):
            async for event in events:
                now = time.monotonic()
                match event:
                    case Admitted():
                        record.waited_seconds = event.waited_seconds
                        self._metrics.observe("mm_queue_seconds", event.waited_seconds)
                        continue
                    case Piece():
                        self._record_token(record, now)
                    case Finished():
                        record.output_tokens = event.completion_tokens
                        self._metrics.count("mm_output_tokens_total", event.completion_tokens)
                yield event

    def _record_prompt(self, chat: PreparedChat, record: _Record) -> None:
        record.images = chat.image_count
        record.image_tokens = chat.budget.image_tokens
        record.prompt_tokens = chat.budget.prompt_tokens
        self._metrics.count("mm_images_total", record.images)
        self._metrics.count("mm_image_tokens_total", record.image_tokens)
        self._metrics.count("mm_prompt_tokens_total", record.prompt_tokens)

    def _record_token(self, record: _Record, now: float) -> None:
        if record.last_token is None:
            record.first_token = now
            self._metrics.observe("mm_time_to_first_token_seconds", now - record.started)
        else:
            self._metrics.observe("mm_inter_token_seconds", now - record.last_token)
        record.last_token = now

    async def _fail(
        self, error: Exception, receive: Receive, reply: Reply, record: _Record, request_id: str
    ) -> None:
        response = error_response(error)
        record.status = response.status
        if isinstance(error, RetryLaterError):
            self._metrics.count_rejected(error.reason)
        if not isinstance(error, GatewayError) or error.__cause__ is not None:
            _log.warning("request failed", exc_info=error, extra={"request": request_id})
        if reply.complete:
            return
        if reply.started:
            await reply.send_event(response.body)
            await reply.close_stream(done=False)
            return
        if "connection" in response.headers:
            await discard_body(receive, timeout_seconds=_DISCARD_SECONDS)
        await reply.send_json(response.status, response.body, response.headers)

    def _finish(self, record: _Record, request_id: str) -> None:
        seconds = time.monotonic() - record.started
        self._metrics.count_finished(record.status)
        if record.status == 200:  # noqa: PLR2004 - OK
            self._metrics.observe("mm_request_seconds", seconds)
        first = record.first_token
        _log.info(
            "chat completion",
            extra={
                "request": request_id,
                "status": record.status,
                "seconds": round(seconds, 4),
                "queue_seconds": round(record.waited_seconds, 4),
                "first_token_seconds": None if first is None else round(first - record.started, 4),
                "images": record.images,
                "prompt_tokens": record.prompt_tokens,
                "output_tokens": record.output_tokens,
            },
        )


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
    request: ChatRequest,
    events: AsyncGenerator[Piece | Finished, None],
    completion: Completion,
    chat: PreparedChat,
    reply: Reply,
) -> None:
    with_usage = request.stream_options is not None and request.stream_options.include_usage
    async for event in events:
        if not reply.started:
            await reply.open_stream()
            first = {"role": "assistant", "content": ""}
            await reply.send_event(completion.chunk(first, with_usage=with_usage))
        match event:
            case Piece() if event.text:
                delta = {"content": event.text}
                await reply.send_event(completion.chunk(delta, with_usage=with_usage))
            case Finished():
                last = completion.chunk({}, reason=event.reason, with_usage=with_usage)
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
