"""Spans of requests by OpenTelemetry, where its environment turns them on (W3C's trace context).

Must not: import opentelemetry where they are off, or give a span what a client wrote: its names and
attributes are those of the log's line.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from http import HTTPStatus
from typing import Any, Final

from mm_edge.asgi import Scope

_LOG = logging.getLogger(__name__)

_FLUSH_SECONDS = 3.0
"""For what is left at the end; both processes have 10 s and more from their last answer on."""

_CONTEXT: Final = {b"traceparent", b"tracestate"}

_CURRENT: ContextVar["Span | None"] = ContextVar("span", default=None)
"""Of the request that is answered; None: it is not recorded."""

_ATTRIBUTES: Final = {
    "method": "http.request.method",
    "path": "url.path",
    "status": "http.response.status_code",
    "model": "gen_ai.request.model",
    "engine_request": "gen_ai.response.id",
    "prompt_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "first_token_seconds": "gen_ai.server.time_to_first_token",
    "queue_seconds": "multimodal.queue_seconds",
    "images": "multimodal.images",
}
"""Fields of the log's line -> OpenTelemetry's conventions for HTTP and generative AI, where there
is one. The name of a key is not among them."""

_OPERATIONS: Final = {
    "/v1/chat/completions": "chat",
    "/v1/responses": "chat",
    "/v1/completions": "text_completion",
}


def traces_url(environment: Mapping[str, str]) -> str:
    """Return where traces are sent by OTLP over HTTP; empty: tracing is off."""
    own = environment.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "")
    common = environment.get("OTEL_EXPORTER_OTLP_ENDPOINT", "")
    exporter = environment.get("OTEL_TRACES_EXPORTER", "") or ("otlp" if own or common else "none")
    if exporter == "none" or environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return ""
    names = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    protocol = next(filter(None, map(environment.get, names)), "http/protobuf")
    if exporter != "otlp" or protocol != "http/protobuf":
        message = (
            "tracing is off: it is by exporter otlp with http/protobuf, and here by %s with %s"
        )
        _LOG.error(message, exporter, protocol)
        return ""
    return own or f"{(common or 'http://localhost:4318').rstrip('/')}/v1/traces"


def current() -> "Span | None":
    """Return the span of the request that is answered here; None: it is not recorded."""
    return _CURRENT.get()


def span(name: str) -> "AbstractContextManager[Span | None]":
    """Return a block that is a part of the current span; None: there is none."""
    parent = _CURRENT.get()
    return nullcontext() if parent is None else parent.block(name)


class Span:
    """A part of a trace."""

    def __init__(self, tracer: Any, made: Any) -> None:
        self._tracer = tracer
        self._made = made

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers that continue it at another server."""
        from opentelemetry.trace import set_span_in_context  # noqa: PLC0415  (see module)
        from opentelemetry.trace.propagation import tracecontext  # noqa: PLC0415

        found: dict[str, str] = {}
        context = set_span_in_context(self._made)
        tracecontext.TraceContextTextMapPropagator().inject(found, context)
        return found

    def part(self, name: str) -> "Span":
        """Begin a part of it, to be ended by itself."""
        from opentelemetry.trace import set_span_in_context  # noqa: PLC0415  (see module)

        context = set_span_in_context(self._made)
        return Span(self._tracer, self._tracer.start_span(name, context))

    @contextmanager
    def block(self, name: str) -> "Iterator[Span]":
        """Begin a part of it, which is the current one in a block and ends, or fails, with it."""
        part = self.part(name)
        failed = ""
        try:
            with part.as_current():
                yield part
        except BaseException as error:
            failed = type(error).__name__
            raise
        finally:
            part.end(failed)

    @contextmanager
    def as_current(self) -> Iterator[None]:
        """Make it the current one of a block, where it is recorded."""
        token = _CURRENT.set(self if self._made.is_recording() else None)
        try:
            yield
        finally:
            _CURRENT.reset(token)

    def set(self, name: str, value: object) -> None:
        self._made.set_attribute(name, value)

    def event(self, name: str, **attributes: str) -> None:
        self._made.add_event(name, attributes)

    def end(self, failed: str = "") -> None:
        """End it; `failed`: the class of an error, or a status, for messages may quote a client."""
        if failed:
            from opentelemetry.trace import StatusCode  # noqa: PLC0415  (see module)

            self.set("error.type", failed)
            self._made.set_status(StatusCode.ERROR)
        self._made.end()

    def answered(self, fields: Mapping[str, Any]) -> None:
        """End a request's span with the fields of its line in the log."""
        for name, attribute in _ATTRIBUTES.items():
            if fields.get(name) is not None:
                self.set(attribute, fields[name])
        self.set("http.request.header.x-request-id", [fields["request"]])
        path, status = fields["path"].rstrip("/"), fields["status"]
        if operation := _OPERATIONS.get(path):
            self.set("gen_ai.operation.name", operation)
            self._made.update_name(f"{fields['method']} {path}")
        self.end(str(status) if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "")


class Tracer:
    """Begins spans of requests; `url`, `service`, `dropped`: see `mm_edge.span_export`."""

    def __init__(self, url: str, service: str, dropped: Callable[[int], None]) -> None:
        from mm_edge.span_export import provider  # noqa: PLC0415  (see module)

        self._provider = provider(url, service, dropped)
        self._tracer = self._provider.get_tracer("mm_edge")

    def request(self, scope: Scope) -> Span:
        """Begin the span of a request, within its client's, whose headers become its own."""
        from opentelemetry.trace import SpanKind  # noqa: PLC0415  (see module)
        from opentelemetry.trace.propagation import tracecontext  # noqa: PLC0415

        pairs = scope["headers"]
        sent = {n.decode(): value.decode("latin-1") for n, value in pairs if n in _CONTEXT}
        context = tracecontext.TraceContextTextMapPropagator().extract(sent)
        made = self._tracer.start_span(scope["method"], context, kind=SpanKind.SERVER)
        begun = Span(self._tracer, made)
        own = [(name.encode(), value.encode()) for name, value in begun.headers.items()]
        scope["headers"] = [*(one for one in pairs if one[0] not in _CONTEXT), *own]
        return begun

    def close(self) -> None:
        """Send what is left, as far as there is time."""
        flushing = threading.Thread(target=self._provider.shutdown, daemon=True)
        flushing.start()
        flushing.join(_FLUSH_SECONDS)


def open_tracer(service: str, dropped: Callable[[int], None]) -> Tracer | None:
    """Return what traces requests, as the environment says; None: nothing does.

    Raises:
        ValueError: OTEL_BSP_* contradict each other.
    """
    url = traces_url(os.environ)
    return Tracer(url, service, dropped) if url else None
