"""Servers of one test: a function answers, at an address or to a client of the operator's."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from kubernetes.aio.client import ApiClient, Configuration

from mm_operator.cluster.client import Client

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def answered_by(
    answer: Answer,
    path: str = "/api/v1/query",
    method: str = "POST",
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route(method, path, answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def client_of(answer: Answer, path: str = "/{rest:.*}") -> AsyncIterator[Client]:
    async with answered_by(answer, path, "GET") as host:
        client = Client(ApiClient(Configuration(host=host)), timeout_seconds=60)
        try:
            yield client
        finally:
            await client.close()
