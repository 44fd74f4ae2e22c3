"""`mm-runtime serve`: verify the engine, write the repository, run tritonserver, drain it."""

import logging
import math
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from mm_api.documents.engine_manifest import EngineManifest
from mm_api.documents.serving_plan import ServingPlan
from mm_runtime.build import manifest as manifests
from mm_runtime.errors import ExitCode, PermanentError, ServerFailedError
from mm_runtime.launch.adapters import link_adapters
from mm_runtime.launch.arguments import ServerOptions, server_environment, world_argv
from mm_runtime.launch.backends import NATIVE, copy_backends, find_installation
from mm_runtime.launch.health import State, in_flight, listens, probe
from mm_runtime.launch.process import ChildProcess
from mm_runtime.launch.shared_memory import remove_regions
from mm_runtime.launch.stopping import StopSignal
from mm_runtime.repository.layout import layout
from mm_runtime.repository.write import model_sources, write_repository
from mm_runtime.settings import (
    DRAIN_MARGIN_SECONDS,
    EXIT_SECONDS,
    GATEWAY_PORT,
    QUIET_SECONDS,
    STARTUP_SECONDS,
    Ports,
)

log = logging.getLogger(__name__)

STARTUP_POLL_SECONDS = 0.1
DRAIN_POLL_SECONDS = 0.2
REPORT_SECONDS = 15.0

SERVED = frozenset({"Reference", "TensorRT"})
"""Backends that this version starts a server for."""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What the command line says."""

    manifest: Path
    serving_path: Path
    serving: ServingPlan
    repository: Path
    ports: Ports
    startup_seconds: float = STARTUP_SECONDS
    gateway_port: int = GATEWAY_PORT
    """Port of the gateway in the same pod, which is the last to close; 0 when there is none."""


def serve(options: ServeOptions) -> int:
    """Serve one engine until SIGTERM; return the exit code.

    Raises:
        EngineCorruptError: a file of the engine is damaged.
        PermanentError: the engine is not the one the serving plan means.
        ServerFailedError: tritonserver was not ready in time, or ended by itself.
    """
    with StopSignal() as stop:
        engine = _verified_engine(options)
        server = _prepare(options, engine)
        if stop.is_set:
            return ExitCode.OK
        remove_regions(server.shm_prefix)
        installation = find_installation()
        child = ChildProcess(
            world_argv(installation, server, _ranks(engine)),
            server_environment(installation, os.environ),
            _forward,
        )
        try:
            if _wait_until_ready(child, options, stop):
                code = child.wait(None, stop)
                if code is not None:
                    raise ServerFailedError(f"tritonserver ended by itself with exit code {code}.")
                _drain(child, options, stop)
        finally:
            code = child.stop(EXIT_SECONDS)
            remove_regions(server.shm_prefix)
            log.info("tritonserver ended with exit code %d", code)
    return ExitCode.OK


def _verified_engine(options: ServeOptions) -> EngineManifest:
    engine = manifests.read(options.manifest)
    if engine.fingerprint != options.serving.fingerprint:
        raise PermanentError(
            f"{options.manifest} is engine {engine.fingerprint[:16]}; the serving plan is for"
            f" {options.serving.fingerprint[:16]}. The wrong store or path is mounted."
        )
    if engine.plan.engine.backend != options.serving.backend:
        raise PermanentError(
            f"{options.manifest} is for backend {engine.plan.engine.backend}; the serving plan says"
            f" {options.serving.backend}."
        )
    if engine.plan.engine.backend not in SERVED:
        raise PermanentError(
            f"This image does not serve engines of backend {engine.plan.engine.backend}; expected"
            f" {' or '.join(sorted(SERVED))}. Set spec.runtime.image to a version that does, or"
            " spec.engine.backend to Reference."
        )
    began = time.monotonic()
    manifests.verify(options.manifest.parent, engine)
    log.info(
        "engine %s verified: %d files in %.1f s",
        engine.fingerprint[:16],
        len(engine.files),
        time.monotonic() - began,
    )
    return engine


def _ranks(engine: EngineManifest) -> int:
    return engine.plan.trtllm.ranks if engine.plan.trtllm else 1


def _prepare(options: ServeOptions, engine: EngineManifest) -> ServerOptions:
    installation = find_installation()
    if engine.plan.engine.backend == "TensorRT" and installation.native is None:
        raise PermanentError(
            f"This image has no TensorRT-LLM backend (no {NATIVE} beside {installation.backend});"
            " expected one made from NVIDIA's tritonserver image with TensorRT-LLM: set"
            " spec.runtime.image."
        )
    repository = options.repository.absolute()
    server = ServerOptions(
        repository=repository,
        backends=repository.parent / "backends",
        ports=options.ports,
        pools=options.serving.pools,
        exit_seconds=math.floor(EXIT_SECONDS / 2),
    )
    files = layout(
        engine,
        options.serving,
        engine_dir=options.manifest.parent.absolute(),
        serving_plan=options.serving_path.absolute(),
        adapters=repository.parent / "adapters",
        sources=model_sources(),
    )
    write_repository(repository, files)
    link_adapters(options.manifest.parent / "lora", repository.parent / "adapters")
    copy_backends(installation, repository.parent / "backends")
    return server


def _wait_until_ready(child: ChildProcess, options: ServeOptions, stop: StopSignal) -> bool:
    """Return True once the server is ready, False when a stop signal comes before.

    Raises:
        ServerFailedError: it ended, or time is up; carries its last lines.
    """
    began = reported = time.monotonic()
    while not stop.is_set:
        state = probe(options.ports)
        waited = time.monotonic() - began
        if state is State.READY:
            log.info("ready after %.1f s", waited)
            return True
        code = child.wait(STARTUP_POLL_SECONDS, stop)
        if code is not None:
            raise ServerFailedError(
                f"tritonserver ended with exit code {code} before it was ready; last lines:\n  "
                + "\n  ".join(child.tail)
            )
        if waited > options.startup_seconds:
            raise ServerFailedError(
                f"tritonserver is {state.value} after {waited:.0f} s; ended. Last lines:\n  "
                + "\n  ".join(child.tail)
            )
        if time.monotonic() - reported > REPORT_SECONDS:
            reported = time.monotonic()
            log.info("%s for %.0f s", state.value, waited)
    # Others may have found it ready between two of our probes, and have requests in flight.
    return probe(options.ports) is State.READY


def _drain(child: ChildProcess, options: ServeOptions, stop: StopSignal) -> None:
    """Keep serving until the gateway has gone and nothing has been in flight for a while.

    tritonserver refuses new requests from its SIGTERM on. But the gateway in the same pod may get
    its own SIGTERM at the same time and still sends what it has admitted: it may be fetching a
    picture, so a quiet second here does not mean that it has finished. It closes its port last.
    """
    limit = options.serving.gateway.request_timeout_seconds + DRAIN_MARGIN_SECONDS
    name = stop.received.name if stop.received else "a signal"
    log.info("%s: draining for at most %.0f s", name, limit)
    began = last_busy = time.monotonic()
    while (now := time.monotonic()) - began < limit:
        if child.wait(DRAIN_POLL_SECONDS) is not None:
            return
        load = in_flight(options.ports)
        if load is None or load.total or listens(options.ports.probe_host, options.gateway_port):
            last_busy = now
        elif now - last_busy >= QUIET_SECONDS:
            log.info("drained in %.1f s", now - began)
            return
    log.warning("requests are still in flight after %.0f s; they are ended", limit)


def _forward(line: str) -> None:
    """Pass a line of tritonserver on: it has a level and a time of its own."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
