"""An API server of one test: a function answers, and a client of the operator's sends."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from kubernetes.aio.client import ApiClient, Configuration

from mm_operator.cluster.client import Client


@asynccontextmanager
async def client_of(
    answer: Callable[[web.Request], Awaitable[web.StreamResponse]], path: str = "/{rest:.*}"
) -> AsyncIterator[Client]:
    """Serve the answers on a free port; both ends are closed afterwards."""
    app = web.Application()
    app.router.add_get(path, answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host = f"http://127.0.0.1:{runner.addresses[0][1]}"
    client = Client(ApiClient(Configuration(host=host)), timeout_seconds=60)
    try:
        yield client
    finally:
        await client.close()
        await runner.cleanup()
