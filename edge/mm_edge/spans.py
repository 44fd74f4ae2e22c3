"""Spans of requests, sent by OTLP over HTTP in a thread of its own. Imported where tracing is on.

Must not give a span what a client wrote: attributes are fields of the log's line, errors are
classes. Requests never wait for a receiver: what it does not take in time is dropped and counted.
"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from mm_edge.asgi import Scope

_FLUSH_SECONDS = 3.0
"""For what is left at the end; both processes have 10 s and more from their last answer on."""

_W3C: Final = TraceContextTextMapPropagator()
_HEADERS: Final = {b"traceparent", b"tracestate"}

_ATTRIBUTES: Final = {
    "method": "http.request.method",
    "path": "url.path",
    "status": "http.response.status_code",
    "model": "gen_ai.request.model",
    "prompt_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "first_token_seconds": "gen_ai.server.time_to_first_token",
    "queue_seconds": "multimodal.queue_seconds",
    "images": "multimodal.images",
}
"""Fields of the log's line -> names by OpenTelemetry's conventions, where they have one. The name
of a key is not among them."""

_OPERATIONS: Final = {
    "/v1/chat/completions": "chat",
    "/v1/responses": "chat",
    "/v1/completions": "text_completion",
}


class Span:
    """A part of a trace."""

    def __init__(self, tracer: trace.Tracer, made: trace.Span) -> None:
        self._tracer = tracer
        self._made = made
        self.is_recorded = made.is_recording()
        self.event: Callable[..., None] = lambda name, **attributes: made.add_event(
            name, attributes
        )

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Return the headers that continue it at another server."""
        found: dict[str, str] = {}
        _W3C.inject(found, trace.set_span_in_context(self._made))
        return tuple(found.items())

    @contextmanager
    def part(self, name: str) -> "Iterator[Span]":
        """Begin a part of it, which ends, or fails, with the block."""
        part = Span(
            self._tracer, self._tracer.start_span(name, trace.set_span_in_context(self._made))
        )
        failed = ""
        try:
            yield part
        except Exception as error:
            failed = type(error).__name__
            raise
        finally:
            part._end(failed)

    def answered(self, fields: Mapping[str, Any]) -> None:
        """End a request's span with the fields of its line in the log."""
        for name, attribute in _ATTRIBUTES.items():
            if fields.get(name) is not None:
                self._made.set_attribute(attribute, fields[name])
        self._made.set_attribute("http.request.header.x-request-id", [fields["request"]])
        path, status = fields["path"].rstrip("/"), fields["status"]
        if operation := _OPERATIONS.get(path):
            self._made.set_attribute("gen_ai.operation.name", operation)
            self._made.update_name(f"{fields['method']} {path}")
        self._end(str(status) if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "")

    def _end(self, failed: str) -> None:
        if failed:
            self._made.set_attribute("error.type", failed)
            self._made.set_status(trace.StatusCode.ERROR)
        self._made.end()


class Tracer:
    """Begins spans of requests; OTEL_* say resource, sampler, batches and headers.

    `service`: name where they say none. `dropped`: called with numbers of spans, from any thread.
    """

    def __init__(self, url: str, service: str, dropped: Callable[[int], None]) -> None:
        resource = Resource.create().merge(Resource({SERVICE_NAME: service}))
        resource = resource.merge(OTELResourceDetector().detect())
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(_Processor(_Exporter(url, dropped)))
        self._tracer = self._provider.get_tracer("mm_edge")

    def request(self, scope: Scope) -> Span:
        """Begin the span of a request, within its client's, whose headers become its own."""
        pairs = scope["headers"]
        sent = {n.decode(): value.decode("latin-1") for n, value in pairs if n in _HEADERS}
        made = self._tracer.start_span(
            scope["method"], _W3C.extract(sent), kind=trace.SpanKind.SERVER
        )
        begun = Span(self._tracer, made)
        own = [(name.encode(), value.encode()) for name, value in begun.headers]
        scope["headers"] = [*(one for one in pairs if one[0] not in _HEADERS), *own]
        return begun

    def close(self) -> None:
        """Send what is left, as far as there is time."""
        flushing = threading.Thread(target=self._provider.shutdown, daemon=True)
        flushing.start()
        flushing.join(_FLUSH_SECONDS)


class _Exporter(OTLPSpanExporter):
    """Counts what it has taken, and what of it was not sent."""

    def __init__(self, url: str, dropped: Callable[[int], None]) -> None:
        super().__init__(url)
        self.dropped = dropped
        self.taken = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.taken += len(spans)
        result = super().export(spans)
        if result is not SpanExportResult.SUCCESS:
            self.dropped(len(spans))
        return result


class _Processor(BatchSpanProcessor):
    """Refuses spans while as many wait as may; the usual one drops older ones without a word."""

    def __init__(self, exporter: _Exporter) -> None:
        super().__init__(exporter)
        self._most = int(os.environ.get("OTEL_BSP_MAX_QUEUE_SIZE", "2048"))
        self._exporter = exporter
        self._lock = threading.Lock()
        self._ended = 0

    def on_end(self, span: ReadableSpan) -> None:
        with self._lock:
            fits = self._ended - self._exporter.taken < self._most
            self._ended += fits
        if fits:
            super().on_end(span)
        else:
            self._exporter.dropped(1)
