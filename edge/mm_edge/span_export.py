"""Sends spans by OTLP over HTTP in a thread of its own; requests never wait for a receiver.

What is not sent in time is dropped and counted. Imported only where tracing is on.
"""

import os
import threading
from collections.abc import Callable, Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult

Dropped = Callable[[int], None]
_MOST = 2048
"""Spans that wait to be sent, by OpenTelemetry's own default."""


class _Exporter(OTLPSpanExporter):
    def __init__(self, url: str, dropped: Dropped) -> None:
        super().__init__(url)
        self._dropped = dropped
        self.taken = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.taken += len(spans)
        result = super().export(spans)
        if result is not SpanExportResult.SUCCESS:
            self._dropped(len(spans))
        return result


class _Processor(BatchSpanProcessor):
    """Refuses spans while as many wait as may; the usual one drops older ones without a word."""

    def __init__(self, exporter: _Exporter, dropped: Dropped) -> None:
        set_to = os.environ.get("OTEL_BSP_MAX_QUEUE_SIZE", "")
        self._most = int(set_to) if set_to.isdecimal() else _MOST
        super().__init__(exporter, max_queue_size=self._most)
        self._exporter = exporter
        self._dropped = dropped
        self._lock = threading.Lock()
        self._ended = 0

    def on_end(self, span: ReadableSpan) -> None:
        with self._lock:
            if fits := self._ended - self._exporter.taken < self._most:
                self._ended += 1
        if fits:
            super().on_end(span)
        else:
            self._dropped(1)


def provider(url: str, service: str, dropped: Dropped) -> TracerProvider:
    """Return what makes spans; OTEL_* say resource, sampler, batches and headers.

    `service`: name where they say none. `dropped`: called with numbers of spans, from any thread.
    """
    resource = Resource.create()
    if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: service}))
    made = TracerProvider(resource=resource, shutdown_on_exit=False)
    made.add_span_processor(_Processor(_Exporter(url, dropped), dropped))
    return made
