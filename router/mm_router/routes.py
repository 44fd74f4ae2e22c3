"""Paths of the router: those that replicas answer, those it answers itself, and its own state."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from mm_api.documents import router_state
from mm_edge.asgi import App, Receive, Scope, Send
from mm_edge.drain import Drain
from mm_edge.errors import InvalidRequestError
from mm_router.catalog import Catalog, Listed
from mm_router.client_response import ClientResponse

READY = "/readyz"
METRICS = "/metrics"
_MODELS = "/v1/models"
_PLAIN = "text/plain; charset=utf-8"
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_READS = frozenset({"GET", "HEAD"})


class _NoRouteError(InvalidRequestError):
    status = HTTPStatus.NOT_FOUND


class _MethodError(InvalidRequestError):
    status = HTTPStatus.METHOD_NOT_ALLOWED

    def __init__(self, message: str, *, allowed: str) -> None:
        super().__init__(message)
        self._allowed = allowed

    @property
    def headers(self) -> dict[str, str]:
        return {"allow": self._allowed}


@dataclass(slots=True, eq=False)
class Public:
    """ASGI application for clients; `forwards`: path -> who answers it, and it with a slash."""

    forwards: Mapping[str, App]
    catalog: Callable[[], Catalog]
    drain: Drain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path, method = scope["path"], scope["method"]
        forward = self.forwards.get(path.removesuffix("/"))
        if forward is not None and method == "POST":
            await forward(scope, receive, send)
            return
        response = ClientResponse(send, self.drain)
        try:
            if forward is not None:
                raise _method(method, path, "POST")
            if path.removesuffix("/") != _MODELS and not path.startswith(f"{_MODELS}/"):
                raise _NoRouteError(f"{method} {path[:100]}: Not Found.")
            if method not in _READS:
                raise _method(method, path, "GET, HEAD")
            body = self._models(path.removeprefix(_MODELS).removeprefix("/"))
            await response.send_json(HTTPStatus.OK, body, {})
        except InvalidRequestError as error:
            await response.fail(error, receive)

    def _models(self, name: str) -> dict[str, Any]:
        catalog = self.catalog()
        if not name:
            return {"object": "list", "data": [_described(one) for one in catalog.listed()]}
        return _described(catalog.entry(name))


@dataclass(slots=True, eq=False)
class State:
    """ASGI application of the port for kubelet, Prometheus and the operator."""

    problem: Callable[[], str]
    metrics: Callable[[], bytes]
    held: Callable[[], bytes]
    drain: Drain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        response = ClientResponse(send, self.drain)
        match scope["path"]:
            case "/livez":
                status, content, kind = HTTPStatus.OK, b"alive\n", _PLAIN
            case "/readyz":
                problem = "draining" if self.drain.closing else self.problem()
                status = HTTPStatus.SERVICE_UNAVAILABLE if problem else HTTPStatus.OK
                content, kind = f"{problem or 'ready'}\n".encode(), _PLAIN
            case "/metrics":
                status, content, kind = HTTPStatus.OK, self.metrics(), _METRICS_TYPE
            case router_state.PATH:
                status, content, kind = HTTPStatus.OK, self.held(), "application/json"
            case path:
                await response.fail(_NoRouteError(f"{path[:100]}: Not Found."), receive)
                return
        await response.start(status, {"content-type": kind, "content-length": str(len(content))})
        await response.write(content, more=False)


def _method(method: str, path: str, allowed: str) -> _MethodError:
    return _MethodError(f"{method} {path[:100]}: Method Not Allowed.", allowed=allowed)


def _described(one: Listed) -> dict[str, Any]:
    described: dict[str, Any] = {
        "id": one.id,
        "object": "model",
        "created": one.created,
        "owned_by": "multimodal-operator",
    }
    if one.modalities:
        described["input_modalities"] = one.modalities
    return described if one.parent is None else {**described, "parent": one.parent}
