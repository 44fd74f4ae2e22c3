"""One request through the router: from its first byte to the last byte of a replica's answer.

An answer's head goes out with its first bytes: what fails before is a 503, what fails in a stream
is its last event. A client that leaves ends the work at the replica.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from http import HTTPStatus

from mm_edge.asgi import Receive, Scope, Send
from mm_edge.body import ClientGoneError, UploadLimits, read_body, until_disconnect
from mm_edge.body_budget import BodyBudget, BodyClaim
from mm_edge.drain import Drain
from mm_edge.errors import GatewayError, error_response
from mm_edge.request_log import CLIENT_GONE, note
from mm_router.attempts import Attempts, Outgoing, replica_lost
from mm_router.client_response import ClientResponse
from mm_router.ejection import Failure
from mm_router.fleet import Fleet
from mm_router.metrics import RouterMetrics
from mm_router.reading import Reading
from mm_router.relay import Course, pass_on
from mm_router.replays import Replays
from mm_router.upstream import BrokenError, passed_on
from mm_router.versions import Answered, Version

_LOG = logging.getLogger(__name__)

Admit = Callable[[str | None], AbstractContextManager[object]]

_READ_AT_ONCE_BYTES = 256 * 1024
"""In about a millisecond; larger bodies are read in a thread, one after another: what is parsed has
the size of the body once more."""


@dataclass(frozen=True, slots=True)
class ForwardLimits:
    """Limits of one request."""

    max_body_bytes: int
    upload: UploadLimits
    request_timeout_seconds: float


@dataclass(slots=True)
class _Record:
    """What metrics learn; `model` is empty until it is known.

    `status`: of the answer, also after the head of a stream; 0: its head says it.
    """

    began: float
    model: str = ""
    status: int = 0


class RequestTimeoutError(GatewayError):
    """The answer was not complete in time."""

    status = HTTPStatus.GATEWAY_TIMEOUT


@dataclass(slots=True, eq=False, kw_only=True)
class Forward:
    """ASGI application behind one of the paths that replicas answer."""

    fleet: Fleet
    attempts: Attempts
    replays: Replays
    drain: Drain
    bodies: BodyBudget
    metrics: RouterMetrics
    limits: ForwardLimits
    admit: Admit
    read: Callable[[bytes, str], Reading]
    reader: Executor

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = ClientResponse(send, self.drain)
        record = _Record(time.monotonic())
        try:
            error = await self._attempt(scope, receive, response, record)
            if error is not None:
                record.status = error_response(error).status
                await response.fail(error, receive)
        except ClientGoneError:
            pass
        finally:
            answered = record.status or response.status
            status = int(answered if response.complete else CLIENT_GONE)
            self.metrics.count("mm_router_requests_total", record.model, str(status))
            note(scope, model=record.model, status=status)

    async def _attempt(
        self, scope: Scope, receive: Receive, response: ClientResponse, record: _Record
    ) -> Exception | None:
        """Answer a request; return what went wrong with it.

        The exception ends here: its traceback holds the body, which a client that takes its
        refusal slowly would keep beyond the claim.
        """
        try:
            with self.drain.inside():
                await self._exchange(scope, receive, response, record)
        except ClientGoneError:
            return None
        except GatewayError as error:
            return error.with_traceback(None)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets one answer
            _LOG.exception("a request failed in the router")
            return error.with_traceback(None)
        return None

    async def _exchange(
        self, scope: Scope, receive: Receive, response: ClientResponse, record: _Record
    ) -> None:
        headers = dict(_decoded(scope["headers"]))
        with self.admit(headers.get("authorization")), self.bodies.claim() as claim:
            body = await read_body(
                receive,
                headers,
                claim,
                limit=self.limits.max_body_bytes,
                upload=self.limits.upload,
            )
            request = await self._outgoing(scope, body)
            del body
            record.model = request.label
            work = self._answer(request, claim, response, record)
            del request
            await until_disconnect(work, receive, lambda: response.complete)

    async def _outgoing(self, scope: Scope, body: bytes) -> Outgoing:
        headers = passed_on(_decoded(scope["headers"]))
        content_type = headers.get("content-type", "")
        if len(body) <= _READ_AT_ONCE_BYTES:
            reading = self.read(body, content_type)
        else:
            loop = asyncio.get_running_loop()
            reading = await loop.run_in_executor(self.reader, self.read, body, content_type)
        target = self.fleet.catalog.resolve(reading.model)
        query = scope["query_string"].decode("latin-1")
        return Outgoing(
            model=target.model,
            affinity=reading.affinity,
            work=reading.demand.work(target.model.size),
            target=scope["path"] + (f"?{query}" if query else ""),
            headers=headers,
            streams=reading.streams,
            with_images=bool(reading.demand.images),
            body=body if target.served == reading.model else reading.named(target.served),
        )

    async def _answer(
        self,
        request: Outgoing,
        claim: BodyClaim,
        response: ClientResponse,
        record: _Record,
    ) -> None:
        seconds = self.limits.request_timeout_seconds
        try:
            async with asyncio.timeout(seconds - (time.monotonic() - record.began)):
                comment = response.comment if request.streams else None
                sent = time.monotonic()
                visit, received = await self.attempts.reach(request, comment)
                self.replays.offer(request, visit.version, received.status)
                # Nothing is sent again from here on.
                model = request.model if request.model.canary else None
                size = request.streams, request.work.tokens.bit_length()
                del request
                claim.release()
                course = Course()
                try:
                    first = time.monotonic()
                    name = "mm_router_first_byte_seconds"
                    self.metrics.observe(name, record.model, first - record.began)
                    await pass_on(received, response, course)
                    # Comments may have begun the answer of what was refused.
                    record.status = HTTPStatus.BAD_GATEWAY if course.failed else received.status
                except BrokenError:
                    visit.failed(Failure.BROKEN)
                    course.failed = True
                    raise replica_lost() from None
                finally:
                    received.close()
                    visit.end(frees=True)
                    if model and (course.failed or response.complete):
                        code = "error" if course.failed else str(int(received.status))
                        failed = course.failed or received.status >= HTTPStatus.BAD_REQUEST
                        answered = Answered(
                            time.monotonic(),
                            size,
                            failed,
                            (course.first or first) - sent,
                            course.inter_token,
                        )
                        self._compare(model.key, visit.version, code, answered)
        except TimeoutError:
            message = f"The request was not finished within {seconds:g} seconds."
            raise RequestTimeoutError(message, code="timeout") from None

    def _compare(
        self, model: tuple[str, str], version: Version, code: str, answered: Answered
    ) -> None:
        """Take the answer of a revision of a model that has a canary."""
        label = "/".join(model)
        self.metrics.count("mm_router_version_requests_total", label, version, code)
        if answered.first_text is not None and not answered.failed:
            name = "mm_router_version_first_text_seconds"
            self.metrics.observe(name, label, answered.first_text, version)
        self.fleet.evidence.add(model, version, answered)


def _decoded(headers: Iterable[tuple[bytes, bytes]]) -> Iterable[tuple[str, str]]:
    return ((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers)
