"""Whether requests are traced, by OpenTelemetry's own environment; the span of the current one.

Must not import opentelemetry: where tracing is off nothing of it is.
"""

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from importlib import import_module
from typing import Any, Final

_LOG = logging.getLogger(__name__)

CURRENT: Final[ContextVar[Any]] = ContextVar("span", default=None)
"""The `mm_edge.spans.Span` of the request that is answered; None: it is not recorded."""


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
        _LOG.error(
            "tracing is off: only otlp by http/protobuf is known, not %s", (exporter, protocol)
        )
        return ""
    return own or f"{(common or 'http://localhost:4318').rstrip('/')}/v1/traces"


def open_tracer(service: str, dropped: Callable[[int], None]) -> Any:
    """Return a `mm_edge.spans.Tracer`, which see, as the environment says; None: tracing is off."""
    url = traces_url(os.environ)
    return import_module("mm_edge.spans").Tracer(url, service, dropped) if url else None


def span(name: str) -> AbstractContextManager[Any]:
    """Return a block that is a part of the current request's span; None: that is not recorded."""
    parent = CURRENT.get()
    return nullcontext() if parent is None else parent.part(name)


def continued() -> tuple[tuple[str, str], ...]:
    """Return the headers that continue the current request's trace at another server."""
    current = CURRENT.get()
    return () if current is None else current.headers


def event(name: str, **attributes: str) -> None:
    """Note an event of the current request, where that is recorded."""
    if current := CURRENT.get():
        current.event(name, **attributes)
