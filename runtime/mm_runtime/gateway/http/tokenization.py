"""`/tokenize` and `/detokenize` over ASGI: small answers that need no engine."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mm_edge.auth import BearerAuth
from mm_edge.body import ClientGoneError, Pace, read_body
from mm_edge.body_budget import BodyBudget
from mm_edge.drain import Drain
from mm_edge.json_text import encode
from mm_edge.request_log import note
from mm_runtime.gateway.errors import EngineTimeoutError, error_response
from mm_runtime.gateway.http.reply import JSON

Answer = Callable[[bytes], dict[str, object]]


@dataclass(frozen=True, slots=True)
class TextEndpoint:
    """One of the two paths.

    Attributes:
        answer: a body -> the answer; it runs in `worker`, where long texts delay no stream.
        limit: bytes of a body.
        seconds: for the answer, until one before it is made, too.
    """

    auth: BearerAuth
    drain: Drain
    bodies: BodyBudget
    pace: Pace
    limit: int
    seconds: float
    answer: Answer
    worker: Executor

    async def respond(self, request: Request) -> Response:
        """Answer one request."""
        try:
            with self.drain.inside():
                key = self.auth.check(request.headers.get("authorization"))
                note(request.scope, key=key or None)
                with self.bodies.claim() as claim:
                    body = await read_body(
                        request.receive, request.headers, claim, limit=self.limit, pace=self.pace
                    )
                    loop = asyncio.get_running_loop()
                    async with asyncio.timeout(self.seconds):
                        found = await loop.run_in_executor(self.worker, self._answered, body)
        except ClientGoneError:
            return Response(status_code=400)  # there is no reader any more
        except TimeoutError:
            return _refused(
                EngineTimeoutError(
                    f"The request was not finished within {self.seconds:g} seconds.",
                    code="timeout",
                )
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets one answer
            return _refused(error)
        return Response(found, media_type=JSON)

    def _answered(self, body: bytes) -> bytes:
        return encode(self.answer(body))


def _refused(error: Exception) -> Response:
    refused = error_response(error)
    return JSONResponse(refused.body, refused.status, refused.headers)
