"""A receiver of OTLP over HTTP: keeps each span that it is sent, by the published messages."""

import json
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from types import SimpleNamespace
from typing import Any

from google.protobuf import json_format  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from support.http_servers import served_in_threads


@dataclass
class Receiver:
    """What has come; before `answers` is set nothing is answered."""

    url: str = ""
    spans: list[SimpleNamespace] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    answers: threading.Event = field(default_factory=threading.Event)


@contextmanager
def otlp_receiver(host: str = "127.0.0.1") -> Iterator[Receiver]:
    """Listen until the block ends; what OTLP over HTTP does not allow is refused."""
    receiver = Receiver()
    receiver.answers.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.answers.wait()
            receiver.bodies.append(body)
            try:
                assert self.path == "/v1/traces"
                receiver.spans += _spans(_request(self.headers["content-type"], body))
                self.send_response(200)
            except Exception as error:  # noqa: BLE001 - the status says so, as a collector does
                receiver.refused.append(f"{self.path}: {error!r}")
                self.send_response(400)
            self.send_header("content-length", "0")
            self.end_headers()

    with served_in_threads(Handler, host) as receiver.url:
        yield receiver
        receiver.answers.set()


def _request(kind: str, body: bytes) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    if kind == "application/x-protobuf":
        request.ParseFromString(body)
    else:
        assert kind == "application/json", kind
        json_format.ParseDict(json.loads(body, object_hook=_in_base64), request)
    return request


def _in_base64(found: dict[str, Any]) -> dict[str, Any]:
    """Return an object whose ids are written as protobuf's JSON has bytes; OTLP's has them hex."""
    ids = {key: found[key] for key in ("traceId", "spanId", "parentSpanId") if key in found}
    return found | {key: b64encode(bytes.fromhex(one)).decode() for key, one in ids.items()}


def _spans(request: ExportTraceServiceRequest) -> Iterator[SimpleNamespace]:
    for group in request.resource_spans:
        resource = _plain(group.resource.attributes)
        for span in (span for scope in group.scope_spans for span in scope.spans):
            yield SimpleNamespace(
                resource=resource,
                service=resource["service.name"],
                trace=span.trace_id.hex(),
                id=span.span_id.hex(),
                parent=span.parent_span_id.hex(),
                name=span.name,
                kind=span.kind,
                attributes=_plain(span.attributes),
                events=[event.name for event in span.events],
                status=span.status.code,
            )


def _plain(attributes: Any) -> dict[str, Any]:
    """Return attributes by name; of a list the first value."""
    values = {one.key: one.value for one in attributes}
    firsts = {k: v.array_value.values[0] if v.array_value.values else v for k, v in values.items()}
    return {name: getattr(one, one.WhichOneof("value")) for name, one in firsts.items()}
