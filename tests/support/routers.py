"""A router in front of gateways of tests: the real one, its fleet filled by hand."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from mm_router import upstream
from mm_router.assembly import Router, build_router, public_server
from mm_router.catalog import Model
from mm_router.settings import Settings
from support.eventually import eventually_async
from support.gateways import Running

# Beside a pause of this process no replica is away.
upstream._CONNECT_SECONDS = 60.0


@dataclass(frozen=True)
class RunningRouter:
    """A router that listens."""

    url: str
    port: int
    router: Router

    def count(self, name: str, **labels: str) -> float:
        return self.router.metrics.registry.get_sample_value(name, labels) or 0.0


def address_of(gateway: Running) -> str:
    return f"127.0.0.1:{gateway.port}"


@asynccontextmanager
async def route(
    models: Mapping[Model, Sequence[str]], settings: Settings | None = None
) -> AsyncIterator[RunningRouter]:
    settings = replace(settings or Settings(), address="127.0.0.1", port=0)
    router = build_router(settings)
    router.fleet.set_models(models)
    for model, addresses in models.items():
        router.fleet.set_replicas(model.key, addresses)
    server = public_server(router, settings)
    task = asyncio.create_task(server.serve())
    try:
        await eventually_async(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield RunningRouter(f"http://127.0.0.1:{port}", port, router)
    finally:
        server.should_exit = True
        server.force_exit = True
        async with asyncio.timeout(60):
            await task
        await router.close()


def kill(gateway: Running) -> None:
    for listening in gateway.server.servers:
        listening.close()
    for connection in list(gateway.server.server_state.connections):
        connection.transport.abort()
