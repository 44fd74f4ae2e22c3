"""The HTTP port: `/healthz` (alive), `/readyz` (caches are warm), `/metrics`."""

import asyncio
from collections.abc import Callable

from aiohttp import web

from mm_edge.listening import listening_sockets


async def serve(
    port: int,
    *,
    ready: Callable[[], str],
    metrics: Callable[[], Callable[[], bytes]],
    address: str = "0.0.0.0",  # noqa: S104  # the kubelet and Prometheus come from outside the pod
) -> tuple[web.AppRunner, int]:
    """Start the server; return its runner (to clean up) and the port (chosen when 0 was given).

    `ready`: returns what is wrong as a sentence; empty when all is well.
    """

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def readyz(_: web.Request) -> web.Response:
        problem = ready()
        return web.Response(text=problem or "ok", status=503 if problem else 200)

    async def show_metrics(_: web.Request) -> web.Response:
        text = await asyncio.to_thread(metrics())  # the loop continues meanwhile
        return web.Response(
            body=text, headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", show_metrics)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    for listening in listening_sockets(address, port):
        await web.SockSite(runner, listening).start()
    return runner, runner.addresses[0][1]
