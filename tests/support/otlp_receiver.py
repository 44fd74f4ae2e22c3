"""A receiver of OTLP over HTTP: keeps each span that it is sent, by the published messages."""

import json
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class ReceivedSpan:
    """One span; ids as hexadecimal digits."""

    service: str
    resource: dict[str, Any]
    trace: str
    id: str
    parent: str
    name: str
    kind: int
    attributes: dict[str, Any]
    events: list[str]
    status: int


@dataclass
class Receiver:
    """What has come; before `answers` is set nothing is answered."""

    url: str
    spans: list[ReceivedSpan] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    answers: threading.Event = field(default_factory=threading.Event)


@contextmanager
def otlp_receiver(*, answers: bool = True) -> Iterator[Receiver]:
    """Listen until the block ends; `answers` false: requests are read, and left without a word."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.answers.wait()
            receiver.bodies.append(body)
            receiver.spans += _spans(_request(self.headers["content-type"], body))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver = Receiver(f"http://127.0.0.1:{server.server_port}")
    if answers:
        receiver.answers.set()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.answers.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _request(kind: str, body: bytes) -> ExportTraceServiceRequest:
    if kind == "application/x-protobuf":
        return ExportTraceServiceRequest.FromString(body)
    found = json.loads(body, object_hook=_in_base64)
    return json_format.ParseDict(found, ExportTraceServiceRequest())


def _in_base64(found: dict[str, Any]) -> dict[str, Any]:
    """Return an object whose ids are written as protobuf's JSON has bytes; OTLP's has them hex."""
    ids = {key: found[key] for key in ("traceId", "spanId", "parentSpanId") if key in found}
    return found | {key: b64encode(bytes.fromhex(one)).decode() for key, one in ids.items()}


def _spans(request: ExportTraceServiceRequest) -> Iterator[ReceivedSpan]:
    for group in request.resource_spans:
        resource = _plain(group.resource.attributes)
        for scope in group.scope_spans:
            for span in scope.spans:
                yield ReceivedSpan(
                    resource.get("service.name", ""),
                    resource,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.name,
                    span.kind,
                    _plain(span.attributes),
                    [event.name for event in span.events],
                    span.status.code,
                )


def _plain(attributes: Any) -> dict[str, Any]:
    return {one.key: _value(one.value) for one in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    found = getattr(value, kind)
    return [_value(one) for one in found.values] if kind == "array_value" else found
