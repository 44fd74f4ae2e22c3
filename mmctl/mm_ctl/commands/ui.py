"""`mmctl ui`: a page about models at a port of this machine; it changes nothing in the cluster.

It is for the one user who has its address: the JSON behind it takes the token that is in the
address, and no request that was sent to another host name.
"""

import argparse
import asyncio
import hmac
import json
import secrets
import webbrowser
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from aiohttp import web

from mm_api import labels
from mm_api.v1alpha1.quantity import bytes_of
from mm_ctl.commands import query
from mm_ctl.commands.memory_bars import bars_of
from mm_ctl.commands.scaling import explain
from mm_ctl.commands.status import progress_of, stages, waits_for
from mm_ctl.connection import Connection, add_connection_options, connection
from mm_ctl.documents import UsageError
from mm_ctl.question import request_of
from mm_operator.cluster.resources import EVENT, MODEL
from mm_operator.errors import ClusterError

HOST = "127.0.0.1"
MOST_BYTES = 28 << 20
"""The largest request: an image of 20 MB in base64, and a question."""

MOST_EVENTS, ANSWER_TOKENS = 50, 256
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
FILES = {"": "index.html", "style.css": "style.css", "bars.js": "bars.js", "page.js": "page.js"}
_FOLDER = Path(__file__).parent.parent / "page"


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--port", type=int, default=0, help="port of 127.0.0.1; default: a free one")
    add("--no-browser", action="store_true", help="print the address only")
    add("-A", "--all-namespaces", action="store_true", help="models of all namespaces")
    add_connection_options(parser)


async def run(options: argparse.Namespace) -> int:
    """Serve the page until interrupted."""
    async with connection(options) as there:
        page = Page(there, options, secrets.token_urlsafe(24))
        runner = web.AppRunner(page.app(), access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, HOST, options.port).start()
            address = f"http://{HOST}:{runner.addresses[0][1]}/#{page.token}"
            print(f"{address}\nWho has this address reads what you may read. Ctrl-C ends it.")
            if not options.no_browser:
                await asyncio.to_thread(webbrowser.open, address)
            await asyncio.Event().wait()
        except OSError as error:
            raise UsageError(f"--port {options.port}: {error.strerror}") from error
        finally:
            await runner.cleanup()
    return 0


@dataclass(frozen=True, slots=True)
class Page:
    """The server of the page's files and of its JSON."""

    there: Connection
    options: argparse.Namespace
    token: str

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self.guard], client_max_size=MOST_BYTES)
        for path in FILES:
            app.router.add_get(f"/{path}", self.file)
        app.router.add_get("/api/models", self.fleet)
        app.router.add_get("/api/models/{namespace}/{name}", self.model)
        app.router.add_post("/api/models/{namespace}/{name}/answer", self.answer)
        return app

    @web.middleware
    async def guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Refuse who has no token, and host names that a page of others made lead here."""
        *_, port = request.get_extra_info("sockname")
        given = request.headers.get("Authorization", "").encode()
        response: web.StreamResponse
        if request.host not in {f"{HOST}:{port}", f"localhost:{port}"}:
            response = _error(HTTPStatus.FORBIDDEN, f"this page is at {HOST}:{port} only")
        elif request.path.startswith("/api/") and not hmac.compare_digest(
            given, f"Bearer {self.token}".encode()
        ):
            response = _error(HTTPStatus.UNAUTHORIZED, "open the address that mmctl ui printed")
        else:
            try:
                response = await handler(request)
            except web.HTTPException as error:
                response = _error(error.status, error.text or error.reason)
            except UsageError as error:
                response = _error(HTTPStatus.BAD_REQUEST, str(error))
            except ClusterError as error:
                response = _error(HTTPStatus.BAD_GATEWAY, str(error))
        response.headers.update(HEADERS)
        return response

    async def file(self, request: web.Request) -> web.FileResponse:
        return web.FileResponse(_FOLDER / FILES[request.path[1:]])

    async def fleet(self, _: web.Request) -> web.Response:
        where = None if self.options.all_namespaces else self.there.namespace
        return web.json_response([summary(one) for one in await self.there.list(MODEL, where)])

    async def model(self, request: web.Request) -> web.Response:
        model = await self._read(request)
        return web.json_response(summary(model) | details(model) | await self._events(model))

    async def answer(self, request: web.Request) -> web.Response:
        """Send a question as `mmctl ask` does."""
        await self._read(request)
        question = self._question(request, await request.read())
        async with query.session_of(question) as session:
            pieces = query.answer(question, session, *request_of(question))
            return web.json_response({"answer": "".join([one async for one in pieces])})

    def _question(self, request: web.Request, body: bytes) -> argparse.Namespace:
        """Return the command line of a question. Images are data: no file of this machine."""
        try:
            given = json.loads(body)
            text, image = given["text"], given.get("image", "data:image/")
            taken = isinstance(text, str) and text and image.startswith("data:image/")
        except (ValueError, TypeError, KeyError, AttributeError):
            taken = False
        if not taken:
            raise UsageError("give a text, and an image as a data: URL")
        parser = argparse.ArgumentParser()
        query.configure(parser)
        question = parser.parse_args(["-"])
        vars(question).update(request.match_info, text=text, max_tokens=ANSWER_TOKENS)
        question.image = [image] if "image" in given else []
        question.kubeconfig, question.context = self.options.kubeconfig, self.options.context
        return question

    async def _read(self, request: web.Request) -> dict[str, Any]:
        where, name = request.match_info["namespace"], request.match_info["name"]
        model = await self.there.client.get(MODEL, where, name)
        if model is None:
            raise web.HTTPNotFound(text=f"there is no model {where}/{name}")
        return model

    async def _events(self, model: dict[str, Any]) -> dict[str, Any]:
        metadata = model["metadata"]
        of = {"kind": labels.KIND, "name": metadata["name"], "uid": metadata["uid"]}
        fields = ",".join(f"involvedObject.{key}={value}" for key, value in of.items())
        try:
            pages = self.there.client.list(EVENT, metadata["namespace"], fields=fields)
            found = [event(item) async for page, _ in pages for item in page]
        except ClusterError as error:  # who may read models may lack the right to read Events
            return {"events": [], "eventsProblem": str(error)}
        return {"events": sorted(found, key=lambda one: one["time"], reverse=True)[:MOST_EVENTS]}


def _error(status: int, text: str) -> web.Response:
    return web.json_response({"error": text}, status=status)


def summary(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model's row of the list of models."""
    status = model.get("status") or {}
    marks = list(stages(model))
    return {
        "namespace": model["metadata"]["namespace"],
        "name": model["metadata"]["name"],
        "backend": (model["spec"].get("engine") or {}).get("backend", ""),
        "gpu": ((status.get("plan") or {}).get("gpu") or {}).get("product", ""),
        "replicas": status.get("readyOfWanted", "-"),
        "ready": marks[-1][1] == "✓",
        "mark": next((mark for _, mark in marks if mark != "✓"), "✓"),
        "waits": waits_for(model),
    }


def details(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page of one model shows beside its row."""
    status = model.get("status") or {}
    resources = (model["spec"].get("runtime") or {}).get("resources") or {}
    stated = bytes_of((resources.get("limits") or {}).get("memory", 0))
    return {
        "stages": list(stages(model)),
        "stale": status.get("observedGeneration") != model["metadata"].get("generation"),
        "url": status.get("url", ""),
        "conditions": status.get("conditions") or [],
        "bars": bars_of(status.get("plan") or {}, stated or None),
        "build": status.get("build") or {},
        "progress": progress_of(model),
        "scaling": list(explain(model, history=False)),
        "history": (status.get("scaling") or {}).get("history") or [],
    }


def event(item: Mapping[str, Any]) -> dict[str, Any]:
    times = (
        item.get("lastTimestamp"),
        item.get("eventTime"),
        item["metadata"]["creationTimestamp"],
    )
    shown = {key: item.get(key) or "" for key in ("reason", "type", "message")}
    return {"time": next(filter(None, times)), "count": item.get("count") or 1, **shown}
