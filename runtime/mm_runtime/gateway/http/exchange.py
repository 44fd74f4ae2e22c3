"""One completion over ASGI, from the first byte to the last: the only stateful part of HTTP.

Headers go out with the first piece of text, so what fails before it gets its own status; a stream
that was silent for too long before has them earlier, with a comment.
A client that leaves ends the work at once: the generation is cancelled and its slot is free.
"""

import asyncio
import logging
import time
import weakref
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Executor
from contextlib import AbstractAsyncContextManager, aclosing, closing, nullcontext
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any
from uuid import uuid4

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from mm_api.contract import REPLAY_HEADER
from mm_edge.auth import NO_KEY, BearerAuth
from mm_edge.body import (
    ClientGoneError,
    UploadLimits,
    discard_body,
    read_body,
    until_disconnect,
)
from mm_edge.body_budget import BodyBudget, BodyClaim
from mm_edge.drain import Drain
from mm_edge.errors import (
    ErrorResponse,
    InvalidRequestError,
    KeyLimitError,
    RetryLaterError,
    error_response,
)
from mm_edge.json_cost import is_soon_parsed
from mm_edge.json_text import encode
from mm_edge.key_limits import KeyClaim, KeyLimits
from mm_edge.request_log import HEADER, note
from mm_edge.tracing import span
from mm_runtime.gateway.admission.fair_queue import Ticket
from mm_runtime.gateway.admission.fetching import FetchClaim, Fetching
from mm_runtime.gateway.api.audio import TranscriptionRequest
from mm_runtime.gateway.api.calling import CallingCompletion
from mm_runtime.gateway.api.completions import (
    Answers,
    ChatCompletion,
    Shapes,
    StreamForm,
    TextCompletion,
    Usage,
)
from mm_runtime.gateway.api.openai import ChatRequest
from mm_runtime.gateway.api.response_places import rename
from mm_runtime.gateway.api.response_shapes import ResponseAnswer
from mm_runtime.gateway.api.responses import ResponsesChat, places_of
from mm_runtime.gateway.api.served_model import ServedModel
from mm_runtime.gateway.api.transcription import Transcript
from mm_runtime.gateway.dataplane import (
    Admitted,
    ChatService,
    Ending,
    Event,
    Finished,
    Piece,
)
from mm_runtime.gateway.errors import EngineTimeoutError
from mm_runtime.gateway.http.record import ExchangeRecord
from mm_runtime.gateway.http.reply import Reply
from mm_runtime.gateway.metrics import GatewayMetrics
from mm_runtime.gateway.preparation import AnyRequest
from mm_runtime.gateway.prepared import PreparedChat, PreparedRequest

_log = logging.getLogger(__name__)

Shown = Piece | Ending | Finished
"""What a client sees of an answer."""


@dataclass(frozen=True, slots=True)
class ExchangeLimits:
    """Limits of one exchange."""

    max_body_bytes: int
    upload: UploadLimits
    request_timeout_seconds: float
    keep_alive_seconds: float
    """Silence after which a stream gets a comment."""


def _form_of(request: AnyRequest) -> StreamForm:
    options = request.stream_options
    if options is None:
        return StreamForm()
    return StreamForm(options.include_usage, options.continuous_usage_stats)


def shapes_of(request: AnyRequest, model: ServedModel, request_id: str) -> Shapes:
    """Return the objects that carry the answer to a request."""
    if isinstance(request, TranscriptionRequest):
        return Transcript(request)
    shape: dict[str, Any] = {
        "model": model,
        "requested": request.model,
        "request_id": request_id,
        "created": int(time.time()),
        "form": _form_of(request),
        "choices": request.prompts * request.choices,
        "likeliest": request.likeliest,
    }
    if not isinstance(request, ChatRequest):
        return TextCompletion(**shape)
    if isinstance(request, ResponsesChat):
        return ResponseAnswer(request, model=model, request_id=request_id, created=shape["created"])
    if request.offered and model.dialect is not None:
        return CallingCompletion(dialect=model.dialect, most=request.most_calls, **shape)
    return ChatCompletion(**shape)


@dataclass(frozen=True, slots=True)
class _Claims:
    """What one request holds while it is answered; `replay`: until a client's waits."""

    body: BodyClaim
    fetching: FetchClaim
    key: KeyClaim
    replay: bool = False


class Endpoint:
    """ASGI application behind one of the paths that serve models."""

    def __init__(
        self,
        *,
        service: ChatService,
        metrics: GatewayMetrics,
        unseen: GatewayMetrics,
        auth: BearerAuth,
        key_limits: KeyLimits,
        drain: Drain,
        limits: ExchangeLimits,
        bodies: BodyBudget,
        fetching: Fetching,
        parse: Callable[[bytes, str], AnyRequest],
        parser: Executor,
    ) -> None:
        """Connect the parts; `parse` reads a body of a content type, large ones in `parser`.

        `unseen`: counts replays, which no client sent; the router shows how many there are.
        """
        self._service = service
        self._metrics = metrics
        self._unseen = unseen
        self._auth = auth
        self._key_limits = key_limits
        self._drain = drain
        self._limits = limits
        self._bodies = bodies
        self._fetching = fetching
        self._parse = parse
        self._parser = parser

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The client may send its own id twice, and the engine must not take two requests for one.
        record = ExchangeRecord(self._metrics, uuid4().hex)
        reply = Reply(send, self._headers, record.completed)
        try:
            failed = await self._attempt(Headers(scope=scope), receive, reply, record)
            if failed is not None:
                await _refuse(failed, receive, reply)
        finally:
            record.close()
            note(scope, **record.fields)

    def _headers(self) -> dict[str, str]:
        """Return headers of an answer that begins now: the drain may have begun after its request.

        Without the header a client would reuse this connection when new work is refused.
        """
        return {"connection": "close"} if self._drain.closing else {}

    async def _attempt(
        self,
        headers: Headers,
        receive: Receive,
        reply: Reply,
        record: ExchangeRecord,
    ) -> ErrorResponse | None:
        """Answer a request; return the refusal where it failed.

        The exception ends here: its traceback holds the body, which a client that takes its
        refusal slowly would keep beyond the claim.
        """
        try:
            with self._drain.inside():
                await self._exchange(headers, receive, reply, record)
                record.completed()
        except ClientGoneError:
            pass
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets one answer
            return self._failed(error, record, headers)
        return None

    async def _exchange(
        self,
        headers: Headers,
        receive: Receive,
        reply: Reply,
        record: ExchangeRecord,
    ) -> None:
        name = self._auth.check(headers.get("authorization"))
        _refuse_priority(headers)
        # With keys it would be a way around their limits.
        replay = name == NO_KEY and REPLAY_HEADER in headers
        if replay:
            record.replays(self._unseen)
            if self._service.admission.load.waiting:
                raise self._service.admission.gives_way()
        # Refused now where it would be refused later, before its body takes memory.
        self._service.admission.check()
        with self._key_limits.inside(name) as key, self._bodies.claim() as claim:
            record.let_in(name)
            body = await read_body(
                receive,
                headers,
                claim,
                limit=self._limits.max_body_bytes,
                upload=self._limits.upload,
            )
            request = await self._parsed(body, headers.get("content-type", ""))
            # The request holds the same once more, while its files wait for a decoder.
            del body
            with (
                self._fetching.claim(fetches=request.fetches) as fetching,
                # Not before: bodies that never end, or that are none, would hold every place.
                self._service.admission.admit(
                    request.prompts * request.choices, "n" if request.prompts == 1 else "prompt"
                ),
            ):
                claims = _Claims(claim, fetching, key, replay)
                work = self._answer(request, claims, reply, record)
                del request
                await until_disconnect(work, receive, lambda: reply.complete)

    async def _answer(
        self,
        request: AnyRequest,
        claims: _Claims,
        reply: Reply,
        record: ExchangeRecord,
    ) -> None:
        limit = self._limits.request_timeout_seconds
        left = limit - record.elapsed
        places = places_of(request.original) if isinstance(request, ResponsesChat) else None
        try:
            async with asyncio.timeout(left) as entered, self._kept_alive(request, reply):
                # It names the task, which keeps what fails it, and with that this frame's request.
                time_left = weakref.ref(entered)
                del entered
                with span("preprocess"):
                    prepared = await self._service.preparation.prepare(request, claims.key.name)
                with closing(prepared):
                    shapes = shapes_of(request, self._service.preparation.model, record.request_id)
                    streamed, form = bool(request.stream), _form_of(request)
                    model = request.model
                    # Up to tens of megabytes that are not needed while the request waits and runs.
                    del request
                    claims.body.release()
                    claims.fetching.release()
                    # What became of it is: 64 requests with 16 MB of pixels each are 1 GB.
                    claims.body.grow(prepared.held_bytes)
                    claims.key.reserve(prepared.most_tokens)
                    record.prepared(prepared, model)
                    prepared = prepared.with_each(lambda chat: _queued(chat, claims, time_left))
                    answer = self._service.answer(prepared, request_id=record.request_id)
                    async with aclosing(_watched(answer, record, claims.key)) as events:
                        if streamed:
                            await _send_stream(form, events, shapes, prepared, reply)
                        else:
                            await _send_complete(events, shapes, prepared, reply)
        except InvalidRequestError as error:
            if places is not None:
                rename(error, places)
            raise
        except TimeoutError:
            if claims.replay:
                raise self._service.admission.gives_way() from None
            raise EngineTimeoutError(
                f"The request was not finished within {limit:g} seconds.", code="timeout"
            ) from None

    def _kept_alive(self, request: AnyRequest, reply: Reply) -> AbstractAsyncContextManager[None]:
        if not request.stream:
            return nullcontext()
        return reply.kept_alive(every_seconds=self._limits.keep_alive_seconds)

    async def _parsed(self, body: bytes, kind: str) -> AnyRequest:
        """Read a body; a long one in a thread, so that others' streams are not delayed."""
        if is_soon_parsed(body):
            return self._parse(body, kind)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._parser, self._parse, body, kind)

    def _failed(self, error: Exception, record: ExchangeRecord, headers: Headers) -> ErrorResponse:
        """Count and log a failure; return what its client gets."""
        response = error_response(error)
        record.status = response.status
        if isinstance(error, KeyLimitError):
            self._metrics.count_key_rejected(error.key, error.reason)
        elif isinstance(error, RetryLaterError) and not record.replay:
            self._metrics.count_rejected(error.reason)
        if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            # Refusals are not logged: their messages can hold what the client wrote.
            fields = {"request": headers.get(HEADER), "engine_request": record.request_id}
            _log.warning("request failed", exc_info=error, extra={"fields": fields})
        return response


def _queued(
    chat: PreparedChat, claims: _Claims, time_left: weakref.ref[asyncio.Timeout]
) -> PreparedChat:
    tokens = chat.budget.most_tokens(1)
    ticket = Ticket(key=claims.key.name, weight=claims.key.weight, tokens=tokens)
    if claims.replay:
        ticket = replace(ticket, displaced=lambda: _end(time_left))
    return replace(chat, ticket=ticket)


def _end(time_left: weakref.ref[asyncio.Timeout]) -> None:
    if (entered := time_left()) and not entered.expired():
        entered.reschedule(asyncio.get_running_loop().time())


def _refuse_priority(headers: Headers) -> None:
    if "x-priority" in headers:
        raise InvalidRequestError(
            "The header X-Priority is not supported: requests of a key are served as they came. "
            "Leave it out, and send what is urgent with a key of its own (`gateway.keyLimits`)."
        )


async def _refuse(response: ErrorResponse, receive: Receive, reply: Reply) -> None:
    if reply.complete:
        return
    if reply.started:
        await reply.break_stream(response.body)
        return
    if "connection" in response.headers:
        await discard_body(receive)
    await reply.send_json(response.status, response.body, response.headers)


async def _watched(
    events: AsyncGenerator[Event, None], record: ExchangeRecord, key: KeyClaim
) -> AsyncGenerator[Shown, None]:
    async with aclosing(events):
        async for event in events:
            record.event(event)
            key.used = record.tokens
            if not isinstance(event, Admitted):
                yield event


async def _send_complete(
    events: AsyncGenerator[Shown, None],
    shapes: Shapes,
    request: PreparedRequest,
    reply: Reply,
) -> None:
    answers = Answers(request.choices)
    async for event in events:
        match event:
            case Piece():
                answers.add(event.choice, event.text, event.scores)
            case Ending():
                answers.end(event.choice, event.reason)
            case Finished():
                answer = shapes.full(answers.complete, _usage_at_end(request, event))
                if isinstance(answer, str):
                    await reply.send_text(answer)
                else:
                    await reply.send_json(200, answer)


async def _send_stream(
    form: StreamForm,
    events: AsyncGenerator[Shown, None],
    shapes: Shapes,
    request: PreparedRequest,
    reply: Reply,
) -> None:
    unsent: list[bytes] = []
    tokens, opened = 0, False
    async for event in events:
        if not opened:
            opened = True
            await reply.open_stream()
            unsent += map(encode, shapes.opening(_usage(request, 0)))
        match event:
            case Piece():
                tokens += event.tokens
                if event.text or event.scores:
                    usage = _usage(request, tokens) if form.continuous else None
                    unsent += shapes.pieces(event.text, usage, event.choice, event.scores)
                if unsent:
                    await reply.send_events(*unsent)
                    unsent.clear()
            case Ending():
                unsent += map(
                    encode, shapes.ended(event.choice, event.reason, _usage(request, tokens))
                )
            case Finished():
                await reply.end_stream(
                    *unsent, *map(encode, shapes.ending(_usage_at_end(request, event)))
                )


def _usage(request: PreparedRequest, tokens: int) -> Usage:
    return Usage(request.prompt_tokens, tokens, features=request.features)


def _usage_at_end(request: PreparedRequest, end: Finished) -> Usage:
    return replace(
        _usage(request, end.completion_tokens),
        seconds=request.seconds,
        language=end.language,
        segments=end.segments,
        cached=end.cached_tokens,
    )
