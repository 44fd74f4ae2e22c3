"""One id and one line of the log for each request, whatever becomes of it.

A client's own `X-Request-Id` is kept, so that a request is found in the logs of everything that it
came through; it is bounded, because it is written to them.
"""

import logging
import re
import time
from http import HTTPStatus
from typing import Any
from uuid import uuid4

from mm_edge.asgi import App, Message, Receive, Scope, Send
from mm_edge.tracing import CURRENT

HEADER = "x-request-id"
CLIENT_GONE = 499
"""Status of a request whose client left before its answer was complete; nginx's number."""

_ID = re.compile(r"[-A-Za-z0-9._:/+=@~]{1,128}")
"""UUIDs, trace ids and those of cloud load balancers; nothing that ends a line or a quotation."""

_PATH_LENGTH = 200
"""Length of a path in the log: the longest of ours has 25 characters beside a model's name."""

_NOTES = "mm.request_log"


def note(scope: Scope, **fields: object) -> None:
    """Add fields to the line of a request, or replace those that it has."""
    scope.setdefault(_NOTES, {}).update(fields)


class RequestLog:
    """Gives requests of an ASGI application their id, and writes a line when each has ended.

    `silent`: paths without a line, of probes and scrapes, which come every second. `tracer`: of
    `open_tracer`.
    """

    def __init__(
        self,
        app: App,
        log: logging.Logger,
        silent: frozenset[str] = frozenset(),
        tracer: Any = None,
    ) -> None:
        self._app = app
        self._log = log
        self._silent = silent
        self._tracer = tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        began = time.monotonic()
        path = scope["path"]
        is_silent = path.rstrip("/") in self._silent
        span = None if self._tracer is None or is_silent else self._tracer.request(scope)
        # The task is this request's: its context ends with it.
        CURRENT.set(span if span is not None and span.is_recorded else None)
        identity = _kept(scope) or uuid4().hex
        pair = (HEADER.encode(), identity.encode())
        scope["headers"] = [*_without_id(scope["headers"]), pair]
        notes = scope[_NOTES] = {
            "request": identity,
            "method": scope["method"],
            "path": path[:_PATH_LENGTH],
            "status": CLIENT_GONE,
            "seconds": 0.0,
        }
        status = CLIENT_GONE

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*_without_id(message["headers"]), pair]
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body"):
                notes["status"] = int(status)

        try:
            await self._app(scope, receive, sent)
        except Exception:
            notes["status"] = HTTPStatus.INTERNAL_SERVER_ERROR.value
            raise
        finally:
            if not is_silent:
                notes["seconds"] = round(time.monotonic() - began, 4)
                self._log.info("request", extra={"fields": notes})
            if span is not None:
                span.answered(notes)


def _kept(scope: Scope) -> str | None:
    found = [value.decode("latin-1") for name, value in scope["headers"] if name == HEADER.encode()]
    return found[0] if len(found) == 1 and _ID.fullmatch(found[0]) else None


def _without_id(headers: Any) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in headers if name.lower() != HEADER.encode()]
