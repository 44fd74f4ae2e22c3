"""Puts one router process together, and takes it apart without failing a request."""

import asyncio
import logging
import signal
import time
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from mm_edge.body import UploadLimits
from mm_edge.body_budget import BodyBudget
from mm_edge.connection import ConnectionLimits
from mm_edge.drain import Drain
from mm_edge.request_log import RequestLog
from mm_edge.server import EdgeServer, edge_server, raise_open_files
from mm_edge.tracing import open_tracer
from mm_operator.cluster.client import Client, connect
from mm_router.attempts import Attempts
from mm_router.discovery import Discovery
from mm_router.fleet import Fleet
from mm_router.forward import Forward, ForwardLimits
from mm_router.hold import HoldLimits, Holds
from mm_router.key_admission import KeyAdmission
from mm_router.metrics import RouterMetrics
from mm_router.reading import read_form, read_json
from mm_router.replays import Replays
from mm_router.routes import Public, State
from mm_router.settings import Settings
from mm_router.upstream import Upstream

_LOG = logging.getLogger(__name__)

_JSON_PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/responses")
_FORM_PATHS = ("/v1/audio/transcriptions", "/v1/audio/translations")

_BODY_SECONDS = 60.0
"""For a body, as at the gateway: 20 MB at 3 Mbit/s."""

_STATE_CONNECTIONS = 64
"""Connections of kubelet and Prometheus."""


@dataclass(frozen=True)
class Router:
    """The parts of one router that answer clients; what fills the fleet is beside it."""

    fleet: Fleet
    holds: Holds
    metrics: RouterMetrics
    drain: Drain
    public: Public
    upstream: Upstream
    reader: Executor
    replays: Replays
    keys: KeyAdmission | None
    tracer: Any

    async def close(self) -> None:
        """Close every connection to replicas, and the thread; send the last spans."""
        await self.replays.close()
        await self.upstream.close()
        self.reader.shutdown()
        if self.tracer is not None:
            self.tracer.close()


def build_router(settings: Settings) -> Router:
    """Return a router without models. Call in the event loop that it will run in."""
    metrics, drain, upstream = RouterMetrics(), Drain(), Upstream()
    held = HoldLimits(settings.hold_requests, settings.hold_bytes, settings.hold_seconds)
    holds = Holds(held, metrics, time.monotonic)
    fleet, reader = Fleet(metrics, holds, time.monotonic), ThreadPoolExecutor(1, "bodies")
    bodies = BodyBudget(settings.body_memory_bytes)
    attempts = Attempts(fleet, holds, upstream, metrics)
    replays = Replays(attempts, drain, reader, time.monotonic)
    limits = ForwardLimits(
        max_body_bytes=settings.max_body_bytes,
        upload=UploadLimits(_BODY_SECONDS),
        request_timeout_seconds=settings.request_timeout_seconds,
    )
    keys = None
    if settings.auth_file is not None:
        keys = KeyAdmission(settings.auth_file, settings.routers, metrics, time.monotonic)
    readers = {
        **dict.fromkeys(_JSON_PATHS, read_json),
        **dict.fromkeys(_FORM_PATHS, read_form),
    }
    forwards = {
        path: Forward(
            fleet=fleet,
            attempts=attempts,
            replays=replays,
            drain=drain,
            bodies=bodies,
            metrics=metrics,
            limits=limits,
            admit=nullcontext if keys is None else keys.counted,
            read=read,
            reader=reader,
        )
        for path, read in readers.items()
    }
    public = Public(forwards, lambda: fleet.catalog, drain)
    tracer = open_tracer("multimodal-router", metrics.count_dropped_spans)
    return Router(fleet, holds, metrics, drain, public, upstream, reader, replays, keys, tracer)


def public_server(router: Router, settings: Settings) -> EdgeServer:
    """Return the server for clients, not yet started."""
    limits = ConnectionLimits(most=settings.max_connections)
    app = RequestLog(router.public, _LOG, tracer=router.tracer)
    return edge_server(app, limits, settings.address, settings.port)


async def run(settings: Settings) -> bool:
    """Serve until SIGTERM or SIGINT; return whether every request was answered.

    Raises:
        ClusterError: there is no configuration for the API server.
        OSError: a file of the configuration cannot be read.
        ValueError: it is not what was expected.
        RuntimeError: a part ended, a port that is taken among the reasons.
    """
    raise_open_files()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    client = Client(await connect(settings.kubeconfig, settings.context))
    router = build_router(settings)
    try:
        return await _run_parts(settings, router, client, stop)
    finally:
        await router.close()
        await client.close()


async def _run_parts(
    settings: Settings, router: Router, client: Client, stop: asyncio.Event
) -> bool:
    discovery = Discovery(client, router.fleet, settings.namespaces)
    limits = ConnectionLimits(most=_STATE_CONNECTIONS)
    held = partial(router.fleet.state, settings.namespaces)
    state = State(discovery.problem, router.metrics.render, held, router.drain)
    servers = [
        edge_server(state, limits, settings.address, settings.metrics_port),
        public_server(router, settings),
    ]
    watching = [asyncio.create_task(discovery.run(), name="discovery")]
    if router.keys is not None and settings.key_limits_file is not None:
        router.keys.load(settings.key_limits_file)
        follow = router.keys.follow(settings.key_limits_file)
        watching.append(asyncio.create_task(follow, name="limits of keys"))
    serving = [
        *(asyncio.create_task(one.serve(), name="state") for one in servers[:-1]),
        # Before the first lists no model exists: a client would read that in a 404.
        asyncio.create_task(_serve_after(discovery, servers[-1]), name="clients"),
    ]
    stopping = asyncio.create_task(stop.wait(), name="signal")
    parts = {*watching, *serving}
    try:
        await asyncio.wait({*parts, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if ended := [part for part in parts if part.done()]:
            ended[0].result()
            raise RuntimeError(f"the part {ended[0].get_name()!r} ended unexpectedly")
        _LOG.info("draining")
        clean = await router.drain.leave(
            lame_duck_seconds=settings.lame_duck_seconds, timeout_seconds=settings.drain_seconds
        )
        _LOG.info("drained" if clean else "requests were cut off")
        return clean
    finally:
        for server in servers:
            server.should_exit = True
        for part in (*watching, stopping, *(() if servers[-1].started else serving[-1:])):
            part.cancel()
        await asyncio.wait({*parts, stopping})


async def _serve_after(discovery: Discovery, server: EdgeServer) -> None:
    await discovery.synced()
    await server.serve()
