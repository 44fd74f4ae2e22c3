"""Routes of the gateway. Thin: each calls one object and writes its answer."""

import asyncio
import base64
import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from mm_api.contract import GATEWAY_EVALUATION, GATEWAY_LIVE, GATEWAY_READY, METRICS_PATH
from mm_api.documents.evaluation import EvaluationReport
from mm_edge.auth import BearerAuth
from mm_edge.drain import Drain
from mm_edge.errors import ErrorResponse, GatewayError, InvalidRequestError, error_response
from mm_edge.request_log import note
from mm_runtime.gateway.api.served_model import ServedModel
from mm_runtime.gateway.http.exchange import Endpoint
from mm_runtime.gateway.http.openapi import openapi_document
from mm_runtime.gateway.metrics import GatewayMetrics
from mm_runtime.gateway.phase import Phase
from mm_runtime.gateway.server_metrics import ServerMetrics

_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_COUNT = "Tokens are counted by the checkpoint's tokenizer; an answer's `usage` has the prompt's."
_MISSING = {
    "/v1/embeddings": "This server answers and transcribes; it makes no embeddings.",
    "/tokenize": _COUNT,
    "/detokenize": _COUNT,
}

Respond = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Routes:
    """The GET endpoints and the objects that they read."""

    model: ServedModel
    metrics: GatewayMetrics
    auth: BearerAuth
    drain: Drain
    state: Callable[[], Awaitable[tuple[Phase, str]]]
    warm_up_problem: Callable[[], str]
    evaluation: Callable[[], EvaluationReport | None]
    server_metrics: ServerMetrics
    refused: frozenset[str]
    """Paths that the model does not serve."""

    async def openapi(self, request: Request) -> Response:
        self._let_in(request)
        # Made with the first request, beside the loop: a pod starts without it.
        document = await asyncio.to_thread(openapi_document, self.model.name, self.refused)
        return JSONResponse({**document, "x-limits": self.model.stated_limits})

    async def missing(self, request: Request) -> Response:
        """Refuse by name what clients look for and is not here."""
        self._let_in(request)
        reason = _MISSING[request.url.path.rstrip("/")]
        raise InvalidRequestError(reason, code="unsupported_endpoint")

    async def list_models(self, request: Request) -> Response:
        self._let_in(request)
        described = [self._describe(name) for name in self.model.names.parents()]
        return JSONResponse({"object": "list", "data": described})

    async def get_model(self, request: Request) -> Response:
        self._let_in(request)
        name = request.path_params["name"]
        self.model.names.adapter(name)
        return JSONResponse(self._describe(name))

    async def healthz(self, _: Request) -> Response:
        """Answer 200: the process is alive; Triton's state does not matter here."""
        return JSONResponse({"status": "alive"})

    async def readyz(self, _: Request) -> Response:
        """Return whether a request sent now would be answered."""
        if self.drain.closing:
            return JSONResponse({"status": "draining"}, HTTPStatus.SERVICE_UNAVAILABLE)
        phase, detail = await self.state()
        if phase is not Phase.READY:
            body = {"status": "not ready", "phase": phase, "detail": detail}
            body |= {"problem": problem} if (problem := self.warm_up_problem()) else {}
            return JSONResponse(body, HTTPStatus.SERVICE_UNAVAILABLE)
        return JSONResponse({"status": "ready", "phase": phase})

    async def evaluated(self, _: Request) -> Response:
        """Return how the engine compares with its checkpoint, for the supervisor of the server."""
        report = self.evaluation()
        if report is None:
            return Response(status_code=HTTPStatus.NO_CONTENT)
        return Response(report.to_json(), media_type="application/json")

    async def metrics_text(self, _: Request) -> Response:
        """Write the metrics down: the gateway's, and after them those of the server beside it."""
        page = self.metrics.render() + await self.server_metrics.read()
        return Response(page, headers={"content-type": _METRICS_TYPE})

    def _let_in(self, request: Request) -> None:
        note(request.scope, key=self.auth.check(request.headers.get("authorization")) or None)

    def _describe(self, name: str) -> dict[str, object]:
        described: dict[str, object] = {
            "id": name,
            "object": "model",
            "created": self.model.created,
            "owned_by": "multimodal-operator",
            "input_modalities": self.model.input_modalities,
        }
        return described if name == self.model.name else {**described, "parent": self.model.name}


def build_app(routes: Routes, endpoints: Mapping[str, Endpoint]) -> Starlette:
    """Return the ASGI application; `endpoints`: by their paths."""
    app = Starlette(
        routes=[
            *(route for path, one in endpoints.items() for route in _posts(path, one)),
            *(route for path in _MISSING for route in _posts(path, routes.missing)),
            *_gets("/openapi.json", routes.openapi),
            Route("/docs", docs_page),
            *_gets("/v1/models", routes.list_models),
            # First: the other one would take the slash for a part of the name.
            Route("/v1/models/{name:path}/", routes.get_model),
            Route("/v1/models/{name:path}", routes.get_model),
            *_gets(GATEWAY_LIVE, routes.healthz),
            *_gets(GATEWAY_READY, routes.readyz),
            *_gets(GATEWAY_EVALUATION, routes.evaluated),
            *_gets(METRICS_PATH, routes.metrics_text),
        ],
        exception_handlers={
            HTTPException: _routing_error,
            GatewayError: _gateway_error,
        },
    )
    # It would send clients where their Host header says, over http.
    app.router.redirect_slashes = False
    return app


def _posts(path: str, endpoint: Endpoint | Respond) -> list[Route]:
    return [Route(one, endpoint, methods=["POST"]) for one in (path, f"{path}/")]


def _gets(path: str, respond: Respond) -> list[Route]:
    return [Route(one, respond) for one in (path, f"{path}/")]


async def _gateway_error(_: Request, error: Exception) -> Response:
    return _to_response(error_response(error))


async def _routing_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        return _to_response(error_response(error))
    text = f"{request.method} {request.url.path[:100]}: {error.detail}."
    body = error_response(InvalidRequestError(text)).body
    return _to_response(ErrorResponse(error.status_code, dict(error.headers or {}), body))


def _to_response(response: ErrorResponse) -> Response:
    return JSONResponse(response.body, response.status, response.headers)


async def docs_page(_: Request) -> HTMLResponse:
    """Return `/docs`, which holds nothing of the model: everyone may load it.

    Its policy lets a browser run its script alone, and send nothing to other hosts.
    """
    return HTMLResponse(*_page())


@cache
def _page() -> tuple[str, int, dict[str, str]]:
    text = Path(__file__).with_name("docs.html").read_text(encoding="utf-8")
    found = dict(re.findall(r"<(script|style)>(.*?)</\1>", text, re.DOTALL))
    hashed = {name: hashlib.sha256(part.encode()).digest() for name, part in found.items()}
    allowed = [
        f"{name}-src 'sha256-{base64.b64encode(one).decode()}'" for name, one in hashed.items()
    ]
    policy = ["default-src 'none'", *allowed, "connect-src 'self'", "img-src data:"]
    policy += ["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"]
    return (
        text,
        200,
        {
            "content-security-policy": "; ".join(policy),
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
        },
    )
