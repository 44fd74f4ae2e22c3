"""An address before an API server that does what one may do: cut, delay, refuse, lose an answer.

Clients speak plain HTTP to it; it forwards by the cluster's own kubeconfig.
"""

import asyncio
import base64
import random
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp import web

from mm_devcluster.cluster import ClusterInfo

_SHARE = 0.4
"""Of the requests that meet a fault: most calls of a reconcile have one then, and some end well."""
_DELAY_SECONDS = 0.4
_OWN_HEADERS = frozenset(
    {"host", "connection", "transfer-encoding", "content-length", "accept-encoding"}
)

FAULTS = ("cut", "slow", "429", "500", "503", "410", "expired", "lost-answer")
"""cut: no connection, and those that are open end. expired: an event of each watch says so, as an
API server does. 410: its HTTP status does, which ends kopf and with it the operator. lost-answer:
the request acts, and its client never learns so."""


class FaultyServer:
    """Forwards requests; while `fault` is set, some of them meet it."""

    def __init__(self, target: str, session: aiohttp.ClientSession, seed: str) -> None:
        self.fault = ""
        self.met = 0
        """Requests that met a fault."""
        self._target = target
        self._session = session
        self._random = random.Random(seed)  # noqa: S311  # a reproducible choice
        self._open: set[asyncio.Task[Any]] = set()

    def become(self, fault: str) -> None:
        """Have a fault of `FAULTS` from now on; empty: none."""
        self.fault = fault
        if fault in {"cut", "410", "expired"}:
            for task in tuple(self._open):
                task.cancel()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one request, or let it meet the fault."""
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            return await self._answer(request)
        finally:
            self._open.discard(task)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        fault, body = self.fault, await request.read()
        watch = request.query.get("watch") == "true" or request.query.get("watch") == "1"
        meets = fault == "cut" or (bool(fault) and self._random.random() < _SHARE)
        self.met += meets
        if meets and fault == "cut":
            return _dropped(request)
        if meets and fault == "slow":
            await asyncio.sleep(_DELAY_SECONDS)
        if meets and (fault.isdigit() and (fault != "410" or watch)):
            return _refused(int(fault))
        if meets and fault == "expired" and watch:
            return web.json_response({"type": "ERROR", "object": _status(410)})
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _OWN_HEADERS}
        headers["Accept-Encoding"] = "identity"
        url = f"{self._target}{request.raw_path}"
        async with self._session.request(
            request.method, url, data=body or None, headers=headers, allow_redirects=False
        ) as found:
            if meets and fault == "lost-answer" and not watch:
                await found.read()
                return _dropped(request)
            response = web.StreamResponse(status=found.status)
            response.content_type = found.content_type
            if request.transport is None:
                return response
            with suppress(ConnectionError, aiohttp.ClientError):  # either has left
                await response.prepare(request)
                async for part in found.content.iter_any():
                    await response.write(part)
                await response.write_eof()
            return response


def _dropped(request: web.Request) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def _refused(status: int) -> web.Response:
    headers = {"Retry-After": "1"} if status == 429 else {}  # noqa: PLR2004  # Too Many Requests
    return web.json_response(_status(status), status=status, headers=headers)


def _status(status: int) -> dict[str, Any]:
    reasons = {429: "TooManyRequests", 410: "Expired", 500: "InternalError"}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": "a fault of the bench",
        "reason": reasons.get(status, "ServiceUnavailable"),
        "code": status,
    }


@asynccontextmanager
async def faulty_server(
    cluster: ClusterInfo, folder: Path, seed: str
) -> AsyncIterator[tuple[FaultyServer, Path]]:
    """Serve before a cluster; yield the server and the path of a kubeconfig that leads to it."""
    document = yaml.safe_load(await asyncio.to_thread(Path(cluster.kubeconfig).read_text))
    (user,) = document["users"]
    (entry,) = document["clusters"]
    target = entry["cluster"]["server"]
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=_trust(entry["cluster"], user["user"], folder), limit=0),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
        auto_decompress=False,
    ) as session:
        server = FaultyServer(target, session, seed)
        app = web.Application(client_max_size=16 << 20)
        app.router.add_route("*", "/{rest:.*}", server.answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        entry["cluster"] = {"server": f"http://127.0.0.1:{port}"}
        user["user"] = {}
        kubeconfig = folder / "faulty.kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(document))
        try:
            yield server, kubeconfig
        finally:
            server.become("cut")
            with suppress(TimeoutError):
                await asyncio.wait_for(runner.cleanup(), 10)


def _trust(cluster: dict[str, str], user: dict[str, str], folder: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=_text(cluster, "certificate-authority"))
    pair = [folder / "client.crt", folder / "client.key"]
    for path, name in zip(pair, ("client-certificate", "client-key"), strict=True):
        path.touch(mode=0o600)
        path.write_text(_text(user, name))
    context.load_cert_chain(str(pair[0]), str(pair[1]))
    return context


def _text(fields: dict[str, str], name: str) -> str:
    if encoded := fields.get(f"{name}-data"):
        return base64.b64decode(encoded).decode()
    return Path(fields[name]).read_text()
