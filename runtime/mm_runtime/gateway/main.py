"""`mm-runtime gateway`: reads manifest and serving plan, serves until SIGTERM, leaves cleanly."""

import asyncio
import logging
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import uvloop
from pydantic import ValidationError

from mm_api.contract import (
    GATEWAY_EVALUATION,
    GATEWAY_LIVE,
    GATEWAY_PORT,
    GATEWAY_READY,
    METRICS_PATH,
    ExitCode,
)
from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.serving_plan import ServingPlan
from mm_api.json_logs import JsonFormatter
from mm_edge.connection import ConnectionLimits
from mm_edge.drain import LAME_DUCK_SECONDS
from mm_edge.request_log import RequestLog
from mm_edge.server import EdgeServer, edge_server, raise_open_files
from mm_runtime.base.heap import return_large_pieces
from mm_runtime.gateway.backends.backend import GatewayBackend
from mm_runtime.gateway.backends.engine import Servers
from mm_runtime.gateway.server_metrics import ServerMetrics
from mm_runtime.gateway.wiring import Gateway, build_gateway
from mm_runtime.serving.directory import EngineDirectory

_log = logging.getLogger(__name__)

_CONNECTIONS = 1024
"""Beside those of the requests inside: clients that keep connections, and bodies on their way."""


_PROBED = frozenset({GATEWAY_LIVE, GATEWAY_READY, GATEWAY_EVALUATION, METRICS_PATH})
"""Read by kubelet, supervisor and Prometheus, every second or so."""


@dataclass(frozen=True, slots=True)
class GatewayOptions:
    """Command line of the gateway."""

    manifest: Path
    serving: Path
    backends: Mapping[str, GatewayBackend]
    servers: Servers
    server_metrics: str = ""
    """host:port of the metrics of the server beside; empty: there are none to show."""
    address: str = "127.0.0.1"
    port: int = GATEWAY_PORT
    auth_token_file: Path | None = None
    lame_duck_seconds: float = LAME_DUCK_SECONDS


def build_server(
    gateway: Gateway, address: str, port: int, limits: ConnectionLimits | None = None
) -> EdgeServer:
    """Return the HTTP server of a gateway, not yet started; port 0 means any free one."""
    most = _CONNECTIONS + gateway.admission.capacity
    app = RequestLog(gateway.app, _log, _PROBED, gateway.tracer)
    return edge_server(app, limits or ConnectionLimits(most=most), address, port)


def run(options: GatewayOptions) -> int:
    """Serve until SIGTERM or SIGINT.

    Returns:
        Exit code: 0 after a clean drain, 1 when requests were cut off, 3 when the documents or the
        engine's processor files are unusable.
    """
    _set_up_logging()
    return_large_pieces()
    try:
        manifest = EngineManifest.from_json(options.manifest.read_bytes())
        serving = ServingPlan.from_json(options.serving.read_bytes())
    except (OSError, ValidationError) as error:
        _log.error("manifest or serving plan cannot be used: %s", error)
        return ExitCode.PERMANENT
    if manifest.fingerprint != serving.fingerprint:
        _log.error(
            "the serving plan is for engine %s, the manifest is of %s; wait for the rollout or "
            "mount the right engine",
            serving.fingerprint[:16],
            manifest.fingerprint[:16],
        )
        return ExitCode.PERMANENT
    raise_open_files()
    return uvloop.run(_serve(options, manifest, serving))


async def _serve(options: GatewayOptions, manifest: EngineManifest, serving: ServingPlan) -> int:
    try:
        directory = EngineDirectory(options.manifest.parent, manifest)
        backend = options.backends[serving.backend]
        engine = backend.open_engine(directory, serving, options.servers)
    except (OSError, ValueError) as error:
        _log.error("the engine cannot be served: %s", error)
        return ExitCode.PERMANENT
    try:
        try:
            gateway = build_gateway(
                manifest=manifest,
                serving=serving,
                engine_dir=options.manifest.parent,
                engine=engine,
                backend=backend,
                auth_token_file=options.auth_token_file,
                server_metrics=ServerMetrics(options.server_metrics),
            )
        except (OSError, KeyError, ValueError) as error:
            _log.error("the engine cannot be served: %s", error)
            return ExitCode.PERMANENT
        try:
            return await _serve_gateway(options, gateway)
        finally:
            gateway.close()
    finally:
        await engine.close()


async def _serve_gateway(options: GatewayOptions, gateway: Gateway) -> int:
    server = build_server(gateway, options.address, options.port)
    gateway.decoders.start()
    stop = asyncio.Event()
    running = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        running.add_signal_handler(number, stop.set)
    serving = asyncio.create_task(server.serve())
    watching = asyncio.create_task(gateway.warm_up.watch())
    measuring = asyncio.create_task(gateway.measure_work())
    stopping = asyncio.create_task(stop.wait())
    try:
        # The server ends by itself when its port is taken.
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            return ExitCode.RETRY
        _log.info("draining")
        measuring.cancel()
        clean = await gateway.drain.leave(
            lame_duck_seconds=options.lame_duck_seconds,
            timeout_seconds=gateway.request_timeout_seconds,
        )
        server.should_exit = True
        await serving
        _log.info("drained" if clean else "requests were cut off")
        return ExitCode.OK if clean else ExitCode.RETRY
    finally:
        tasks = {watching, measuring, stopping}
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def _set_up_logging() -> None:
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)  # a line a request, beside our own
    # A warning for each connection that sends no HTTP: port scans would fill the log.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
